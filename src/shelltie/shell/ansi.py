"""The escapes of `$'…'`. Pure."""

import re

from shelltie.regex import regex

_ESCAPE = regex(
    r"\\(?:(?P<name>[abeEfnrtv\\'\"?])|(?P<octal>[0-7]{1,3})|x\{(?P<braced>[0-9A-Fa-f]*)\}?"
    r"|x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<u>[0-9A-Fa-f]{1,4})|U(?P<U>[0-9A-Fa-f]{1,8})"
    r"|c(?P<control>\\\\|.))",
    re.DOTALL,
)
_RAW_BYTES = regex("[\udc80-\udcff]+")  # as Python spells bytes that are not yet text
_NAMED = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))
_BASES = {"octal": 8, "braced": 16, "hex": 16}


def decoded(body: str) -> str:
    """What bash makes of the text between `$'` and `'`; a NUL ends it."""
    return _RAW_BYTES.sub(_characters, _ESCAPE.sub(_character, body).partition("\0")[0])


def _characters(raw: re.Match[str]) -> str:
    return raw[0].encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _character(escape: re.Match[str]) -> str:
    kind, value = str(escape.lastgroup), escape[str(escape.lastgroup)]
    if kind == "name":
        return _NAMED.get(value, value)
    if kind == "control":
        return "\x7f" if value == "?" else chr(ord(value[0]) & 0x1F)
    if kind in _BASES:
        return bytes([int(value or "0", _BASES[kind]) & 0xFF]).decode("utf-8", "surrogateescape")
    return _code_point(int(value, 16))


def _code_point(number: int) -> str:
    """Half a pair and numbers beyond Unicode are no characters."""
    usable = number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF
    return chr(number) if usable else "\ufffd"
