"""Projection of the chain into tables of runs and samples, fact by fact."""

import json
import sqlite3
from collections.abc import Callable, Mapping
from typing import cast

from shelltie.model import LEGAL_TRANSITIONS, State
from shelltie.record.facts import Body, Fact

LOST = "lost"
NOT_STARTED = "NOT_STARTED"
_KNOWN = ("command", "cwd", "client", "agent", "task", "session", "provider")
_SAVE = """
    INSERT INTO runs VALUES (:id, :server, :state, :command, :cwd, :client, :agent, :task, :session,
        :staysOpen, :provider, :verdict, :category, :began, :pid, :pidStarted, :ended, :duration,
        :exitCode, :limit, :stdout, :stderr, :file, :leftovers)
    ON CONFLICT (id) DO UPDATE SET state = :state, ended = :ended, duration = :duration,
        exit_code = :exitCode, limit_reached = :limit, stdout = :stdout, stderr = :stderr,
        file = :file, leftovers = :leftovers, pid = ifnull(:pid, pid),
        pid_started = ifnull(:pidStarted, pid_started)
    WHERE ended IS NULL AND state IN """
_NAME = "UPDATE runs SET session = :session WHERE id = :id AND session = ''"
_HOLD = "UPDATE runs SET server = :server WHERE id = :id AND ended IS NULL"
_BEGINNING = """
    SELECT at, kind, body FROM entries WHERE run = ? AND kind IN ('ready', 'session_named')
    ORDER BY seq"""
_REMEMBER = """
    INSERT INTO samples VALUES (:shape, :project, :at, :duration, :silence, :idle, :byLimit)"""
_UNKNOWN: Body = dict.fromkeys(
    (
        *("verdict", "category", "pid", "pidStarted", "ended", "duration", "exitCode", "limit"),
        *("stdout", "stderr", "file", "leftovers"),
    )
)


def _before(state: State) -> str:
    """From where it may be reached. A run that began may have had no time to say so."""
    states = [before for before, after in LEGAL_TRANSITIONS.items() if state in after]
    if State.RUNNING in states:
        states.append(State.CREATED)
    return "(" + ", ".join(f"'{before}'" for before in dict.fromkeys(states)) + ")"


# Only along the legal ways: whatever comes late or twice changes nothing.
_SAVE_AS: Mapping[str, str] = {
    **{state: _SAVE + _before(state) for state in State},
    LOST: f"{_SAVE}('{State.CREATED}', '{State.RUNNING}')",
}


class Tables:
    """The tables of runs and samples, as far as one server changes them."""

    def __init__(self, connection: sqlite3.Connection, server: str) -> None:
        self._connection = connection
        self._server = server
        self._ready: dict[str, Fact] = {}  # what shall start, or runs: a row is made when it does
        self._over: list[str] = []  # what has ended in this transaction
        self._effects: dict[str, Callable[[Fact], None]] = {
            "ready": self._note,
            "session_named": self._named,
            "started": self._started,
            "ended": self._ended,
            "held": self._held,
            "refused": self._refused,
            LOST: self._lost,
        }

    def apply(self, fact: Fact) -> None:
        """Change what the fact changes.

        Raises: sqlite3.Error; anything else for a fact that is none.
        """
        if (effect := self._effects.get(fact.kind)) is not None:
            effect(fact)

    def begin(self) -> None:
        """A transaction begins; if there was one before, it was undone."""
        self._over.clear()

    def keep(self) -> None:
        """What was changed since `begin` will stay."""
        for run in self._over:
            self._ready.pop(run, None)
        self._over.clear()

    def expects(self, run: str) -> bool:
        """It was said to be ready, and has not ended."""
        return run in self._ready

    def _note(self, fact: Fact) -> None:
        self._ready[fact.run] = fact

    def _named(self, fact: Fact) -> None:
        """The command of a task keeps the id of the task's context."""
        name = str(fact.body["session"])
        if (ready := self._ready.get(fact.run)) is not None and not ready.body.get("session"):
            body = {**ready.body, "session": name}
            self._ready[fact.run] = Fact(ready.run, ready.at, ready.kind, body)
        self._execute(_NAME, {"session": name, "id": fact.run})

    def _started(self, fact: Fact) -> None:
        self._save(fact, State.RUNNING, fact.body)

    def _held(self, fact: Fact) -> None:
        """It outlived the server that had it, which may have had no time to write that it began."""
        if fact.run not in self._ready:
            for at, kind, body in self._connection.execute(_BEGINNING, (fact.run,)).fetchall():
                self.apply(Fact(fact.run, at / 1_000_000, str(kind), dict(json.loads(body))))
        self._execute(_HOLD, {"server": self._server, "id": fact.run})

    def _ended(self, fact: Fact) -> None:
        output = cast(Body, fact.body.get("output") or {})
        if fact.run:
            self._save(fact, str(fact.body["state"]), {**fact.body, **output, "ended": fact.at})
            self._over.append(fact.run)
        if (sample := fact.body.get("sample")) is not None:
            row = {**cast(Body, sample), "at": fact.at, "duration": fact.body["duration"]}
            self._execute(_REMEMBER, row)

    def _refused(self, fact: Fact) -> None:
        """It will not start after all; but a command for a shell that runs changes nothing."""
        if fact.body["code"] == NOT_STARTED:
            self._over.append(fact.run)

    def _lost(self, fact: Fact) -> None:
        known = {**fact.body, "ended": fact.at}
        self._save(fact, LOST, {**known, "leftovers": json.dumps(fact.body["leftovers"])})

    def _save(self, fact: Fact, state: str, known: Body) -> None:
        ready = self._ready.get(fact.run)
        first: Body = {"began": fact.at, "staysOpen": False, **dict.fromkeys(_KNOWN, "")}
        if ready is not None:
            first |= {**ready.body, "began": ready.at}
            first["category"] = cast(Body, ready.body["limits"])["category"]
        row = {**_UNKNOWN, "server": self._server, **first, **known, "id": fact.run, "state": state}
        self._execute(_SAVE_AS[state], row)

    def _execute(self, statement: str, row: Body) -> None:
        try:
            self._connection.execute(statement, row)
        except UnicodeEncodeError:  # a path need not be text; the chain has it in JSON's own words
            text = {k: plain(v) if isinstance(v, str) else v for k, v in row.items()}
            self._connection.execute(statement, text)


def plain(text: str) -> str:
    """As SQLite can store and look for it: what is no text in a text is spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()
