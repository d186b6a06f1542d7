"""Unified diff in git's extended format, with bounded cost: what `git apply` reads. Pure."""

from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher

from shelltie.basics.frozen import frozen

DIFF_MAX = 1024 * 1024
NOT_ALL = "files are not shown: the diff is too long\n"  # ends a diff that is cut
_LINES_MAX = 2000  # compared line by line, beyond what is equal at both ends
_CONTEXT = 3
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}


@frozen
class DiffEntry:
    """A path with its two sides: a mode as git has it, `None` for nothing, and the content.

    Content that is `None` cannot be shown.
    """

    path: str
    old_mode: str | None
    new_mode: str | None
    old: Callable[[], bytes | None]
    new: Callable[[], bytes | None]


def unified_diff(entries: Iterable[DiffEntry], limit: int = DIFF_MAX) -> str:
    """The diff of all entries; it ends with `NOT_ALL` when some of them are not in it."""
    parts, room = list[str](), limit
    left_out = 0
    for entry in entries:
        text = _entry(entry) if room > 0 else None
        if text is None or len(text) > room:
            left_out += 1
            room = room if text is None else 0
        else:
            parts.append(text)
            room -= len(text)
    if left_out:
        parts.append(f"# {left_out} {NOT_ALL}")
    return "".join(parts)


def _entry(entry: DiffEntry) -> str | None:
    old_mode, new_mode = entry.old_mode, entry.new_mode
    if old_mode and new_mode and old_mode[:3] != new_mode[:3]:  # a link and a file: as two
        gone = DiffEntry(entry.path, old_mode, None, entry.old, lambda: b"")
        come = DiffEntry(entry.path, None, new_mode, lambda: b"", entry.new)
        both = _entry(gone), _entry(come)
        return None if None in both else "".join(map(str, both))
    before, after = _quoted("a/", entry.path), _quoted("b/", entry.path)
    head = [f"diff --git {before} {after}"]
    if old_mode is None:
        head.append(f"new file mode {new_mode}")
    elif new_mode is None:
        head.append(f"deleted file mode {old_mode}")
    elif old_mode != new_mode:
        head += [f"old mode {old_mode}", f"new mode {new_mode}"]
    old, new = entry.old(), entry.new()
    from_name = before if old_mode else "/dev/null"
    to_name = after if new_mode else "/dev/null"
    if old is None or new is None:
        return None
    if b"\0" in old or b"\0" in new:
        return "\n".join([*head, f"Binary files {from_name} and {to_name} differ", ""])
    if old == new:
        return "\n".join([*head, ""])
    names = [f"--- {from_name}", f"+++ {to_name}"]
    # A name with a blank ends with a tab, for programs that take the rest for a date.
    names = [
        name + ("\t" if " " in entry.path and "/dev/null" not in name else "") for name in names
    ]
    return "\n".join([*head, *names, ""]) + "".join(_hunks(_lines(old), _lines(new)))


def _lines(content: bytes) -> list[str]:
    """With their ends, split at line feeds alone."""
    text = content.decode("utf-8", "surrogateescape")
    return [line + "\n" for line in text.split("\n")[:-1]] + (
        [last] if (last := text.rpartition("\n")[2]) else []
    )


def _hunks(old: list[str], new: list[str]) -> Iterator[str]:
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    start = max(0, head - _CONTEXT)
    old_part = old[start : len(old) - max(0, tail - _CONTEXT)]
    new_part = new[start : len(new) - max(0, tail - _CONTEXT)]
    for group in _groups(old_part, new_part, head - start, min(tail, _CONTEXT)):
        old_at, old_end = group[0][1], group[-1][2]
        new_at, new_end = group[0][3], group[-1][4]
        old_span = _span(start + old_at, old_end - old_at)
        new_span = _span(start + new_at, new_end - new_at)
        yield f"@@ -{old_span} +{new_span} @@\n"
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in old_part[a:b])
            else:
                yield from (_line("-", line) for line in old_part[a:b])
                yield from (_line("+", line) for line in new_part[c:d])


_Group = list[tuple[str, int, int, int, int]]


def _groups(old: list[str], new: list[str], head: int, tail: int) -> Iterable[_Group]:
    """Pieces that are equal and that differ; of long texts all that differs as one piece."""
    if len(old) <= _LINES_MAX and len(new) <= _LINES_MAX:
        return SequenceMatcher(None, old, new, autojunk=True).get_grouped_opcodes(_CONTEXT)
    a, b = len(old) - tail, len(new) - tail
    whole = [
        ("equal", 0, head, 0, head),
        ("replace", head, a, head, b),
        ("equal", a, len(old), b, len(new)),
    ]
    return [[piece for piece in whole if piece[2] > piece[1] or piece[4] > piece[3]]]


def _common(old: list[str], new: list[str]) -> int:
    """How many lines are equal at the beginning."""
    count = 0
    for left, right in zip(old, new, strict=False):
        if left != right:
            break
        count += 1
    return count


def _span(start: int, count: int) -> str:
    """As diff counts: from 1, and an empty range names the line before it."""
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _line(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def _quoted(side: str, path: str) -> str:
    """A name as git writes it: in quotes with octal escapes, if it is not plain ASCII text."""
    raw = (side + path).encode("utf-8", "surrogateescape")
    if all(32 <= byte < 127 and byte not in (34, 92) for byte in raw):
        return raw.decode("ascii")
    return '"' + "".join(map(_escaped, raw)) + '"'


def _escaped(byte: int) -> str:
    if byte in _ESCAPES:
        return f"\\{_ESCAPES[byte]}"
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"
