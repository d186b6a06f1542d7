"""A secret value in all the ways in which it may be printed. Pure."""

import base64
import json
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote, quote_plus

from shelltie.frozen import frozen
from shelltie.regex import regex

_LEAST = 8  # a shorter value occurs by chance
_PIECE = 150  # characters of a long value; spelled out in any way they stay shorter than a head
_ENCODED = 48  # bytes: one line of base64
_LEAST_DIFFERENT = 4  # characters: no secret is a row of stars
# As values of passwords these are examples, and as words they are everywhere.
_COMMON = frozenset(
    {"password", "changeme", "localhost", "username", "postgres", "postgresql", "production"}
    | {"development", "disabled", "undefined", "required", "anonymous", "external", "internal"}
)
_PASSWORD_IN_URL = regex(r"://[^\s/:@]*:([^\s/]+)@")
_PERCENT = regex(r"%[0-9A-F]{2}")
_BASE64_RUN = regex(r"[\w+/=-]{1,400}|\r?\n[\w+/=-]{40,200}", re.ASCII)


@frozen
class Spelling:
    """Where `text` stands, the secret `name` is printed, and goes on as far as `tail` matches."""

    text: str
    name: str
    tail: re.Pattern[str] | None = None


def spellings(values: Mapping[str, str]) -> tuple[Spelling, ...]:
    """Of all values by their names, the longest first."""
    found: dict[str, Spelling] = {}
    for name, value in values.items():
        for secret in _secrets(value):
            for text, tail in _spelled(secret):
                found.setdefault(text, Spelling(text, name, tail))
    return tuple(sorted(found.values(), key=lambda one: (-len(one.text), one.text)))


def _secrets(value: str) -> Iterator[str]:
    """What must not be seen of a value: all of it, and the password in an address."""
    password = _PASSWORD_IN_URL.search(value)
    for secret in (value.strip(), password[1] if password else ""):
        different = len(set(secret)) >= _LEAST_DIFFERENT
        if len(secret) >= _LEAST and different and secret.lower() not in _COMMON:
            yield secret


def _spelled(secret: str) -> Iterator[tuple[str, re.Pattern[str] | None]]:
    pieces = max(1, len(secret) // _PIECE)
    for place in range(pieces):
        end = None if place == pieces - 1 else (place + 1) * _PIECE
        for text in _escaped(secret[place * _PIECE : end]):
            yield text, None
    data = secret.encode("utf-8", "surrogateescape")
    for text in _encoded(data[:_ENCODED]):
        yield text, _BASE64_RUN


def _escaped(piece: str) -> Iterator[str]:
    yield piece
    yield json.dumps(piece)[1:-1]
    yield json.dumps(piece, ensure_ascii=False)[1:-1]
    for escaped in (
        quote(piece, safe="", errors="surrogateescape"),
        quote(piece, errors="surrogateescape"),
        quote_plus(piece, errors="surrogateescape"),
    ):
        yield escaped
        yield _PERCENT.sub(lambda match: match[0].lower(), escaped)


def _encoded(data: bytes) -> Iterator[str]:
    """In base64, wherever in the encoded bytes it begins: what its neighbours decide is cut off."""
    for before in range(3):
        first, last = (0, 2, 3)[before], (before + len(data)) * 8 // 6
        text = base64.b64encode(bytes(before) + data).decode()[first:last]
        yield text
        yield text.translate(str.maketrans("+/", "-_"))
