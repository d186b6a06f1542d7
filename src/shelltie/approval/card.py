"""Approval prompt: a question as a person reads it, so that a yes means what they think. Pure."""

import shlex
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import chain

from shelltie.approval.question import Question
from shelltie.basics import visible_text
from shelltie.basics.frozen import frozen
from shelltie.basics.times import human_duration, human_size
from shelltie.verdict import Rating, Reason, Span, foremost

_LINES_MAX = 40  # more of a text are shown only where all of it is wanted
_HEAD, _TAIL = 20, 8
_DANGER_LINES_MAX = 160  # of what is dangerous in between; a dialogue that shows more is not read
_AT_A_GLANCE = 3  # lines in which nobody needs help to find what a reason is about
_REASONS_MAX = 12
_AROUND = 24  # characters before and after what a reason is about, and to the end of their words
_WORD_MAX = 32
_PIECE_MAX = 400
_INDENT = "  "
_USUAL_PLACE = "local"


@frozen
class CardLine:
    """A line, and how it looks where there are colours."""

    text: str
    style: str = ""


@frozen
class _Group:
    """Reasons of one kind about one place: they are told together."""

    rating: Rating
    code: str
    span: Span
    messages: tuple[str, ...] = field(default=())

    @property
    def told(self) -> str:
        return f"{'; '.join(self.messages)} [{self.code}]"


def card(question: Question, *, now: float, width: int = 80, full: bool = False) -> list[str]:
    """The lines of a card without their styles."""
    return [line.text for line in card_lines(question, now=now, width=width, full=full)]


def card_lines(
    question: Question, *, now: float, width: int = 80, full: bool = False
) -> list[CardLine]:
    """Everything that a yes is bound to, and why it is asked.

    The command comes first, then the worst that is known of it, then where it would run. The lines
    that reasons are about are shown: no length of a command hides them. `full` leaves nothing out.
    """
    room = width - len(_INDENT)
    groups = _groups(question)
    parts = (
        _styled("bold", _command(question, room, full=full)),
        _styled("yellow", _doubts(question, room)),
        _told(question, groups[:1], room, "red"),
        _styled("", _directory(question, room)),
        _styled("dim", [_heading(question, now)]),
        _styled("", _variables(question, room)),
        _styled("", _stdin(question, room, full=full)),
        _told(question, groups[1:], room, ""),
        _styled("dim", _left_out(question)),
        _styled("", _kind(question, room)),
        _styled("dim", _details(question, room) if full else ()),
    )
    return [CardLine(_INDENT + line.text, line.style) for line in chain.from_iterable(parts)]


def hides_danger(question: Question, *, width: int = 80) -> bool:
    """Whether a card that is not full leaves out a part of what is dangerous: then nobody who sees
    no more may say yes.
    """
    room = width - len(_INDENT)
    text, given = judged_text(question), question.input
    if given is not None and given.size > len(given.head):
        text = text[: len(text_of(question))]  # nobody is shown all of the input
    listings = _listed(text_of(question), 0, room), _listed_input(question, room)
    kept = [listing.kept(question) for listing in listings]
    pieces = _foremost(question) if _is_long(text, room) else []
    for reason in _dangers(question):
        told = reason in pieces and len(_around(text, reason.span)) <= _PIECE_MAX
        lines = [listing.of(reason.span) for listing in listings]
        listed = all(map(set.issuperset, kept, lines))
        if reason.span.end > len(text) or not (told or listed):
            return True
    return False


def elsewhere(question: Question, *, secret: bool = False) -> str:
    """What to tell somebody to whom danger is not shown: it is too long, or looks `secret`."""
    why = "It is too long to be shown here, and some of what is dangerous is left out"
    if secret:
        why = "A value in it looks like a secret and is not shown here, but the command acts on it"
    return (
        f"{why}: a yes here does not count. Read and answer it with: shelltie approve {question.id}"
    )


def text_of(question: Question) -> str:
    """The command as one text, as it would be typed."""
    command = question.command
    return command.text if command.argv is None else shlex.join(command.argv)


def main_reason(question: Question) -> str:
    """The code of the first of the strictest reasons."""
    return next((str(reason.code) for reason in foremost(question.verdict.reasons, 1)), "")


def _styled(style: str, lines: Iterable[str]) -> Iterator[CardLine]:
    return (CardLine(line, style) for line in lines)


def _heading(question: Question, now: float) -> str:
    asker = visible_text.brief(question.client, 30) or "somebody"
    ago = human_duration(max(0.0, now - question.asked_at))
    what = "changes of a trial" if question.is_apply else question.verdict.rating
    return f"{question.id} · {what} · asked by {asker} {ago} ago"


def _said(label: str, text: str, room: int) -> list[str]:
    """On the label's line where it fits; else behind a gutter, lest the terminal fold it into
    something that looks like a line of ours.
    """
    one = label + visible_text.inline(text)
    if visible_text.cells(one) <= room:
        return [one]
    return [label.rstrip(), *visible_text.lines(text, room)]


def _directory(question: Question, room: int) -> Iterator[str]:
    yield from _said("in ", question.command.cwd, room)
    if question.provider != _USUAL_PLACE:
        yield from _said("by ", question.provider, room)


def _variables(question: Question, room: int) -> Iterator[str]:
    for name, value in sorted(question.env.items()):
        label = "unset   " if value is None else "set     "
        yield from _said(label, name if value is None else f"{name}={value}", room)


def _details(question: Question, room: int) -> Iterator[str]:
    """What a yes is bound to besides, in words that few people need."""
    text = text_of(question)
    terminal = ", with a terminal" if question.command.pty else ""
    yield from _said("on      ", question.provider + terminal, room)
    lines = text.count("\n") + 1
    count = f"{lines} line{'s' * (lines > 1)}, {len(text)} character{'s' * (len(text) != 1)}"
    yield f"size    {count}"
    yield f"digest  {question.digest}"


def _command(question: Question, room: int, *, full: bool) -> Iterator[str]:
    yield from _shown(_listed(text_of(question), 0, room), question, full=full)
    if question.command.argv is not None:
        yield "(a program and its arguments; no shell reads them)"


def _stdin(question: Question, room: int, *, full: bool) -> Iterator[str]:
    given = question.input
    if given is None:
        return
    yield f"input ({human_size(given.size)})"
    yield from _shown(_listed_input(question, room), question, full=full)
    if given.size > len(given.head):
        yield f"⟨{human_size(given.size - len(given.head))} more of the input are not shown⟩"


@frozen
class _Listing:
    """A text as lines that are shown; it begins `at` some place of what was judged."""

    at: int
    lines: tuple[str, ...]
    ends: tuple[int, ...]  # where each block of lines ends in what was judged,
    blocks: tuple[range, ...]  # and which lines these are

    def of(self, span: Span) -> list[int]:
        """The lines that show a place."""
        if span.end <= self.at:
            return []
        last = bisect_left(self.ends, max(span.start, span.end - 1))
        blocks = self.blocks[bisect_left(self.ends, span.start) : last + 1]
        return [line for block in blocks for line in block]

    def kept(self, question: Question) -> set[int]:
        """What is shown of a long one: how it begins and ends, and what is dangerous in between."""
        every = range(len(self.lines))
        if len(every) <= _LINES_MAX:
            return {*every}
        kept = {*every[:_HEAD], *every[-_TAIL:]}
        most = len(kept) + _DANGER_LINES_MAX
        for reason in _dangers(question):
            more = kept.union(self.of(reason.span))
            kept = more if len(more) <= most else kept
        return kept


def _listed(text: str, at: int, room: int) -> _Listing:
    lines, ends, blocks = list[str](), list[int](), list[range]()
    for end, block in visible_text.blocks(text, room):
        blocks.append(range(len(lines), len(lines) + len(block)))
        ends.append(at + end)
        lines += block
    return _Listing(at, tuple(lines), tuple(ends), tuple(blocks))


def _shown(listing: _Listing, question: Question, *, full: bool) -> Iterator[str]:
    kept = {*range(len(listing.lines))} if full else listing.kept(question)
    left = 0
    for place, line in enumerate(listing.lines):
        if place not in kept:
            left += 1
            continue
        if left:
            yield f"⟨{left} more lines: shelltie pending {question.id} --full⟩"
            left = 0
        yield line


def _dangers(question: Question) -> list[Reason]:
    return [it for it in question.verdict.reasons if it.rating is Rating.DANGEROUS]


def _listed_input(question: Question, room: int) -> _Listing:
    return _listed(_input_text(question), len(text_of(question)) + 1, room)


def _doubts(question: Question, room: int) -> Iterator[str]:
    command = question.command
    texts = (text_of(question), command.cwd, *question.env, *filter(None, question.env.values()))
    for note in dict.fromkeys(note for text in texts for note in visible_text.notes(text)):
        yield from _said("⚠ ", note, room)


# Reasons


def _foremost(question: Question) -> list[Reason]:
    return foremost(question.verdict.reasons, _REASONS_MAX)


def _groups(question: Question) -> list[_Group]:
    """What is told, the strictest first: what is mild about a danger of the same kind is not."""
    told = _foremost(question)
    worst = {reason.code for reason in told if reason.rating is question.verdict.rating}
    groups = dict[tuple[Rating, str, Span], list[str]]()
    for reason in told:
        if reason.rating is question.verdict.rating or reason.code not in worst:
            key = reason.rating, str(reason.code), reason.span
            groups.setdefault(key, []).append(reason.message)
    return [_Group(*key, tuple(dict.fromkeys(said))) for key, said in groups.items()]


def _told(question: Question, groups: list[_Group], room: int, style: str) -> Iterator[CardLine]:
    text = judged_text(question)
    long, last = _is_long(text, room), ""
    for group in groups:
        dangerous = group.rating is Rating.DANGEROUS
        if group.told != last:
            mark, last = "✗ " if dangerous else "· ", group.told
            yield from _styled(style, _said(mark, group.told, room))
        if long:
            yield from _styled("", _piece(text, group.span, room))


def _kind(question: Question, room: int) -> Iterator[str]:
    """What a yes to its kind would allow."""
    if question.kind is not None:
        yield from _said("kind: ", question.kind.told, room)


def _left_out(question: Question) -> Iterator[str]:
    told = _foremost(question)
    left = Counter(question.verdict.reasons) - Counter(told)
    for code, count in sorted(Counter(str(reason.code) for reason in left.elements()).items()):
        yield f"· + {count} more: {code}"


def _is_long(text: str, room: int) -> bool:
    return len(visible_text.lines(text, room)) > _AT_A_GLANCE


def _piece(text: str, span: Span, room: int) -> Iterator[str]:
    """What a reason is about, with a little around it."""
    piece = _around(text, span)
    if len(piece) <= _PIECE_MAX:
        yield from visible_text.lines(piece, room)
    else:
        yield from visible_text.lines(piece[: _PIECE_MAX // 2], room)
        yield f"⟨{len(piece) - _PIECE_MAX} characters of it stand above⟩"
        yield from visible_text.lines(piece[-_PIECE_MAX // 2 :], room)


def _around(text: str, span: Span) -> str:
    """No word is cut that is not very long, and no line is begun that does not belong to it."""
    start, end = max(0, span.start - _AROUND), min(len(text), span.end + _AROUND)
    while start and span.start - start < _AROUND + _WORD_MAX and not text[start - 1].isspace():
        start -= 1
    while end < len(text) and end - span.end < _AROUND + _WORD_MAX and not text[end].isspace():
        end += 1
    before, after = text[start : span.start], text[span.end : end]
    return before.rpartition("\n")[2] + text[span.start : span.end] + after.partition("\n")[0]


def judged_text(question: Question) -> str:
    """The text, and behind it the input: what the places of reasons count."""
    given = "" if question.input is None else "\n" + _input_text(question)
    return text_of(question) + given


def _input_text(question: Question) -> str:
    return "" if question.input is None else question.input.head.decode("utf-8", "surrogateescape")
