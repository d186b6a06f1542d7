"""Finds and ends what outlived its program and no server lists (detached runs), for `ps`, `kill`.

What a server holds is in that server's list, like everything else there.
"""

import time
from collections.abc import Collection, Sequence
from contextlib import suppress

import anyio

from shelltie.basics import visible_text
from shelltie.basics.frozen import frozen
from shelltie.errors import TerminalError
from shelltie.frontends.cli.console import print_error, width
from shelltie.frontends.cli.find_run import FoundRun, describe_exit, list_runs
from shelltie.frontends.cli.main import NOT_DONE
from shelltie.keeper.stay_folder import StayFolder, stay_folder, staying_runs
from shelltie.model import Caller
from shelltie.running.staying_note import StayingNote
from shelltie.settings import layers, paths
from shelltie.settings.config import Config

_PREFIX_MIN = 4


@frozen
class LoneRun:
    """A run that stays, and that no program holds; `note` is what its last one has left."""

    run: str
    note: StayingNote | None

    @property
    def id(self) -> str:
        """What people call it."""
        return (self.note.session if self.note else "") or self.run

    @property
    def command(self) -> str:
        """What it is, on one line."""
        return visible_text.inline(self.note.command if self.note else "unknown")

    @property
    def ended(self) -> bool:
        """It has, and the client of its session has not read of it."""
        return bool(self.note and self.note.ended)

    def as_json(self) -> dict[str, object]:
        """For programs, beside what runs in a server."""
        note = self.note
        return {
            "id": self.id,
            "runId": self.run,
            "sessionId": (note.session if note else "") or None,
            "command": note.command if note else None,
            "cwd": note.cwd if note else None,
            "state": "ended" if self.ended else "running",
            "elapsedSeconds": round(time.time() - note.began, 3) if note else None,
            "outputBytes": None,  # only whoever holds it knows
            "pty": bool(note and note.terminal),
            "stays": True,
            "client": note.client if note else None,
            "lastHeldBy": note.holder if note else None,
            "server": None,
        }


def lone_runs(listed: Collection[FoundRun] | None = None) -> list[LoneRun]:
    """What stays and is in no server's list, which is looked for if it is not given; the oldest
    first.
    """
    config = layers.load(paths.here())
    if not (living := sorted(staying_runs(config))):
        return []
    found = list_runs()[1] if listed is None else listed
    held = {one.listed.run_id for one in found}
    return [_lone(config, run) for run in living if run not in held]


def _lone(config: Config, run: str) -> LoneRun:
    note = None
    with suppress(OSError, ValueError):  # it begins or ends just now
        note = StayingNote.of_bytes(StayFolder(stay_folder(config)).about(run))
    return LoneRun(run, note)


def match_lone(name: str, lone: Sequence[LoneRun]) -> LoneRun | None:
    """The one that is meant by the id of a session, or the first characters of a run's."""
    wanted = name.strip().removeprefix("term_")
    found = [one for one in lone if one.note and one.note.session == wanted.lower()]
    if not found and len(wanted) >= _PREFIX_MIN:
        found = [one for one in lone if one.run.startswith(wanted.upper())]
    return found[0] if len(found) == 1 else None


def split_names(names: Sequence[str], lone: Sequence[LoneRun]) -> tuple[list[str], list[str]]:
    """The runs of those that no server lists, and the other names; without any, all of it."""
    if not names:
        return [one.run for one in lone], []
    found, rest = dict[str, None](), list[str]()
    for name in names:
        if (one := match_lone(name, lone)) is None:
            rest.append(name)
        else:
            found[one.run] = None
    return list(found), rest


def end_staying(runs: Sequence[str]) -> int:
    """End each of them, and say what became of it."""
    return anyio.run(_end, runs) if runs else 0


async def _end(runs: Sequence[str]) -> int:
    from shelltie.frontends.api import Terminal  # most that is ended runs in a server

    code = 0
    async with Terminal(caller=Caller(client="shelltie kill")) as terminal:
        for run in runs:
            note = terminal.staying_runs.note(run)
            command = visible_text.brief(note.command, width() // 2) if note else "unknown"
            name = (note.session if note else "") or run
            try:
                outcome = await terminal.staying_runs.end(run, "shelltie kill")
            except TerminalError as error:
                print_error(f"{name}: {visible_text.inline(str(error))}")
                code = NOT_DONE
                continue
            how = f" ({describe_exit(outcome.exit)})" if outcome and outcome.exit else ""
            print(f"{name} ended{how}, nobody is left: {command}")
    return code
