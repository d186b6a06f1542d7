"""Recorded output of past runs, read from their spool files."""

import sys
from pathlib import Path

from shelltie.basics import visible_text
from shelltie.basics.times import human_size
from shelltie.events import RunLost
from shelltie.frontends.cli.console import width
from shelltie.keeper.stay_folder import staying_runs
from shelltie.record import past_runs, queries
from shelltie.record.past_runs import PastRun
from shelltie.record.recording import Recording, recording_of
from shelltie.settings import layers, paths
from shelltie.settings.config import Config

_PREFIX_MIN = 4
_SHOWN = 5


def lost() -> list[RunLost]:
    """What dead servers left, lately, whether somebody has settled it or not."""
    config = layers.load(paths.here())
    return [*_unsettled(config), *queries.lost(config.journal)]


def as_json(one: RunLost) -> dict[str, object]:
    """For programs, beside what runs."""
    return {
        "id": one.session or one.run,
        "runId": one.run,
        "sessionId": one.session or None,
        "command": one.command,
        "cwd": one.cwd,
        "pid": None,
        "state": "lost",
        "outputBytes": one.size,
        "outputFile": one.file,
        "client": one.client,
        "server": None,
    }


def tell(found: list[RunLost]) -> None:
    """Say it below a list of what runs."""
    if not found:
        return
    print("\nLost when a server died (shelltie logs ID prints what was kept):", file=sys.stderr)
    for run in found[:_SHOWN]:
        head = f"  {run.session or run.run:<26}  {human_size(run.size):>8}  "
        room = max(12, width() - len(head))
        print(head + visible_text.brief(run.command, room), file=sys.stderr)
    if len(found) > _SHOWN:
        print(f"  and {len(found) - _SHOWN} more", file=sys.stderr)


def load(name: str) -> Recording:
    """The recording of the run with this id; its first characters will do.

    Raises: NoRecordedRun, OutputNotKept, JournalUnusable, JournalUnreadable.
    """
    config = layers.load(paths.here())
    run = _abandoned(config, name) or past_runs.find(config.journal, name)
    return recording_of(run)


def _unsettled(config: Config) -> list[RunLost]:
    spools = Path(config.state.dir) / "output"
    return queries.abandoned(config.journal, spools, staying_runs(config))


def _abandoned(config: Config, name: str) -> PastRun | None:
    """Of a server that died, before anybody has settled it."""
    wanted = name.strip().upper().removeprefix("TERM_")
    if len(wanted) < _PREFIX_MIN:
        return None
    for one in _unsettled(config):
        if one.run.startswith(wanted) or one.session.upper() == wanted:
            about = (one.run, "lost", one.command, one.cwd, one.client, "", None, one.began)
            return PastRun(*about, None, None, None, one.size, 0, one.file, one.session)
    return None
