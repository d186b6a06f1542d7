"""What no running server has any more: runs that were lost with theirs, and output on disk."""

import json
import sys
from argparse import Namespace
from pathlib import Path

from shelltie import config as settings
from shelltie import whereabouts
from shelltie.approval import shown
from shelltie.errors import TerminalError
from shelltie.events import RunLost
from shelltie.frontends.cli.words import complain, width
from shelltie.model import human_size
from shelltie.output.text import clean, decode
from shelltie.record import reading
from shelltie.record.reading import Past

_PREFIX_MIN = 4
_SHOWN = 5


def lost() -> list[RunLost]:
    """What dead servers left, lately, whether somebody has settled it or not."""
    config = settings.load(whereabouts.here())
    spools = Path(config.state_dir) / "output"
    return [*reading.abandoned(config.journal, spools), *reading.lost(config.journal)]


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
    for one in found[:_SHOWN]:
        told = f"  {one.session or one.run:<26}  {human_size(one.size):>8}  "
        room = max(12, width() - len(told))
        print(told + shown.brief(one.command, room), file=sys.stderr)
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
    (one,) = found
    data = _kept(one)
    if data is None:
        why = "it printed nothing" if one.printed == 0 else "its output was not kept on disk"
        complain(f"{one.run} is over ({one.state}), and {why}")
        return True
    if args.tail is not None:
        data = b"".join(data.splitlines(keepends=True)[-args.tail :] if args.tail else [])
    if args.json:
        text = decode(data) if args.raw else clean(data)
        end = {"id": one.run, "runId": one.run, "state": one.state, "exitCode": one.exit_code}
        print(json.dumps({**end, "bytes": len(data), "text": text}))
    elif args.raw:
        sys.stdout.buffer.write(data)
    else:
        print(clean(data), end="")
    return True


def _find(name: str) -> list[Past]:
    if len(name) < _PREFIX_MIN:
        return []
    config = settings.load(whereabouts.here())
    left = [
        Past(one.run, one.command, "lost", None, one.file)
        for one in reading.abandoned(config.journal, Path(config.state_dir) / "output")
        if one.run.startswith(name) or one.session.upper() == name
    ]
    return left or reading.past(config.journal, name)


def _kept(one: Past) -> bytes | None:
    try:
        return Path(one.file).read_bytes() if one.file is not None else None
    except OSError:
        return None
