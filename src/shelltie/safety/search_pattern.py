"""Search patterns (regular expressions of grep and ripgrep): which fit nearly every line. Pure.

A search through a whole project with such a pattern shows whatever lies there, keys included. It is
not known which dialect a program reads, so that what is special in one of them counts as special.
"""

import re

from shelltie.basics.lazy_regex import lazy

_OPTIONAL = r"(?:\\?[*?]|\\?\{0?[,}])"
_TOKENS = lazy(
    r"(?P<or>\||\\\||\n)"
    r"|(?P<set>\[\^?\]?(?:\[:\w+:\]|[^]])*\])"
    r"|(?P<count>\{[\d,]*\})"
    r"|(?P<odd>\\[^\W\dbBAzZwWsSdDhKfnrtvV_]|\\\Z)"  # \x3d, \p{L}, \Q…: what they fit is not read
    r"|\\(?P<escaped>[-=:/!&\"'])"
    r"|(?P<escape>\\\d+|\\.)"
    r"|(?P<letter>[\w<>=!&:;,@%~/\"' -])(?!\\?[*?{])"
    r"|(?P<other>.)",
    re.DOTALL,
)
# A group that may be left out, or says what must not be there, or turns the syntax into another.
_LEAVES_OPEN = lazy(rf"\)(?={_OPTIONAL})|\\\)(?={_OPTIONAL})|\(\*|\(\?(?!:|=|<=|i\))")
# Two letters or digits, or signs of program text, that few lines of other files have.
_TELLING = lazy(r"\w\w|[<>&].|.[<>&]|!=|:=|::|===")


def fits_most_lines(pattern: str) -> bool:
    """Whether a pattern may fit every line: unless each of its alternatives has a telling text."""
    if _LEAVES_OPEN.search(pattern):
        return True
    text, told = "", False
    for token in _TOKENS.finditer(pattern):
        match token.lastgroup:
            case "letter" | "escaped":
                text = text[-2:] + token[token.lastgroup]
                told = told or _TELLING.search(text) is not None
            case "or" if not told:
                return True
            case "odd":
                return True
            case kind:
                text, told = "", told and kind != "or"
    return not told
