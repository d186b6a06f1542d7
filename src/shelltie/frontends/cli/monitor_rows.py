"""Event lines of `monitor`: one row for each event, in words, with a mark where it matters."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from shelltie.basics import visible_text
from shelltie.basics.times import human_duration
from shelltie.frontends.cli.console import Style, columns
from shelltie.record.past_runs import end_of

Event = Mapping[str, Any]

_TIME, _CLIENT, _RUN, _WHAT = 8, 14, 12, 8
_ROOM_MIN = 20
_KNOWN_MAX = 2000  # runs whose command is remembered
_WHATS = {
    "run:started": "started",
    "run:ended": "ended",
    "run:lost": "lost",
    "run:held": "held",
    "run:released": "released",
    "run:leaked": "left",
    "run:unusual": "unusual",
    "run:signalled": "signal",
    "limit:near": "warning",
    "limit:forgiven": "waits on",
    "limit:extended": "extended",
    "limit:reached": "timeout",
    "command:refused": "refused",
    "hook:answered": "hook",
    "files:used": "files",
    "session:refused": "refused",
    "approval:asked": "asks",
    "approval:answered": "answer",
    "session:named": "session",
    "session:opened": "opened",
    "session:closed": "closed",
    "shell:began": "typed",
    "shell:ended": "done",
    "alert": "alert",
}
_COLOURS = {"✓": "green", "✗": "red", "⚠": "yellow", "?": "yellow"}
# What tells most about an event, the first of them that it has.
_DETAILS = ("message", "command", "session", "signal", "reason", "state", "exitCode")


class MonitorRows:
    """Writes rows. It remembers the command of each run: its end does not repeat it."""

    def __init__(self, ink: Style) -> None:
        self._ink = ink
        self._commands: dict[str, str] = {}
        self._clients: dict[str, str] = {}

    def head(self) -> str:
        """The names of the columns."""
        return self._ink("bold", _row("TIME", "CLIENT", "RUN", "EVENT") + "  DETAILS")

    def line(self, event: Event, server: str) -> str | None:
        """A row; nothing for what only prepares the next event. `server` is who runs it."""
        run = str(event.get("runId") or "")
        self._remember(run, event)
        what = _WHATS.get(str(event["type"]))
        if what is None or (what == "alert" and run):  # of a run its own end tells
            return None
        client = str((self._clients.get(run) if run else event.get("client")) or server)
        client = visible_text.brief(client, _CLIENT)
        local = datetime.fromisoformat(str(event["at"])).astimezone()
        row = _row(local.strftime("%H:%M:%S"), client, run[:_RUN], what)
        mark, text = self._details(event, self._commands.get(run, ""))
        room = max(_ROOM_MIN, columns() - visible_text.cells(row) - 4)
        told = f"{mark} {visible_text.brief(text, room)}"
        colour = _COLOURS.get(mark)
        return f"{row}  {self._ink(colour, told) if colour else told}"

    def _remember(self, run: str, event: Event) -> None:
        if command := event.get("command"):
            self._commands[run] = str(command)
        if run and (client := event.get("client")):
            self._clients[run] = str(client)
        for known in (self._commands, self._clients):
            if len(known) > _KNOWN_MAX:
                del known[next(iter(known))]

    def _details(self, event: Event, command: str) -> tuple[str, str]:
        tell = _DETAILED.get(str(event["type"]))
        if tell is not None:
            return tell(event, command)
        found = (event[name] for name in _DETAILS if event.get(name) not in (None, ""))
        return _MARKS.get(str(event["type"]), " "), str(next(found, ""))


def _ended(event: Event, command: str) -> tuple[str, str]:
    end = end_of(str(event["state"]), event.get("exitCode"), event.get("limit"))
    took = human_duration(float(event.get("duration") or 0))
    return "✓" if end == "exit 0" else "✗", f"{end} after {took} · {command}".rstrip(" ·")


def _refused(event: Event, command: str) -> tuple[str, str]:
    return "✗", f"{event.get('command') or command} · {event.get('message')}"


def _hooked(event: Event, command: str) -> tuple[str, str]:
    mark = {"allow": "✓", "deny": "✗", "ask": "?"}.get(str(event.get("answer")), " ")
    return mark, f"{event.get('answer')} · {event.get('command') or command}"


def files_text(event: Event) -> str:
    """What was done with files, and whether that failed."""
    path, other = str(event["path"]) or ".", event.get("local")
    ends = {"upload": f"{other} → {path}", "download": f"{path} → {other}"}
    told = f"{event['action']} {ends.get(str(event['action']), path)}"
    return f"✗ {told} · {event['problem']}" if event.get("problem") else told


def _used_files(event: Event, _: str) -> tuple[str, str]:
    told = files_text(event)
    return ("✗", told[2:]) if event.get("problem") else (" ", told)


def _asked(event: Event, command: str) -> tuple[str, str]:
    return "?", f"{event.get('question')} · {event.get('command') or command}"


def _answered(event: Event, command: str) -> tuple[str, str]:
    allowed = event.get("allowed") is True
    scope = f" ({event['scope']})" if allowed and event.get("scope") else ""
    why = event.get("by") if allowed else event.get("reason") or event.get("by")
    said = f"{'yes' if allowed else 'no'}{scope} · {event.get('question')} · {why} · {command}"
    return "✓" if allowed else "✗", said.rstrip(" ·")


def _extended(event: Event, command: str) -> tuple[str, str]:
    return " ", f"limits {human_duration(float(event.get('by') or 0))} longer · {command}"


def _started(_: Event, command: str) -> tuple[str, str]:
    return " ", command


_DETAILED: dict[str, Callable[[Event, str], tuple[str, str]]] = {
    "run:started": _started,
    "limit:extended": _extended,
    "run:ended": _ended,
    "command:refused": _refused,
    "hook:answered": _hooked,
    "files:used": _used_files,
    "session:refused": _refused,
    "approval:asked": _asked,
    "approval:answered": _answered,
}
_MARKS = {
    "limit:near": "⚠",
    "limit:forgiven": "⚠",
    "run:unusual": "⚠",
    "alert": "⚠",
    "limit:reached": "✗",
    "run:leaked": "✗",
    "run:lost": "✗",
}


def _row(time: str, client: str, run: str, what: str) -> str:
    pad = " " * (_CLIENT - visible_text.cells(client))
    return f"{time:<{_TIME}}  {client}{pad}  {run:<{_RUN}}  {what:<{_WHAT}}"
