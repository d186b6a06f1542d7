"""Sanitize text for display: control, invisible and bidi characters are made visible. Pure."""

import unicodedata
from collections.abc import Iterator
from itertools import groupby

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy

# Before a line of the text; before one that goes on in the middle of a word, or after one blank.
GUTTER, MORE, AFTER_BLANK = "│ ", "┊ ", "╎ "
_BLANKS_MAX = 16  # as many in a row are shown as they are; more are counted
_REPEATS_MAX = 3  # of a line, or of a character that is named
_NAMES_MAX = 5  # in one mark, so that it fits on a line
_ACCENTS_MAX = 2  # on one letter
_ROOM_MIN = 48
_ROOM_FOR_BLANKS = 13  # "⟨16 spaces⟩", where blanks turn out to be the last of their line
_RIGHT_TO_LEFT = ("R", "AL", "AN")  # these change the order in which their neighbours are seen
_OUR_OWN = "⟨⟩"
# Letters and symbols by their category that look like nothing at all.
_BLANK = "\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159\U00016fe4"
_PIECE = 8  # of plain letters, where a line may be broken
_RUNS = lazy(r"[!-~]+| +|[^ -~]+")
_AS_IT_IS = lazy(rf" {{0,{_BLANKS_MAX}}}[!-~]++(?>(?: {{1,{_BLANKS_MAX}}}[!-~]++)*)")
_NAMES = {"\t": "tab", "\n": "newline"}


@frozen
class _Atom:
    """A piece that stays on one line."""

    source: str
    shown: str

    @property
    def blank(self) -> bool:
        return self.shown.isspace()

    @property
    def width(self) -> int:
        return cells(self.shown)


def lines(text: str, width: int = 80) -> list[str]:
    """The whole text, in lines of at most that many columns; a line break is a new line."""
    return [line for _, block in blocks(text, width) for line in block]


def blocks(text: str, width: int = 80) -> Iterator[tuple[int, list[str]]]:
    """The same by lines of the text, those that are alike together: where each ends in the text."""
    room = max(width - len(GUTTER) - _ROOM_FOR_BLANKS, _ROOM_MIN)
    end = -1
    for line, group in groupby(text.split("\n")):
        count = len(list(group))
        end += count * (len(line) + 1)
        once = list(_wrapped(line, room))
        if count > _REPEATS_MAX:
            yield end, [*once, f"{GUTTER}⟨this line {count - 1} more times⟩"]
        else:
            yield end, once * count


def inline(text: str) -> str:
    """The whole text on one line."""
    if _AS_IT_IS.fullmatch(text):  # nearly always, and ten times as fast
        return text
    return _finished(list(_atoms(text)))


def brief(text: str, room: int) -> str:
    """The beginning of a text on one line, with an ellipsis where some of it is left out."""
    if cells(whole := inline(text)) <= room:
        return whole
    kept, width = "", 1
    for atom in _atoms(text):
        if width + atom.width > room and atom.shown != atom.source:
            break  # half of a name of ours would mean something else
        for char in atom.shown:
            width += _cells(char)
            if width > room:
                return f"{kept.rstrip()}…"
            kept += char
    return f"{kept.rstrip()}…"


def cells(text: str) -> int:
    """How many columns a terminal uses for it."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    if _accent(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _wrapped(line: str, room: int) -> Iterator[str]:
    """Broken at single blanks, which the gutter then stands for; in a word only if it is too long
    for a line.
    """
    gutter, atoms, width = GUTTER, list[_Atom](), 0
    for word in _words(line):
        size = sum(atom.width for atom in word)
        if len(atoms) > 1 and atoms[-1].source == " " and width + size > room:
            yield gutter + _finished(atoms[:-1], wrapped=gutter == MORE)
            gutter, atoms, width = AFTER_BLANK, [], 0
        for atom in word:
            if atoms and width + atom.width > room and atom.source != " ":
                yield gutter + _finished(atoms, wrapped=gutter == MORE)
                gutter, atoms, width = MORE, [], 0
            atoms.append(atom)
            width += atom.width
    yield (gutter + _finished(atoms, wrapped=gutter == MORE)).rstrip()


def _words(line: str) -> Iterator[list[_Atom]]:
    """The pieces of each word, and of the blanks between words."""
    for _, group in groupby(_atoms(line), lambda atom: atom.blank):
        yield list(group)


def _finished(atoms: list[_Atom], *, wrapped: bool = False) -> str:
    """Blanks at the end of a line, or where it was broken, would not be seen."""
    shown = [atom.shown for atom in atoms]
    for place in (0, -1) if wrapped else (-1,):
        if atoms and atoms[place].blank:
            shown[place] = _counted(len(atoms[place].source))
    return "".join(shown)


def _atoms(text: str) -> Iterator[_Atom]:
    for run in _RUNS.findall(text):
        if run[0] == " ":
            yield _Atom(run, run if len(run) <= _BLANKS_MAX else _counted(len(run)))
        elif run.isascii() and run.isprintable():
            for start in range(0, len(run), _PIECE):
                piece = run[start : start + _PIECE]
                yield _Atom(piece, piece)
        else:
            yield from _strange(run)


def _strange(run: str) -> Iterator[_Atom]:
    for seen, group in groupby(_sorted_out(run), lambda pair: pair[1]):
        part = "".join(char for char, _ in group)
        if seen:
            yield from (_Atom(letter, letter) for letter in _letters(part))
        else:
            yield from _named(part)


def _letters(run: str) -> Iterator[str]:
    """Each with its accents."""
    start = 0
    for place in range(1, len(run) + 1):
        if place == len(run) or not _accent(run[place]):
            yield run[start:place]
            start = place


def _counted(blanks: int) -> str:
    return f"⟨{blanks} space{'s' * (blanks > 1)}⟩"


def _named(run: str) -> Iterator[_Atom]:
    """`⟨U+202E⟩`, `⟨tab tab 120*U+200B⟩`."""
    names: list[tuple[str, str]] = []
    for char, group in groupby(run):
        count = len(list(group))
        if count <= _REPEATS_MAX:
            names += [(char, _name(char))] * count
        else:
            names.append((char * count, f"{count}*{_name(char)}"))
    for start in range(0, len(names), _NAMES_MAX):
        part = names[start : start + _NAMES_MAX]
        mark = " ".join(name for _, name in part)
        yield _Atom("".join(source for source, _ in part), f"⟨{mark}⟩")


def _name(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"byte-{ord(char) - 0xDC00:02X}"  # how Python holds a byte that is no text
    return _NAMES.get(char) or f"U+{ord(char):04X}"


def _sorted_out(run: str) -> Iterator[tuple[str, bool]]:
    """Each character, and whether it is shown as it is."""
    letter, accents = "", 0
    for char in run:
        if not _accent(char):
            seen = not _hidden(char)
            letter, accents = char if seen else "", 0
        else:
            seen = bool(letter) and accents < _ACCENTS_MAX and _goes_with(letter, char)
            letter, accents = letter if seen else "", accents + 1
        yield char, seen


def _hidden(char: str) -> bool:
    return (
        unicodedata.category(char)[0] in "CZ"
        or unicodedata.bidirectional(char) in _RIGHT_TO_LEFT
        or char in _BLANK
        or char in _OUR_OWN
        or not unicodedata.is_normalized("NFC", char)  # it looks exactly like another one
    )


def _accent(char: str) -> bool:
    return char > "\u02ff" and unicodedata.category(char)[0] == "M"


def _goes_with(letter: str, accent: str) -> bool:
    """A vowel sign of the letter's own script; others can be piled on anything, to cover it."""
    return accent not in _BLANK and letter.isalpha() and script(letter) == script(accent)


def script(char: str) -> str:
    """`LATIN`, `CYRILLIC`, `DEVANAGARI`, …"""
    return unicodedata.name(char, "UNNAMED").split()[0].split("-")[0]


_NOTES_MAX = 8
_WORD = lazy(r"\w+")
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
            named = ", ".join(sorted({_named_script(c) for c in foreign if script(c) != "LATIN"}))
            yield f"{_quoted(word)} mixes {' and '.join(scripts)} letters: {named}"
        elif foreign and _LATIN_TWINS.issuperset(letters):
            yield f"{_quoted(word)} looks Latin, but its letters are {scripts[0]}"


def _strange_characters(text: str) -> Iterator[str]:
    for char in text:
        if char.isascii():
            continue
        plain = _PASSES_FOR.get(char) or unicodedata.normalize("NFKC", char)
        if plain.isascii() and plain.isprintable() and plain.strip():
            yield f"{_named_script(char)} is not {plain}"


def _named_script(char: str) -> str:
    return f"{inline(char)} (U+{ord(char):04X})"


def _quoted(word: str) -> str:
    return f'"{inline(word[:_WORD_SHOWN])}"'
