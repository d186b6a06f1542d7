"""Reads what lies between the words: blanks, comments, newlines and here-documents. Pure."""

from dataclasses import replace

from shelltie.frozen import frozen
from shelltie.regex import regex
from shelltie.shell.found import Draft, Found
from shelltie.shell.script import Kind, Part, Word
from shelltie.shell.source import Source
from shelltie.shell.words import WordReader

_BLANKS = regex(r"[ \t]*+")


@frozen
class Document:
    """A here-document whose body comes behind the next newline."""

    draft: Draft
    nth: int  # of its redirections
    delimiter: str
    quoted: bool
    indented: bool


class LineReader(WordReader):
    """Moves from one word to the next."""

    def __init__(self, source: Source, found: Found) -> None:
        super().__init__(source, found)
        self.pending: list[Document] = []
        self.line_over = False  # a comment ended where lines seem joined
        self.inside = ""  # what ends the list of commands that is being read

    def blanks(self) -> None:
        """Moves on to the next word or operator of this line."""
        blanks = _BLANKS.match(self.text, self.at)
        self.at = blanks.end() if blanks else self.at

    def lines(self) -> None:
        """Moves on to the next word or operator, over newlines and comments."""
        self.blanks()
        while self.at < self.end and self.text[self.at] in "\n#":
            if self.text[self.at] == "#":
                self.comment()
            else:
                self._newline(self.source.inward[self.at] + 1)
            self.line_over = False
            self.blanks()

    def comment(self) -> None:
        """A backslash at its end does not continue it."""
        self.at = self.source.line_end(self.at)
        if self.at < self.end and self.text[self.at] != "\n":
            self.line_over = True
            self.at -= 1
            self._newline(self.source.inward[self.at] + len("#\\\n"))

    def _newline(self, in_whole: int) -> None:
        self.at += 1
        pending, self.pending = self.pending, []
        for document in pending:
            in_whole = self._document(document, in_whole)

    def _document(self, document: Document, in_whole: int) -> int:
        """Reads a here-document; a quoted one as it was written, without joined lines."""
        text = self.source.whole if document.quoted else self.text
        start = in_whole if document.quoted else self.at
        end, after = self._extent(text, start, document)
        if document.quoted:
            word = self._verbatim_body(text[start:end], start, end)
            self.at = self.source.index_of(after)
        else:
            word = self._expanded_body(start, end)
            self.at = after
        redirect = document.draft.redirects[document.nth]
        document.draft.redirects[document.nth] = replace(redirect, body=word)
        return after if document.quoted else self.source.inward[after]

    def _extent(self, text: str, start: int, document: Document) -> tuple[int, int]:
        """Where the body ends, and where the text goes on."""
        line = start
        while line < len(text):
            newline = text.find("\n", line)
            end = len(text) if newline < 0 else newline
            content = text[line:end].lstrip("\t") if document.indented else text[line:end]
            if content == document.delimiter:
                return line, min(end + 1, len(text))
            if self.inside == ")" and self._ends_early(content, document.delimiter):
                return line, end - len(content) + len(document.delimiter)
            line = end + 1
        self.broken(f"the here-document does not end with {document.delimiter!r}", self.at)
        return len(text), len(text)

    def _ends_early(self, line: str, delimiter: str) -> bool:
        """Inside `$(…)` bash also accepts the delimiter with the closing parenthesis behind it."""
        early = line.startswith(delimiter) and ")" in line[len(delimiter) :]
        if early:
            self.doubtful("the end of a here-document is not on a line of its own", self.at)
        return early

    def _verbatim_body(self, body: str, start: int, end: int) -> Word:
        first, last = self.source.index_of(start), self.source.index_of(end)
        span = self.source.span(first, last)
        return Word(body, body, span, (Part(Kind.TEXT, body, quoted=True),))

    def _expanded_body(self, start: int, end: int) -> Word:
        reader = self.inner(self.source.part(start, end))
        parts: list[Part] = []
        reader.expandable(parts, "")
        return reader.made(parts, 0)
