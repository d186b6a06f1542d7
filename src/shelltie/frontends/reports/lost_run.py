"""JSON and texts about runs whose server crashed: listed, and still readable."""

from pathlib import Path

import anyio.to_thread

from shelltie.basics.lazy_regex import lazy
from shelltie.basics.times import human_size, iso_utc
from shelltie.errors import InvalidParameters
from shelltie.events import RunLost
from shelltie.frontends.reports.session_report import RedactedReading, SessionReport, visible
from shelltie.output.redact import NEAR, Redactor
from shelltie.output.text import decode
from shelltie.running.options import Requester
from shelltie.running.supervisor import Supervisor

_ID = lazy(r"[0-9A-HJKMNP-TV-Z]{26}|term-\d{1,18}")
_SHOWN = 5
_HINT = (
    "the server that ran it died, and all of it ended then; this is what it had printed. Start it"
    " again if you still need it"
)


async def lost_runs(supervisor: Supervisor, requester: Requester) -> list[RunLost]:
    """What was this caller's, lately; the newest first."""
    record = supervisor.record
    return [] if record is None else await record.lost(requester.caller.client)


async def find(supervisor: Supervisor, requester: Requester, name: str) -> RunLost | None:
    """The one with this id of a session or a run, if there is one."""
    record = supervisor.record
    if record is None or not _ID.fullmatch(name):
        return None
    return await record.lost_one(name, requester.caller.client)


def nearby(found: list[RunLost], place: Path) -> list[RunLost]:
    """Those that ran in this directory or below it."""
    return [one for one in found if Path(one.cwd).is_relative_to(place)]


def name_of(lost: RunLost) -> str:
    """The id its client knew, as far as that was recorded."""
    return lost.session or lost.run


def listed(lost: RunLost) -> dict[str, object]:
    """In a list, for programs."""
    return {
        "id": name_of(lost),
        "runId": lost.run,
        "command": lost.command,
        "cwd": lost.cwd,
        "startedAt": iso_utc(lost.began, "seconds"),
        "outputBytes": lost.size,
    }


def list_text(found: list[RunLost]) -> str:
    """Lines below a list of what runs; nothing if nothing was lost."""
    if not found:
        return ""
    lines = [
        f"{name_of(one)} | {' '.join(one.command.split())[:30]} | {human_size(one.size)} kept"
        for one in found[:_SHOWN]
    ]
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    head = "Lost when a server died; read what they printed with terminal_output:"
    return "\n".join(["", "", head, *lines, *more])


async def report(
    lost: RunLost, start: int, limit: int, *, raw: bool, redactor: Redactor | None = None
) -> SessionReport:
    """What it had printed, from a position on.

    Raises: InvalidParameters for a position that is not there.
    """
    text = await anyio.to_thread.run_sync(_text, lost)
    if start > len(text):
        raise InvalidParameters(f"position must be between 0 and {len(text)}, not {start}")
    piece = text[start : start + limit]
    rest = start + len(piece) < len(text)
    discretion = None
    if redactor is not None:
        discretion = RedactedReading(redactor, text[max(0, start - NEAR) : start])
    around = text[start : start + len(piece) + NEAR]
    return SessionReport(
        id=name_of(lost),
        command=lost.command,
        output=visible(around, len(piece), discretion, raw=raw),
        position=len(text),
        complete=not rest,
        exit_code=None,
        running=False,
        waiting_for_input=False,
        password=False,
        last_line=None,
        truncated=rest,
        read_from=start + len(piece) if rest else None,
        skipped=0,
        found=None,
        hint=_HINT,
        status="lost",
    )


def _text(lost: RunLost) -> str:
    try:
        return decode(Path(lost.file).read_bytes()) if lost.file is not None else ""
    except OSError:
        return ""
