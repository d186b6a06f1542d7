"""Table of `shelltie top`: runs and questions as lines of styled text. Pure.

Every text of others has been made visible before (`control/live_rows`), so it is only cut here.
"""

import math
from collections.abc import Mapping
from typing import Any

from shelltie.basics import visible_text
from shelltie.basics.times import human_duration, local_clock
from shelltie.model import State
from shelltie.record.past_runs import end_of

Row = Mapping[str, Any]
Part = tuple[str, str]  # a text, and its style: bold, dim, red, yellow, green, reverse, or none
Line = list[Part]

_MARK, _AGENT, _SINCE, _BAR, _LEFT = 2, 11, 7, 8, 12  # columns
_LEASH = _BAR + 1 + _LEFT
_DIRECTORY_MAX = 40
_ROOM_MIN = 16  # for command and directory
_SOON = 10.0  # seconds before an end in which it is red


def by_age(rows: Mapping[str, Row], text: str) -> tuple[list[str], list[str]]:
    """The keys of all questions, the oldest first, and of the runs with a text in them: those that
    run before those that have ended, and the newest of both first.
    """
    questions = [key for key in rows if key.startswith("question/")]
    runs = [key for key in rows if key.startswith("run/") and _has(rows[key], text)]
    live = [key for key in runs if not rows[key].get("ended")]
    ended = [key for key in runs if rows[key].get("ended")]
    return (
        sorted(questions, key=lambda key: _number(rows[key], "askedAt")),
        [
            *sorted(live, key=lambda key: -_number(rows[key], "startedAt")),
            *sorted(ended, key=lambda key: -_number(rows[key], "endedAt")),
        ],
    )


def _has(row: Row, text: str) -> bool:
    searched = (row.get("command"), row.get("cwd"), asker(row), row.get("sessionId"))
    return text.lower() in " ".join(str(one or "") for one in searched).lower()


def asker(row: Row, server: Row | None = None) -> str:
    """Which agent it is for, without its version."""
    told = str(row.get("agent") or row.get("client") or (server or {}).get("client") or "-")
    name, _, version = told.rpartition(" ")
    return name if name and version[:1].isdigit() else told


def heading(width: int) -> Line:
    """The names of the columns; where it is narrow, the command and its leash are all."""
    command, directory = _widths(width)
    if not directory:
        return [(f"{' ' * _MARK}{fit('COMMAND', command)} {fit('LEASH', _LEASH)}", "bold")]
    names = (
        *(("AGENT", _AGENT), ("COMMAND", command), ("DIRECTORY", directory), ("SINCE", _SINCE)),
        ("LEASH", _LEASH),
    )
    return [(" " * _MARK + " ".join(fit(name, room) for name, room in names), "bold")]


def run_line(row: Row, who: str, now: float, width: int, home: str) -> Line:
    """A run: its agent, command, directory, age, and its leash or how it ended."""
    command, directory = _widths(width)
    style = "dim" if row.get("ended") else ""
    if not directory:
        told = fit(str(row.get("command") or ""), command)
        return [(f"{' ' * _MARK}{told} ", style), *_leash(row, now)]
    cwd = _from_home(str(row.get("cwd") or ""), home)
    since = clock(now - _number(row, "startedAt"))
    texts = (
        *(fit(who, _AGENT), fit(str(row.get("command") or ""), command)),
        *(fit_end(cwd, directory), f"{'' if row.get('ended') else since:>{_SINCE}}"),
    )
    return [(" " * _MARK + " ".join(texts) + " ", style), *_leash(row, now)]


def question_line(row: Row, who: str, now: float, width: int) -> Line:
    """A question: who asks for what, and when it is answered by no."""
    room = width - _MARK - _AGENT - _LEFT - 2
    left = f"{until_no(row, now):>{_LEFT}}"
    command = fit(" ⏎ ".join(map(str, row.get("command") or ())), room)
    return [("? ", "yellow"), (f"{fit(who, _AGENT)} {command}", "bold"), (f" {left}", "yellow")]


def until_no(row: Row, now: float) -> str:
    """When nobody's answer is a no."""
    at = row.get("expiresAt")
    return "" if at is None else f"no in {clock(_number(row, 'expiresAt') - now)}"


def describe(row: Row, now: float, width: int) -> list[Line]:
    """Two lines more about the row that is selected."""
    where = str(row.get("cwd") or "")
    if "digest" in row:
        reasons = "; ".join(str(one.get("message")) for one in row.get("reasons", ()))
        return [[(fit(f"in {where}", width), "")], [(fit(reasons, width), "yellow")]]
    began = row.get("startedAt")
    since = "" if began is None else f" · since {local_clock(float(began), now)}"
    name = str(row.get("sessionId") or row.get("runId") or "")
    why = str(row.get("stopReason") or "")
    told = [why] if row.get("ended") and why else [_next_limit(row, now), _verdict(row)]
    return [
        [(fit(f"{name} in {where}{since}", width), "")],
        [(fit(" · ".join(filter(None, told)), width), "dim")],
    ]


def _verdict(row: Row) -> str:
    reasons = "; ".join(
        visible_text.inline(str(one.get("message"))) for one in row.get("reasons", ())
    )
    return ": ".join(filter(None, (str(row.get("verdict") or ""), reasons)))


def _next_limit(row: Row, now: float) -> str:
    if row.get("ended"):
        return ""
    if not (limit := _deadline(row)):
        return "no limit ends it"
    left = f"{clock(float(limit['at']) - now)} left"
    return f"{limit['limit']} limit {human_duration(float(limit['span']))}, {left}"


def _leash(row: Row, now: float) -> Line:
    if row.get("ended"):
        said = end_of(str(row.get("state")), row.get("exitCode"), row.get("limit"))
        good = (row.get("state"), row.get("exitCode")) == (State.FINISHED, 0)
        return [(fit(said if good else f"✗ {said}", _LEASH), "dim" if good else "red")]
    if not (limit := _deadline(row)):
        return [(fit("stays" if row.get("stays") else "no limit", _LEASH), "dim")]
    left = max(0.0, float(limit["at"]) - now)
    share = min(1.0, left / max(float(limit["span"]), 0.001))
    filled = math.ceil(share * _BAR)
    near = now >= float(limit["warnAt"]) or left <= _SOON
    style = "red" if left <= _SOON else "yellow" if near else "green"
    said = f"ends in {clock(left)}" if left > 60 else f"ends in {math.ceil(left)} s"
    return [
        ("█" * filled, style),
        ("░" * (_BAR - filled), "dim"),
        (" " + fit(said if near else clock(left), _LEFT), style if near else ""),
    ]


def _deadline(row: Row) -> Mapping[str, Any] | None:
    deadlines = row.get("deadlines") or ()
    return deadlines[0] if deadlines else None


def _widths(width: int) -> tuple[int, int]:
    """Columns for the command and the directory: what the others leave; 0 where it is narrow."""
    room = width - _MARK - _AGENT - _SINCE - _LEASH - 4
    if room < _ROOM_MIN:
        return max(width - _MARK - _LEASH - 1, 1), 0
    directory = min(room // 3, _DIRECTORY_MAX)
    return room - directory, directory


def _from_home(path: str, home: str) -> str:
    inside = len(home) > 1 and (path == home or path.startswith(f"{home}/"))
    return f"~{path[len(home) :]}" if inside else path


def _number(row: Row, name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def clock(span: float) -> str:
    """`0:07`, `12:04`, `1:02:03`."""
    minutes, seconds = divmod(max(0, math.ceil(span)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def fit(text: str, room: int) -> str:
    """The beginning of a text in just so many columns."""
    kept = text
    if visible_text.cells(text) > room:
        kept = folded(text, room - 1)[0] + "…"
    return kept + " " * (room - visible_text.cells(kept))


def fit_end(text: str, room: int) -> str:
    """The end of a text, of which more is told than by its beginning."""
    kept = text
    if visible_text.cells(text) > room:
        kept = "…" + folded(text[::-1], room - 1)[0][::-1]
    return kept + " " * (room - visible_text.cells(kept))


def folded(text: str, room: int) -> list[str]:
    """The whole text in lines of at most so many columns, of which there are; at least one."""
    room = max(room, 1)
    if text.isascii():
        return [text[at : at + room] for at in range(0, len(text), room)] or [""]
    lines, width = [""], 0
    for char in text:
        cells = visible_text.cells(char)
        if width + cells > room:
            lines.append("")
            width = 0
        lines[-1] += char
        width += cells
    return lines
