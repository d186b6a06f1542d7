"""bash lexer: quoting, words, expansions, here-documents. Pure."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Self

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.shell.script import Draft, ParseResults, Part, PartKind, Source, Word, source_of
from shelltie.verdict import Code

NESTING_MAX = 20
_WORDS_END = 20_000
_NESTING_END = 30  # each level costs a dozen frames of Python's own stack


class TextReader(ABC):
    """Reads one text from `at` on. It never raises: what is unfinished ends with the text.

    Where the text turns out wrong, `found` says so, and the reader goes on or stands at its end.
    """

    def __init__(self, source: Source, found: ParseResults) -> None:
        self.source = source
        self.text = source.text
        self.end = len(source.text)
        self.at = 0
        self.found = found

    @abstractmethod
    def commands(self, closer: str) -> tuple[int, ...]:
        """Reads the commands up to `closer` and behind it; returns their places."""

    def inner(self, source: Source) -> Self:
        """A reader for a text inside this one."""
        return type(self)(source, self.found)

    def next_is(self, text: str) -> bool:
        """Whether `text` stands here."""
        return self.text.startswith(text, self.at)

    def broken(self, message: str, start: int) -> None:
        """The text makes no sense, or only one that cannot be trusted."""
        self.found.broken = True
        if self.found.broken_at is None:
            self.found.broken_at = self.source.places[min(self.at, self.end)]
        start = min(start, self.end)
        self.found.problem(Code.PARSE_ERROR, message, self.source.span(start, self.end))
        self.at = self.end if self.found.hopeless else self.at

    def doubtful(self, message: str, start: int) -> None:
        """The text can be read, but parsers are known to read it differently."""
        span = self.source.span(start, self.at)
        self.found.problem(Code.PARSER_DISAGREEMENT, message, span)

    def give_up(self, message: str, start: int) -> None:
        """Nothing that follows can be read."""
        self.broken(message, start)
        self.at = self.end

    def not_closed(self, what: str) -> None:
        """It goes on to the end of the text."""
        start, self.at = self.at, self.end
        self.broken(f"{what} is not closed", start)

    def deeper(self) -> bool:
        """One level down; false where that is too deep to go on. Every `deeper` has its `back`."""
        self.found.depth += 1
        if self.found.depth > NESTING_MAX:
            span = self.source.span(min(self.at, self.end), self.end)
            self.found.problem(Code.TOO_DEEP, f"nested more than {NESTING_MAX} deep", span)
        if self.found.depth > _NESTING_END:
            self.give_up("nested too deep to be read", self.at)
        elif self.found.over:
            self.at = self.end
        return self.found.depth <= _NESTING_END and not self.found.over

    def back(self) -> None:
        """One level up."""
        self.found.depth -= 1

    def expansion(self, kind: PartKind, start: int, mark: int, *, quoted: bool) -> Part:
        """The part from `start` to `at`, with the commands found since `mark`."""
        part = Part(kind, self.text[start : self.at], quoted, self.found.since(mark))
        self.count_word()
        return part

    def count_word(self) -> None:
        """Ends the reading where no person would have gone on writing."""
        self.found.words += 1
        if self.found.words > _WORDS_END:
            self.stop(f"more than {_WORDS_END} words")

    def stop(self, message: str) -> None:
        """What follows is not looked at."""
        self.found.problem(Code.TOO_LONG, message, self.source.span(self.at, self.end))
        self.found.over = True
        self.at = self.end

    def made(self, parts: list[Part], start: int, *, pattern: bool = False) -> Word:
        """The word from `start` to `at`, of these parts."""
        end = self.at
        self.count_word()
        literal = all(part.kind is PartKind.TEXT for part in parts)
        value = "".join([part.text for part in parts]) if literal else None
        span = self.source.span(start, end)
        return Word(self.text[start:end], value, span, tuple(parts), pattern)


_ESCAPE = lazy(
    r"\\(?:(?P<name>[abeEfnrtv\\'\"?])|(?P<octal>[0-7]{1,3})|x\{(?P<braced>[0-9A-Fa-f]*)\}?"
    r"|x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<u>[0-9A-Fa-f]{1,4})|U(?P<U>[0-9A-Fa-f]{1,8})"
    r"|c(?P<control>\\\\|.))",
    re.DOTALL,
)
_RAW_BYTES = lazy("[\udc80-\udcff]+")  # as Python spells bytes that are not yet text
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
    # Half a pair and numbers beyond Unicode are no characters.
    number = int(value, 16)
    usable = number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF
    return chr(number) if usable else "\ufffd"


_SECOND_READINGS_MAX = 16  # each may read the rest of the text once more

_NAME = r"[A-Za-z_]\w*+"
_VARIABLE = lazy(rf"\$(?:({_NAME}|[0-9@*#?$!-])|\{{({_NAME}|\d++|[@*#?$!-])\}})", re.ASCII)
_PID_AND_BRACKET = lazy(r"\$\$[({[]")  # bash looks for the end of `$(` there
_ANSI = lazy(r"\$'((?>(?:[^'\\]++|\\.)*))'", re.DOTALL)
_BACKTICKS = lazy(r"`((?>(?:[^`\\]++|\\.)*))`", re.DOTALL)
_ESCAPES_IN_BACKTICKS = {
    False: lazy(r"\\([$`\\])"),
    True: lazy(r"\\([$`\\\"])"),
}
_FUNCTION_SUBSTITUTION = lazy(r"\$\{[ \t\n|]")  # `${ cmd; }` of bash 5.3
_PLAIN_IN_PAIR = {
    "}": lazy(r"[^'\"\\$`<>}]++"),
    ")": lazy(r"[^'\"\\$`<>()]++"),
    "]": lazy(r"[^'\"\\$`<>\[\]]++"),
}
_QUOTED = lazy(r"\\.|'[^']*+'|\"(?>(?:[^\"\\]++|\\.)*)\"", re.DOTALL)
_MISCOUNTED = lazy(r"#|<<|\besac\b")  # bash counts parentheses in these, too


class ExpansionReader(TextReader):
    """Reads what becomes something else when the word is expanded."""

    @abstractmethod
    def expandable(self, parts: list[Part], closer: str) -> None:
        """Reads text as in double quotes, up to `closer` or the end."""

    @abstractmethod
    def double(self, parts: list[Part]) -> bool:
        """Reads `"…"`; false if it does not end."""

    def dollar(self, parts: list[Part], *, quoted: bool = False) -> bool:
        """Reads `$` and what belongs to it; alone it is text."""
        if variable := _VARIABLE.match(self.text, self.at):
            parts.append(Part(PartKind.VARIABLE, variable[1] or variable[2], quoted))
            self.at = variable.end()
            if _PID_AND_BRACKET.match(self.text, variable.start()):
                self.doubtful("a bracket behind `$$`", variable.start())
        elif not self._longer_dollar(parts, quoted=quoted):
            parts.append(Part(PartKind.TEXT, "$", quoted))
            self.at += 1
        return True

    def _longer_dollar(self, parts: list[Part], *, quoted: bool) -> bool:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "(":
            if not (self.next_is("$((") and self._arithmetic(parts, quoted=quoted)):
                self.substitution(parts, PartKind.COMMAND, quoted=quoted)
        elif following == "{":
            self._brace(parts, quoted=quoted)
        elif following == "[":
            self._old_arithmetic(parts, quoted=quoted)
        elif following == "'" and not quoted:
            self._ansi(parts)
        elif following == '"' and not quoted:
            start, self.at = self.at, self.at + 1
            self.double(parts)
            # What a catalogue of the project has in its place is expanded like the text itself.
            self.doubtful("a text that is translated before it is expanded", start)
        else:
            return False
        return True

    def _ansi(self, parts: list[Part]) -> None:
        if body := _ANSI.match(self.text, self.at):
            value = decoded(self.source.verbatim(*body.span(1)))
            parts.append(Part(PartKind.TEXT, value, quoted=True))
            self.at = body.end()
        else:
            self.not_closed("a single quote")

    def substitution(self, parts: list[Part], kind: PartKind, *, quoted: bool = False) -> bool:
        """Reads `$(…)`, `<(…)` or `>(…)`."""
        start, mark = self.at, len(self.found.drafts)
        self.at += 2
        self.commands(")")
        parts.append(self.expansion(kind, start, mark, quoted=quoted))
        return True

    def _arithmetic(self, parts: list[Part], *, quoted: bool) -> bool:
        """As bash: up to the matching parenthesis, and no arithmetic unless `))` ends it."""
        start, mark = self.at, len(self.found.drafts)
        self.at += 2
        closed = self.pair(")")
        body, ending = self.text[start + 3 : self.at - 2], self.text[self.at - 2 : self.at]
        if closed and not (ending == "))" and balanced(body)) and self.again(start, mark):
            return False
        parts.append(self.expansion(PartKind.ARITHMETIC, start, mark, quoted=quoted))
        if parts[-1].commands and _MISCOUNTED.search(body):
            self.doubtful("parentheses that bash may count differently", start)
        return True

    def again(self, start: int, mark: int) -> bool:
        """Goes back to read it in another way, unless that was done too often."""
        self.doubtful("two parentheses that are not arithmetic", start)
        self.found.second_readings += 1
        if self.found.second_readings > _SECOND_READINGS_MAX:
            self.give_up("too many parentheses that are not arithmetic", start)
            return False
        del self.found.drafts[mark:]
        self.at = start
        return True

    def _old_arithmetic(self, parts: list[Part], *, quoted: bool) -> None:
        start, mark = self.at, len(self.found.drafts)
        self.at += 2
        self.pair("]")
        parts.append(self.expansion(PartKind.ARITHMETIC, start, mark, quoted=quoted))

    def _brace(self, parts: list[Part], *, quoted: bool) -> None:
        start, mark = self.at, len(self.found.drafts)
        commands = _FUNCTION_SUBSTITUTION.match(self.text, start)
        self.at += 2
        if commands:
            self.commands("}")
            self.doubtful("only some versions of bash run the commands in `${ …; }`", start)
            self.found.broken = True
        else:
            self.pair("}", quoted=quoted)
        kind = PartKind.COMMAND if commands else PartKind.EXPANSION
        parts.append(self.expansion(kind, start, mark, quoted=quoted))

    def pair(self, closer: str, *, quoted: bool = True) -> bool:
        """Reads on to the matching `closer` and behind it, and finds what runs on the way."""
        start, open_ones, inside = self.at, 1, self.deeper()
        while inside and open_ones and self.at < self.end:
            if plain := _PLAIN_IN_PAIR[closer].match(self.text, self.at):
                self.at = plain.end()
            else:
                open_ones += self._in_pair(self.text[self.at], closer, quoted=quoted)
        self.back()
        if open_ones:
            self.give_up(f"`{closer}` is missing", start - 1)
        return not open_ones

    def _in_pair(self, char: str, closer: str, *, quoted: bool) -> int:
        """Reads one thing; returns by how much the number of open brackets changes."""
        ignored: list[Part] = []
        if char == "\\":
            self.at += 2
        elif char == "'":
            self._single_in_pair(quoted=quoted)
        elif char == '"':
            self._double_in_pair(quoted=quoted)
        elif char == "`":
            self.backticks(ignored, quoted=quoted)
        elif char == "$":
            self.dollar(ignored, quoted=quoted)
        elif char in "<>":
            self._process_in_pair(ignored)
        else:
            self.at += 1
            return -1 if char == closer else 1
        return 0

    def _single_in_pair(self, *, quoted: bool) -> None:
        """Within double quotes bash looks for the second one, but expands what is between them."""
        closing = self.text.find("'", self.at + 1)
        if closing < 0:
            self.not_closed("a single quote")
            return
        start, self.at = self.at, closing + 1
        if quoted:
            self.doubtful("a single quote inside an expansion", start)
            self.inner(self.source.part(start + 1, closing)).expandable([], "")

    def _double_in_pair(self, *, quoted: bool) -> None:
        """In quotes within quotes bash drops a backslash, and then expands: `$\\(cmd)` runs."""
        start = self.at
        self.double([])
        if quoted and "\\" in self.text[start : self.at]:
            self.doubtful("a backslash in quotes inside a quoted expansion", start)

    def _process_in_pair(self, parts: list[Part]) -> None:
        if self.text[self.at + 1 : self.at + 2] != "(":
            self.at += 1
        else:
            # In a subscript it is none, and what looks quoted in it is expanded. In double quotes
            # and here-documents it is one behind `?`, `#`, `%` and `/`: `"${x#<(cmd)}"` runs.
            self.doubtful("a process substitution inside an expansion", self.at)
            self.substitution(parts, PartKind.PROCESS)

    def backticks(self, parts: list[Part], *, quoted: bool = False) -> bool:
        """As bash: the text up to the next backtick, unescaped once, is read on its own."""
        start, mark = self.at, len(self.found.drafts)
        found = _BACKTICKS.match(self.text, start)
        if not found:
            self.not_closed("a backtick")
            return False
        self.at = found.end()
        if self.deeper():
            self._backticked(found.start(1), found.end(1), quoted=quoted)
        self.back()
        parts.append(self.expansion(PartKind.COMMAND, start, mark, quoted=quoted))
        return True

    def _backticked(self, start: int, end: int, *, quoted: bool) -> None:
        escapes = list(_ESCAPES_IN_BACKTICKS[quoted].finditer(self.text, start, end))
        if not escapes:
            self.inner(self.source.part(start, end)).commands("")
            return
        self.doubtful("backslashes inside backticks", start)
        dropped = {escape.start() for escape in escapes}
        kept = [at for at in range(start, end) if at not in dropped]
        places = [self.source.places[at] for at in (*kept, end)]
        unescaped = "".join([self.text[at] for at in kept])
        self.inner(source_of(unescaped, places)).commands("")


def balanced(expression: str) -> bool:
    """Whether bash takes it for arithmetic: it counts parentheses without looking at commands."""
    depth = 0
    for char in re.findall(r"[()]", _QUOTED.sub("", expression)):
        depth += 1 if char == "(" else -1
        if depth < 0:
            return False
    return depth == 0


# A word that means itself, and nothing behind it that could belong to it.
_LITERAL = lazy(r"[A-Za-z0-9_./:=@%+,^-]++(?=[ \t\n;&|)]|\Z)")
_BARE = lazy(r"[^ \t\n|&;()<>'\"\\$`]++")
# Bash also expands the tilde in an argument that looks like an assignment.
_GLOB = lazy(r"[*?]|\A~|[+@!]\(|\A[A-Za-z_]\w*+\+?=(?:[^~]*:)?~")
_EXTENDED = "?*+@!"
_PLAIN_IN = {'"': lazy(r"[^\"\\$`]++"), "": lazy(r"[^\\$`]++")}
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
        return Word(text, text, span, (Part(PartKind.TEXT, text),))

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
                parts.append(Part(PartKind.TEXT, bare[0]))
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
                escaped = self.text[self.at + 1 : self.at + 2]
                self.at += 1 + len(escaped)
                known = escaped and escaped in _ESCAPED_IN[closer]
                literal.append(escaped if known else "\\" + escaped)
            else:
                if literal:
                    parts.append(Part(PartKind.TEXT, "".join(literal), quoted=True))
                    literal.clear()
                if self.text[self.at] == "`":
                    # Only between double quotes does `\"` lose its backslash; a document keeps it.
                    self.backticks(parts, quoted=True)
                else:
                    self.dollar(parts, quoted=True)
        if literal or len(parts) == count:
            parts.append(Part(PartKind.TEXT, "".join(literal), quoted=True))

    def single(self, parts: list[Part]) -> bool:
        closing = self.text.find("'", self.at + 1)
        if closing < 0:
            self.not_closed("a single quote")
            return False
        value = self.source.verbatim(self.at + 1, closing)
        parts.append(Part(PartKind.TEXT, value, quoted=True))
        self.at = closing + 1
        return True

    def escaped(self, parts: list[Part]) -> bool:
        escaped = self.text[self.at + 1 : self.at + 2]
        parts.append(Part(PartKind.TEXT, escaped or "\\", quoted=True))
        self.at += 1 + len(escaped)
        return True

    def process(self, parts: list[Part]) -> bool:
        opens = self.text[self.at + 1 : self.at + 2] == "("
        return opens and self.substitution(parts, PartKind.PROCESS)

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
        kind = PartKind.EXPANSION if "$" in text or "`" in text else PartKind.TEXT
        parts.append(Part(kind, text, commands=self.found.since(mark)))
        return True

    def bar(self, parts: list[Part]) -> bool:
        parts.append(Part(PartKind.TEXT, "|"))
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


def _is_pattern(parts: list[Part]) -> bool:
    """What is quoted or expanded can stand inside a pattern, but begins none."""
    live = "".join(
        [part.text if part.kind is PartKind.TEXT and not part.quoted else "\0" for part in parts]
    )
    braced = live[live.find("{") : live.rfind("}") + 1] if "{" in live else ""
    return (
        _GLOB.search(live) is not None
        or "[" in live[: live.rfind("]") + 1]
        or ("," in braced or ".." in braced)
    )


_BLANKS = lazy(r"[ \t]*+")


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

    def __init__(self, source: Source, found: ParseResults) -> None:
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
            body = text[start:end]
            span = self.source.span(self.source.index_of(start), self.source.index_of(end))
            word = Word(body, body, span, (Part(PartKind.TEXT, body, quoted=True),))
            self.at = self.source.index_of(after)
        else:
            reader, parts = self.inner(self.source.part(start, end)), list[Part]()
            reader.expandable(parts, "")
            word = reader.made(parts, 0)
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
        start, self.at = self.at, self.end
        self.broken(f"the here-document does not end with {document.delimiter!r}", start)
        return len(text), len(text)

    def _ends_early(self, line: str, delimiter: str) -> bool:
        """Inside `$(…)` bash also accepts the delimiter with the closing parenthesis behind it."""
        early = line.startswith(delimiter) and ")" in line[len(delimiter) :]
        if early:
            self.doubtful("the end of a here-document is not on a line of its own", self.at)
        return early
