"""Pattern search (`waitFor`) in streamed output, line by line. Pure."""

import re
from collections.abc import Iterator

from shelltie.basics.lazy_regex import lazy
from shelltie.basics.safe_regex import Pattern
from shelltie.output.text import decoder

# All of them are linear: whatever is printed, none looks twice at the same character.
_SEQUENCE = lazy(
    r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]?|[\]PX^_][^\x07\x1b]*+(?:\x07|\x1b\\)?|[ -/]*+[0-~]?)"
)
_INVISIBLE = lazy(r"[\x00-\x08\x0b-\x1f\x7f]")


class Finder:
    """Looks for a pattern in bytes as they come.

    Where a line is rewritten (`\\r`), each of its versions is a line. Of a line that is longer than
    the pattern's reach, overlapping parts are looked at. `skip` characters at the beginning are not
    looked at, and neither is the first echo of what was `typed`.
    """

    def __init__(self, pattern: Pattern, *, skip: int = 0, typed: str = "") -> None:
        self._pattern = pattern
        self._skip = skip
        self._echo = typed.strip()
        self._decoder = decoder()
        self._line = ""  # what has come of the last line, or the end of that
        self._begun = False  # the beginning of that line is no longer here

    def feed(self, data: bytes) -> Iterator[bool]:
        """Whether it is there, once for each look, so that others have their turns in between."""
        text = self._decoder.decode(data)
        skipped, self._skip = min(self._skip, len(text)), max(0, self._skip - len(text))
        *lines, rest = re.split(r"\r?\n|\r(?!\n|\Z)", self._line + text[skipped:])
        for line in lines:
            yield from self._look(line)
            self._begun = False
        self._line = rest
        yield from self._look(rest, last=True)
        keep = self._pattern.head // 2
        if len(rest) > keep:
            self._line, self._begun = rest[-keep:], True

    def lose(self) -> None:
        """What comes next does not follow what came before."""
        self._line, self._begun, self._skip = "", True, 0

    def _look(self, line: str, *, last: bool = False) -> Iterator[bool]:
        shown = self._without_echo(_INVISIBLE.sub("", _SEQUENCE.sub("", line)), last=last)
        # A pattern's ^ must not hold where only our piece of a line begins.
        text, start = ("\n" + shown, 1) if self._begun else (shown, 0)
        head = self._pattern.head
        for at in range(start, max(start + 1, len(text)), max(1, head // 2)):
            yield self._pattern.regex.search(text, at, at + head) is not None

    def _without_echo(self, shown: str, *, last: bool) -> str:
        if self._echo and self._echo in shown:
            shown = shown.replace(self._echo, "", 1)
            if not last:  # else it comes again, when the line is whole
                self._echo = ""
        return shown
