"""A question as a person reads it, so that a yes means what they think it means. Pure."""

import shlex
from collections.abc import Iterator

from shelltie.approval import lookalikes, shown
from shelltie.approval.question import Question
from shelltie.model import human_duration, human_size
from shelltie.verdict import Reason

_LINES_MAX = 40  # more of a text are shown only where all of it is wanted
_HEAD, _TAIL = 20, 8
_AT_A_GLANCE = 3  # lines in which nobody needs help to find what a reason is about
_REASONS_MAX = 12
_AROUND = 24  # characters before and after what a reason is about
_PIECE_MAX = 400
_INDENT = "  "


def card(question: Question, *, now: float, width: int = 80, full: bool = False) -> list[str]:
    """Everything that a yes is bound to, and why it is asked.

    The strictest reasons come last, where the eye is, with what they are about: no length of a
    command hides them. `full` leaves nothing out.
    """
    room = width - len(_INDENT)
    parts = (
        _facts(question, room),
        _command(question, room, full=full),
        _stdin(question, room, full=full),
        _doubts(question, room),
        _reasons(question, room),
    )
    return [_heading(question, now), *(_INDENT + line for part in parts for line in part)]


def text_of(question: Question) -> str:
    """The command as one text, as it would be typed."""
    command = question.command
    return command.text if command.argv is None else shlex.join(command.argv)


def main_reason(question: Question) -> str:
    """The code of the first of the strictest reasons."""
    return next((str(reason.code) for reason in _strictest_first(question)), "")


def _heading(question: Question, now: float) -> str:
    asker = shown.brief(question.client, 30) or "somebody"
    ago = human_duration(max(0.0, now - question.asked_at))
    return f"{question.id} · {question.verdict.rating} · asked by {asker} {ago} ago"


def _said(label: str, text: str, room: int) -> list[str]:
    """On the label's line where it fits; else behind a gutter, lest the terminal fold it into
    something that looks like a line of ours.
    """
    one = label + shown.inline(text)
    if shown.cells(one) <= room:
        return [one]
    return [label.rstrip(), *shown.lines(text, room)]


def _facts(question: Question, room: int) -> Iterator[str]:
    command = question.command
    yield from _said("in      ", command.cwd, room)
    place = question.provider + (", with a terminal" if command.pty else "")
    yield from _said("on      ", place, room)
    for name, value in sorted(command.env.items()):
        label = "unset   " if value is None else "set     "
        yield from _said(label, name if value is None else f"{name}={value}", room)
    yield f"digest  {question.digest}"


def _command(question: Question, room: int, *, full: bool) -> Iterator[str]:
    text = text_of(question)
    kind = "shell text" if question.command.argv is None else "program and arguments, no shell"
    yield f"command ({kind}, {_count(text)})"
    yield from _cut(shown.lines(text, room), question.id, full=full)


def _stdin(question: Question, room: int, *, full: bool) -> Iterator[str]:
    given = question.input
    if given is None:
        return
    yield f"input ({human_size(given.size)})"
    text = given.head.decode("utf-8", "surrogateescape")
    yield from _cut(shown.lines(text, room), question.id, full=full)
    if given.size > len(given.head):
        yield f"⟨{human_size(given.size - len(given.head))} more of the input are not shown⟩"


def _cut(lines: list[str], question: str, *, full: bool) -> list[str]:
    if full or len(lines) <= _LINES_MAX:
        return lines
    left = len(lines) - _HEAD - _TAIL
    told = f"⟨{left} more lines: shelltie pending {question} --full⟩"
    return [*lines[:_HEAD], told, *lines[-_TAIL:]]


def _doubts(question: Question, room: int) -> Iterator[str]:
    command = question.command
    texts = (text_of(question), command.cwd, *command.env, *filter(None, command.env.values()))
    for note in dict.fromkeys(note for text in texts for note in lookalikes.notes(text)):
        yield from _said("⚠ ", note, room)


def _reasons(question: Question, room: int) -> Iterator[str]:
    reasons = _strictest_first(question)
    if len(reasons) > _REASONS_MAX:
        yield f"· and {len(reasons) - _REASONS_MAX} more reasons, none of them stricter"
    text = question.command.text
    long = len(shown.lines(text, room)) > _AT_A_GLANCE
    for reason in reversed(reasons[:_REASONS_MAX]):
        yield from _said(f"✗ {reason.rating}, {reason.code}: ", reason.message, room)
        if long:
            yield from _piece(text, reason, room)


def _piece(text: str, reason: Reason, room: int) -> Iterator[str]:
    """What a reason is about, with a little around it."""
    start, end = max(0, reason.span.start - _AROUND), reason.span.end + _AROUND
    piece = text[start:end]
    if len(piece) <= _PIECE_MAX:
        yield from shown.lines(piece, room)
    else:
        yield from shown.lines(piece[: _PIECE_MAX // 2], room)
        yield f"⟨{len(piece) - _PIECE_MAX} characters of it stand above⟩"
        yield from shown.lines(piece[-_PIECE_MAX // 2 :], room)


def _strictest_first(question: Question) -> list[Reason]:
    return sorted(question.verdict.reasons, key=lambda reason: -reason.rating.rank)


def _count(text: str) -> str:
    lines = text.count("\n") + 1
    return f"{lines} line{'s' * (lines > 1)}, {len(text)} character{'s' * (len(text) != 1)}"
