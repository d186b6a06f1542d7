"""Writing facts: each becomes an entry of the chain, and changes what is known of its run."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from shelltie.keeper import identity
from shelltie.model import LEGAL_TRANSITIONS, State
from shelltie.record.chain import GENESIS, Entry, Head, link
from shelltie.record.facts import Body, Fact

LOST = "lost"
NOT_STARTED = "NOT_STARTED"
_CHUNK = 1024 * 1024
_LAST = "SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1"
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
_REMEMBER = """
    INSERT INTO samples VALUES (:shape, :project, :at, :duration, :silence, :idle, :byLimit)"""
_UNKNOWN: Body = dict.fromkeys(
    (
        *("verdict", "category", "pid", "pidStarted", "ended", "duration", "exitCode", "limit"),
        *("stdout", "stderr", "file", "leftovers"),
    )
)
_as_text = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


def _before(state: State) -> str:
    """From where it may be reached. A run that began may have had no time to say so."""
    ways = [one for one, legal in LEGAL_TRANSITIONS.items() if state in legal]
    if State.RUNNING in ways:
        ways.append(State.CREATED)
    return "(" + ", ".join(f"'{one}'" for one in dict.fromkeys(ways)) + ")"


# Only along the legal ways: whatever comes late or twice changes nothing.
_SAVE_AS: Mapping[str, str] = {
    **{state: _SAVE + _before(state) for state in State},
    LOST: f"{_SAVE}('{State.CREATED}', '{State.RUNNING}')",
}


class Book:
    """The tables, for the one thread that writes them, inside a transaction of its own."""

    def __init__(self, connection: sqlite3.Connection, server: str) -> None:
        self.connection = connection
        self.server = server
        self.head = Head(0, GENESIS)
        self._ready: dict[str, Fact] = {}  # what shall start, or runs: a row is made when it does
        self._over: list[str] = []  # what has ended in this transaction
        self._effects: dict[str, Callable[[Fact], None]] = {
            "ready": self._note,
            "started": self._started,
            "ended": self._ended,
            "refused": self._refused,
            LOST: self._lost,
        }

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is added in it, or nothing.

        Others may have written meanwhile: it goes on where the chain ends now. Raises:
        sqlite3.Error.
        """
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            row = self.connection.execute(_LAST).fetchone()
            self.head = Head(0, GENESIS) if row is None else Head(*row)
            self._over.clear()
            yield
            self.connection.execute("COMMIT")
            for run in self._over:
                self._ready.pop(run, None)
        except BaseException:
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            raise

    def add(self, fact: Fact) -> None:
        """Write it down.

        Raises: sqlite3.Error.
        """
        if (effect := self._effects.get(fact.kind)) is not None:
            effect(fact)
        body = _as_text(fact.body)
        at = round(fact.at * 1_000_000)
        entry = Entry(self.head.seq + 1, at, self.server, fact.run, fact.kind, body)
        self.head = Head(entry.seq, link(self.head.hash, entry))
        values = (entry.seq, entry.at, entry.server, entry.run, entry.kind, entry.body)
        self.connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", (*values, self.head.hash)
        )

    # What a fact changes

    def _note(self, fact: Fact) -> None:
        self._ready[fact.run] = fact

    def _started(self, fact: Fact) -> None:
        self._save(fact, State.RUNNING, fact.body)

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
        row = {**_UNKNOWN, "server": self.server, **first, **known, "id": fact.run, "state": state}
        self._execute(_SAVE_AS[state], row)

    def _execute(self, statement: str, row: Body) -> None:
        try:
            self.connection.execute(statement, row)
        except UnicodeEncodeError:  # a path need not be text; the chain has it in JSON's own words
            plain = {name: _plain(value) for name, value in row.items()}
            self.connection.execute(statement, plain)


def _plain(value: object) -> object:
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "backslashreplace").decode()


def complete(fact: Fact) -> None:
    """Add what is only known by looking: when its process was started, what is in its file.

    This may take a while, so it is done before the transaction.
    """
    if fact.kind == "started":
        fact.body["pidStarted"] = identity.started(cast(int, fact.body["pid"]))
    output = fact.body.get("output")
    if isinstance(output, dict) and output["file"] and output["sha256"] is None:
        output["sha256"] = _digest(Path(output["file"]), output["kept"])


def _digest(path: Path, size: int) -> str | None:
    """The SHA-256 of the first `size` bytes; nothing if the file is not that long any more."""
    digest = hashlib.sha256()
    with suppress(OSError), path.open("rb") as file:
        while size and (chunk := file.read(min(size, _CHUNK))):
            digest.update(chunk)
            size -= len(chunk)
        return None if size else digest.hexdigest()
    return None
