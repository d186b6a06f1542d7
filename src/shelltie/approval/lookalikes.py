"""Letters that pass for others: what a person should be told before they trust their eyes. Pure."""

import unicodedata
from collections.abc import Iterator

from shelltie.approval.shown import inline, script
from shelltie.regex import regex

_NOTES_MAX = 8
_WORD = regex(r"\w+")
_WORD_SHOWN = 40
# Unicode does not say of these that they stand for the ASCII character they look like.
_PASSES_FOR = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212\u2043", "-"),
    **dict.fromkeys("\u2215\u2044\u2571\u29f8", "/"),
    **dict.fromkeys("\u2216\u29f5", "\\"),
    **dict.fromkeys("\u2018\u2019\u02bc\u2032", "'"),
    **dict.fromkeys("\u201c\u201d\u2033", '"'),
    **dict.fromkeys("\u2236\ua789", ":"),
    **dict.fromkeys("\u2223\u01c0", "|"),
}
# Whole words can be written with these, and read as if they were Latin.
_LATIN_TWINS = frozenset(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0425\u0406\u0408\u0405"
    "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bf"
)
_MIX_WITH_LATIN = frozenset(("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"))


def notes(text: str) -> list[str]:
    """What in the text is not what it seems; nothing for most texts."""
    if text.isascii():
        return []
    found = list(dict.fromkeys((*_strange_words(text), *_strange_characters(text))))
    if len(found) > _NOTES_MAX:
        found[_NOTES_MAX:] = [f"and {len(found) - _NOTES_MAX} more of this kind"]
    return found


def _strange_words(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        letters = [char for char in word if char.isalpha()]
        foreign = [char for char in letters if not char.isascii()]
        scripts = sorted({script(char) for char in letters} - _MIX_WITH_LATIN)
        if foreign and len(scripts) > 1:
            named = ", ".join(sorted({_named(c) for c in foreign if script(c) != "LATIN"}))
            yield f"{_quoted(word)} mixes {' and '.join(scripts)} letters: {named}"
        elif foreign and _LATIN_TWINS.issuperset(letters):
            yield f"{_quoted(word)} looks Latin, but its letters are {scripts[0]}"


def _strange_characters(text: str) -> Iterator[str]:
    for char in text:
        if char.isascii():
            continue
        plain = _PASSES_FOR.get(char) or unicodedata.normalize("NFKC", char)
        if plain.isascii() and plain.isprintable() and plain.strip():
            yield f"{_named(char)} is not {plain}"


def _named(char: str) -> str:
    return f"{inline(char)} (U+{ord(char):04X})"


def _quoted(word: str) -> str:
    return f'"{inline(word[:_WORD_SHOWN])}"'
