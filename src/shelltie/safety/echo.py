"""Evaluates `echo` and `printf` whose words are all known. Pure.

What it tells may be run by a shell, so it must be exact: with anything that programs read
differently, such as the escapes of `echo`, it tells nothing.
"""

import re
from collections.abc import Sequence

from shelltie.basics.lazy_regex import lazy

_ECHO_OPTION = lazy(r"-[neE]+")
_TEMPLATE = lazy(r"(?:[^%\\]|%[%s]|\\[nt\\]|\\x[0-9a-fA-F]{2}|\\[0-7]{3})*", re.DOTALL)
_SPECIAL = lazy(r"%[%s]|\\(?:[nt\\]|x[0-9a-fA-F]{2}|[0-7]{3})")
_PLAIN = {"%%": "%", r"\n": "\n", r"\t": "\t", "\\\\": "\\"}


def printed(argv: Sequence[str | None]) -> str | None:
    """The output of a command with these words."""
    words = [word for word in argv if word is not None]
    if len(words) < len(argv) or not words:
        return None
    if words[0] == "echo":
        return _echoed(words[1:])
    if words[0] == "printf" and len(words) > 1 and not words[1].startswith("-"):
        return _formatted(words[1], words[2:])
    return None


def _echoed(words: Sequence[str]) -> str | None:
    start = next((at for at, word in enumerate(words) if not _ECHO_OPTION.fullmatch(word)), None)
    text = " ".join(words[start:]) if start is not None else ""
    return None if "\\" in text else text


def _formatted(template: str, values: Sequence[str]) -> str | None:
    """The template is used again until no value is left."""
    if not _TEMPLATE.fullmatch(template):
        return None
    text, rest = "", list(values)
    for _ in range(len(values) + 1):
        text += _SPECIAL.sub(lambda found: _filled(found[0], rest), template)
        if not rest or "%s" not in template:
            break
    return text


def _filled(special: str, rest: list[str]) -> str:
    if special == "%s":
        return rest.pop(0) if rest else ""
    if special in _PLAIN:
        return _PLAIN[special]
    return chr(int(special[2:], 16) if special[1] == "x" else int(special[1:], 8) % 256)
