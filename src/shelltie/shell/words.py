"""Reads words as bash does: quotes, backslashes, patterns and everything that expands. Pure."""

from collections.abc import Callable, Mapping

from shelltie.regex import regex
from shelltie.shell.expansions import ExpansionReader
from shelltie.shell.script import Kind, Part, Word

# A word that means itself, and nothing behind it that could belong to it.
_LITERAL = regex(r"[A-Za-z0-9_./:=@%+,^-]++(?=[ \t\n;&|)]|\Z)")
_BARE = regex(r"[^ \t\n|&;()<>'\"\\$`]++")
# Bash also expands the tilde in an argument that looks like an assignment.
_GLOB = regex(r"[*?]|\A~|[+@!]\(|\A[A-Za-z_]\w*+\+?=(?:[^~]*:)?~")
_EXTENDED = "?*+@!"
_PLAIN_IN = {'"': regex(r"[^\"\\$`]++"), "": regex(r"[^\\$`]++")}
_ESCAPED_IN = {'"': '$`"\\', "": "$`\\"}

_Readers = Mapping[str, Callable[["WordReader", list[Part]], bool]]


class WordReader(ExpansionReader):
    """Reads one word at a time."""

    def word(self) -> Word:
        """The word that stands here; without parts if there is none."""
        if word := self.literal():
            return word
        start, parts = self.at, list[Part]()
        self.pieces(parts, _READERS)
        return self.made(parts, start, pattern=_is_pattern(parts))

    def literal(self) -> Word | None:
        """The word that stands here, if it means just itself: most do."""
        literal = _LITERAL.match(self.text, self.at)
        if not literal:
            return None
        start, self.at = literal.span()
        text, span = literal[0], self.source.span(start, self.at)
        self.count_word()
        return Word(text, text, span, (Part(Kind.TEXT, text),))

    def regular_expression(self) -> Word:
        """The word behind `=~`, where `(…)` and `|` are part of it."""
        start, parts = self.at, list[Part]()
        self.pieces(parts, _READERS_OF_EXPRESSIONS)
        return self.made(parts, start)

    def pieces(self, parts: list[Part], readers: _Readers) -> None:
        """Reads on until the word ends."""
        going = True
        while going and self.at < self.end:
            if bare := _BARE.match(self.text, self.at):
                parts.append(Part(Kind.TEXT, bare[0]))
                self.at = bare.end()
            else:
                reader = readers.get(self.text[self.at])
                going = reader is not None and reader(self, parts)

    def double(self, parts: list[Part]) -> bool:
        start = self.at
        self.at += 1
        self.expandable(parts, '"')
        if self.at >= self.end:
            self.give_up("a double quote is not closed", start)
            return False
        self.at += 1
        return True

    def expandable(self, parts: list[Part], closer: str) -> None:
        """Text as in double quotes, up to `closer` or the end; at least one part, maybe empty."""
        literal, count = list[str](), len(parts)
        while self.at < self.end and self.text[self.at] != closer:
            if plain := _PLAIN_IN[closer].match(self.text, self.at):
                literal.append(plain[0])
                self.at = plain.end()
            elif self.text[self.at] == "\\":
                literal.append(self._escaped_in(closer))
            else:
                _flush(literal, parts)
                self._expansion_in_quotes(parts)
        if literal or len(parts) == count:
            parts.append(Part(Kind.TEXT, "".join(literal), quoted=True))

    def _escaped_in(self, closer: str) -> str:
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 1 + len(escaped)
        return escaped if escaped and escaped in _ESCAPED_IN[closer] else "\\" + escaped

    def _expansion_in_quotes(self, parts: list[Part]) -> None:
        if self.text[self.at] == "`":
            # Only between double quotes does `\"` lose its backslash; a document keeps it.
            self.backticks(parts, quoted=True)
        else:
            self.dollar(parts, quoted=True)

    def single(self, parts: list[Part]) -> bool:
        closing = self.text.find("'", self.at + 1)
        if closing < 0:
            self.give_up("a single quote is not closed", self.at)
            return False
        value = self.source.verbatim(self.at + 1, closing)
        parts.append(Part(Kind.TEXT, value, quoted=True))
        self.at = closing + 1
        return True

    def escaped(self, parts: list[Part]) -> bool:
        escaped = self.text[self.at + 1 : self.at + 2]
        parts.append(Part(Kind.TEXT, escaped or "\\", quoted=True))
        self.at += 1 + len(escaped)
        return True

    def process(self, parts: list[Part]) -> bool:
        opens = self.text[self.at + 1 : self.at + 2] == "("
        return opens and self.substitution(parts, Kind.PROCESS)

    def extended_pattern(self, parts: list[Part]) -> bool:
        """`@(a|b)`, which is a pattern only where `extglob` is on, and an error elsewhere."""
        before = parts[-1] if parts else None
        if before is None or before.quoted or before.text[-1:] not in _EXTENDED:
            return False
        self.doubtful("an extended pattern", self.at)
        return self.bracketed(parts)

    def bracketed(self, parts: list[Part]) -> bool:
        start, mark = self.at, len(self.found.drafts)
        self.at += 1
        self.pair(")", quoted=False)
        text = self.text[start : self.at]
        kind = Kind.EXPANSION if "$" in text or "`" in text else Kind.TEXT
        parts.append(Part(kind, text, commands=self.found.since(mark)))
        return True

    def bar(self, parts: list[Part]) -> bool:
        parts.append(Part(Kind.TEXT, "|"))
        self.at += 1
        return True


_READERS: _Readers = {
    "'": WordReader.single,
    '"': WordReader.double,
    "\\": WordReader.escaped,
    "$": WordReader.dollar,
    "`": WordReader.backticks,
    "<": WordReader.process,
    ">": WordReader.process,
    "(": WordReader.extended_pattern,
}
_READERS_OF_EXPRESSIONS: _Readers = {
    **_READERS,
    "(": WordReader.bracketed,
    "|": WordReader.bar,
}


def _flush(literal: list[str], parts: list[Part]) -> None:
    if literal:
        parts.append(Part(Kind.TEXT, "".join(literal), quoted=True))
        literal.clear()


def _is_pattern(parts: list[Part]) -> bool:
    """What is quoted or expanded can stand inside a pattern, but begins none."""
    live = "".join(
        [part.text if part.kind is Kind.TEXT and not part.quoted else "\0" for part in parts]
    )
    braced = live[live.find("{") : live.rfind("}") + 1] if "{" in live else ""
    return (
        _GLOB.search(live) is not None
        or "[" in live[: live.rfind("]") + 1]
        or ("," in braced or ".." in braced)
    )
