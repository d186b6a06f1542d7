"""Recorded output of past runs, read from their spool files."""

import json
import sys
from argparse import Namespace
from pathlib import Path

from shelltie.basics import visible_text
from shelltie.basics.frozen import frozen
from shelltie.basics.times import human_size
from shelltie.errors import OutputNotKept, TerminalError
from shelltie.events import RunLost
from shelltie.frontends.cli.terminal import print_error, width
from shelltie.output.text import clean, decode
from shelltie.output.timing_file import SUFFIX, pieces
from shelltie.record import queries
from shelltie.record.queries import PastRun, PastRuns
from shelltie.settings import layers, paths

_PREFIX_MIN = 4
_SHOWN = 5


def lost() -> list[RunLost]:
    """What dead servers left, lately, whether somebody has settled it or not."""
    config = layers.load(paths.here())
    spools = Path(config.state.dir) / "output"
    return [*queries.abandoned(config.journal, spools), *queries.lost(config.journal)]


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


def print_output(args: Namespace) -> bool:
    """Print what a run that is over had printed; false if there is no such run."""
    try:
        found = _find(args.id.strip().upper().removeprefix("TERM_"))
    except TerminalError:
        return False
    if len(found) != 1:
        return False
    (run,) = found
    data = _kept(run)
    if data is None:
        why = "it printed nothing" if run.printed == 0 else "its output was not kept on disk"
        print_error(f"{run.run} is over ({run.state}), and {why}")
        return True
    if args.tail is not None:
        data = b"".join(data.splitlines(keepends=True)[-args.tail :] if args.tail else [])
    if args.json:
        text = decode(data) if args.raw else clean(data)
        end = {"id": run.run, "runId": run.run, "state": run.state, "exitCode": run.exit_code}
        print(json.dumps({**end, "bytes": len(data), "text": text}))
    elif args.raw:
        sys.stdout.buffer.write(data)
    else:
        print(clean(data), end="")
    return True


def _find(name: str) -> list[PastRuns]:
    if len(name) < _PREFIX_MIN:
        return []
    config = layers.load(paths.here())
    left = [
        PastRuns(one.run, one.command, "lost", None, one.file)
        for one in queries.abandoned(config.journal, Path(config.state.dir) / "output")
        if one.run.startswith(name) or one.session.upper() == name
    ]
    return left or queries.past(config.journal, name)


def _kept(run: PastRuns) -> bytes | None:
    try:
        return Path(run.file).read_bytes() if run.file is not None else None
    except OSError:
        return None


@frozen
class Recording:
    """A run, what it printed, and when it had printed how much of that."""

    run: PastRun
    data: bytes
    times: list[tuple[float, int]]

    def chunks(self) -> list[tuple[float, bytes]]:
        """Each piece with its time."""
        starts = [0, *(end for _, end in self.times)]
        return [
            (at, self.data[start:end]) for start, (at, end) in zip(starts, self.times, strict=False)
        ]


def load(name: str) -> Recording:
    """The recording of the run with this id; its first characters will do.

    Raises: NoRecordedRun, OutputNotKept, JournalUnusable, JournalUnreadable.
    """
    run = queries.find(layers.load(paths.here()).journal, name)
    if run.running:
        raise OutputNotKept(f"it still runs: shelltie logs {run.id}")
    if not (run.stdout or run.stderr) and run.duration is not None:
        return Recording(run, b"", [])
    if run.file is None:
        raise OutputNotKept(
            f"what {run.id} printed was not kept on disk: only long output and sessions are,"
            ' unless output.keep = "all"'
        )
    path = Path(run.file)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise OutputNotKept(f"what {run.id} printed is not there any more: {error}") from error
    return Recording(run, data, pieces(path.with_suffix(SUFFIX), len(data)))
