"""Decode and clean output: UTF-8, carriage returns, ANSI escapes, truncation. Pure."""

import codecs

from shelltie.basics.lazy_regex import lazy

_LINE_SEARCH = 1024  # how far from a cut a line may end for the cut to move there
_LAST_LINE_SEARCH = 16 * 1024
_LAST_LINE_MAX = 200

# The cleaner is a terminal of this size. Wider than any real one, so that only a line without end
# is wrapped, and small enough that no control sequence has much to rewrite.
_WIDTH = 4096
_ROWS = 60

_CONTROLS = lazy(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE = lazy(r"[\x00-\x06\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]+")
# Colours are by far the most frequent sequences: they are taken together with the text.
_COLOUR = lazy(r"\x1b\[[0-?]{0,64}m")
_PLAIN = lazy(r"(?>(?:[^\x07\b\r\x1b]++|\x1b\[[0-?]{0,64}+m)+)")
_ESCAPE = lazy(
    r"\x1b(?:"
    r"\[(?P<arguments>[0-?]{0,64}[ -/]{0,8})(?P<move>[@-~]?)"
    r"|(?P<string>[\]PX^_])"  # a title, a link, a picture, …
    r"|[ -/]{0,4}(?P<other>[0-~]?)"
    r")"
)
# A newline ends it as well: one that was never closed must not hide the rest of the output.
_STRING = lazy(r"[^\x07\x1b\n]*(?P<closed>\x07?)")
_ALTERNATE_SCREEN = frozenset({"?1049", "?1047", "?47"})


def decode(data: bytes) -> str:
    """UTF-8; what is none becomes U+FFFD."""
    return data.decode("utf-8", "replace")


def decoder() -> codecs.IncrementalDecoder:
    """Decodes as `decode` does, for bytes that arrive in pieces."""
    return codecs.getincrementaldecoder("utf-8")("replace")


def whole_start(data: bytes) -> bytes:
    """Without the rest of a character that was cut off at the beginning."""
    for start, byte in enumerate(data[:4]):
        if not 0x80 <= byte < 0xC0:
            return data[start:]
    # Four in a row belong to no character: this is not UTF-8, and there is nothing to protect.
    return data if len(data) > 3 else b""


def whole_end(data: bytes) -> bytes:
    """Without the beginning of a character that was cut off at the end."""
    for length, byte in enumerate(reversed(data[-3:]), 1):
        if byte >= 0xC0:
            wanted = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-length] if length < wanted else data
        if byte < 0x80:
            break
    return data


def cut_head(data: bytes, limit: int) -> bytes:
    """The first bytes, at most `limit`, without a broken character at the cut."""
    return data if len(data) <= limit else whole_end(data[: max(0, limit)])


def cut_tail(data: bytes, limit: int) -> bytes:
    """The last bytes, at most `limit`, without a broken character at the cut."""
    return data if len(data) <= limit else whole_start(data[len(data) - max(0, limit) :])


def crop(text: str, limit: int, marker: str) -> str:
    """The first `limit` characters, followed by `marker` if there were more."""
    return text if len(text) <= limit else text[:limit] + marker


def clean(data: bytes) -> str:
    """What a terminal would still show: overwritten text and control sequences are gone."""
    text = decode(data)
    if not _CONTROLS.search(text):
        return text
    cleaner = Cleaner()
    return cleaner.feed(data) + cleaner.flush()


def excerpt(head: bytes, tail: bytes, omitted: int, *, how_to_read: str = "") -> str:
    """Both ends as clean text, with a line between them that says how much was left out.

    The cuts move to a line's end if there is one near.
    """
    if not omitted:
        return clean(head + tail)
    end = head.rfind(b"\n", max(0, len(head) - _LINE_SEARCH)) + 1
    first, last = (head[:end] if end else whole_end(head)), from_line_start(tail)
    omitted += len(head) - len(first) + len(tail) - len(last)
    hint = f": {how_to_read}" if how_to_read else ""
    before = clean(first)
    gap = "\n" if before and not before.endswith("\n") else ""
    return f"{before}{gap}[… {omitted} bytes left out{hint} … ]\n{clean(last)}"


def last_line(data: bytes) -> str:
    """The last line that shows anything, shortened if it is long."""
    lines = clean(cut_tail(data, _LAST_LINE_SEARCH)).split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:_LAST_LINE_MAX]


def from_line_start(data: bytes) -> bytes:
    """From the first line that begins in it; if none begins near, from the first character."""
    start = data.find(b"\n", 0, _LINE_SEARCH) + 1
    return data[start:] if start else whole_start(data)


class Cleaner:
    """A terminal that remembers only text, for bytes that arrive in any pieces.

    Rows that have scrolled out of the cursor's reach are final. `fullscreen` tells that the
    program paints a screen: its text is still here, but not where it was painted.
    """

    def __init__(self) -> None:
        self.fullscreen = False
        self._decoder = decoder()
        self._pending = ""  # a control sequence whose end has not arrived
        self._in_string = False
        self._final: list[str] = []
        self._rows = [""]
        self._ends = ["\n"]  # what follows each row: nothing where a long line was wrapped
        self._row = 0
        self._column = 0

    def feed(self, data: bytes) -> str:
        """Take the next bytes; returns the text that became final."""
        text = self._pending + _INVISIBLE.sub("", self._decoder.decode(data))
        self._pending = ""
        self._draw(text.replace("\r\n", "\n"))
        final = "".join(self._final)
        self._final.clear()
        return final

    def flush(self) -> str:
        """The end: returns the rest of the text."""
        self._pending = ""
        self._draw(self._decoder.decode(b"", final=True))
        return "".join(self._final) + self._live().removesuffix("\n")

    def _live(self) -> str:
        return "".join(row + end for row, end in zip(self._rows, self._ends, strict=True))

    def _draw(self, text: str) -> None:
        position = 0
        while position < len(text):
            if self._in_string:
                position = self._skip_string(text, position)
            elif match := _PLAIN.match(text, position):
                self._write(_COLOUR.sub("", match.group()))
                position = match.end()
            elif text[position] == "\x1b":
                position = self._obey(text, position)
            else:
                if text[position] in "\r\b":
                    self._column = 0 if text[position] == "\r" else max(0, self._column - 1)
                position += 1

    def _skip_string(self, text: str, position: int) -> int:
        match = _STRING.match(text, position)
        assert match
        self._in_string = match.end() == len(text) and not match["closed"]
        return match.end()

    def _obey(self, text: str, position: int) -> int:
        match = _ESCAPE.match(text, position)
        assert match
        complete = match["move"] or match["string"] or match["other"]
        if match.end() == len(text) and not complete:
            self._pending = text[position:]
        elif match["string"]:
            self._in_string = True
        elif match["move"]:
            self._control(match["arguments"], match["move"])
        return match.end()

    def _control(self, arguments: str, move: str) -> None:
        number = arguments.partition(";")[0]
        if number in _ALTERNATE_SCREEN and move == "h":
            self.fullscreen = True
        elif not number or number.isdecimal():
            count = min(int(number or 0), _WIDTH)
            self._move(move, max(1, count))
            self._erase(move, count)

    def _move(self, move: str, count: int) -> None:
        match move:
            case "A" | "F":
                self._row = max(0, self._row - count)
            case "B" | "E":
                self._row = max(self._row, min(self._row + count, _ROWS - 1))
                missing = self._row + 1 - len(self._rows)
                self._rows += [""] * missing
                self._ends += ["\n"] * missing
            case "C":
                self._column = min(self._column + count, _WIDTH - 1)
            case "D":
                self._column = max(0, self._column - count)
            case "G" | "`":
                self._column = count - 1
            case "H" | "f" | "d":
                self._paint()
            case _:
                return
        if move in "EF":
            self._column = 0

    def _erase(self, move: str, count: int) -> None:
        row, column = self._rows[self._row], self._column
        match move, count:
            case "K" | "J", 0:
                row = row[:column]
            case "K", 1:
                row = " " * min(column + 1, len(row)) + row[column + 1 :]
            case "K", 2:
                row = ""
            case "P", _:
                row = row[:column] + row[column + max(1, count) :]
            case "X", _:
                gone = row[column : column + max(1, count)]
                row = row[:column] + " " * len(gone) + row[column + len(gone) :]
            case _:
                return
        self._rows[self._row] = row
        self._ends[self._row] = "\n"
        if move == "J":
            del self._rows[self._row + 1 :], self._ends[self._row + 1 :]

    def _paint(self) -> None:
        # Where on the screen does not matter here; that it is another place does.
        self.fullscreen = True
        self._row = len(self._rows) - 1
        if self._rows[self._row]:
            self._newline()
        self._column = 0

    def _write(self, text: str) -> None:
        first, *lines = text.split("\n")
        self._put(first)
        if len(lines) > _ROWS and self._row == len(self._rows) - 1:
            lines = self._scroll(lines)
        for line in lines:
            self._newline()
            self._put(line)

    def _scroll(self, lines: list[str]) -> list[str]:
        """Lines that leave the screen at once need no row; returns those that do."""
        self._final += [self._live(), *(line + "\n" for line in lines[:-_ROWS])]
        self._rows, self._ends, self._row, self._column = [""], ["\n"], 0, 0
        self._put(lines[-_ROWS])
        return lines[1 - _ROWS :]

    def _newline(self) -> None:
        self._row += 1
        self._column = 0
        if self._row < len(self._rows):
            return
        self._rows.append("")
        self._ends.append("\n")
        if self._row == _ROWS:
            self._final.append(self._rows.pop(0) + self._ends.pop(0))
            self._row -= 1

    def _put(self, text: str) -> None:
        position = 0
        while position < len(text):
            if self._column == _WIDTH:
                self._ends[self._row] = ""
                self._newline()
            row, column = self._rows[self._row], self._column
            part = text[position : position + _WIDTH - column]
            self._rows[self._row] = row[:column].ljust(column) + part + row[column + len(part) :]
            self._column += len(part)
            position += len(part)
