"""bash grammar (recursive descent): words → simple and compound commands. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from shelltie.basics.lazy_regex import lazy
from shelltie.shell.lexer import Document, LineReader, balanced
from shelltie.shell.script import Assignment, Draft, Part, PartKind, Redirect, Word, source_of
from shelltie.verdict import Span

_COMMANDS_END = 5000

_NAME = r"[A-Za-z_]\w*+"
_REDIRECT = lazy(
    rf"(?:(?>(\d++|\{{{_NAME}\}})?)(<<<|<<-?|<[&>]|<(?!\()|>[>&|]|>(?!\())|(&>>?))", re.ASCII
)
_ASSIGNMENT = lazy(rf"{_NAME}(?:\+?=|(\[))", re.ASCII)
_EXPANDS = lazy(r"[$`\\]")
_EQUALS = lazy(r"\+?=")
_ARRAY = lazy(rf"{_NAME}\+?=(?=\()", re.ASCII)
_COMMENT = lazy(r"[ \t\n(]#")
_ARRAY_END = lazy(r"\)(?:[ \t\n;&|)]|\Z)")
_TAKES_ARRAYS = frozenset(
    ("alias", "declare", "eval", "export", "let", "local", "readonly", "typeset")
)
_ENDS = "\n;|)("
_TEST_OPERATOR = lazy(r"&&|\|\||[()]|[<>](?!\()")
_TEST_END = lazy(r"\]\](?=[ \t\n;&|()<>]|\Z)")


class SimpleReader(LineReader):
    """Reads commands that contain no other commands, but for those inside their words."""

    def draft(self) -> Draft:
        """A place for the command that begins here."""
        if len(self.found.drafts) >= _COMMANDS_END:
            self.stop(f"more than {_COMMANDS_END} commands")
        place = self.source.places[self.at]
        draft = Draft(Span(place, place))
        self.found.drafts.append(draft)
        return draft

    def simple(self) -> Draft:
        """Reads to the end of the command, and the blanks behind it."""
        draft, start = self.draft(), self.at
        end = start
        while self.at < self.end and self._item(draft):
            end = self.at
            self.blanks()
        draft.span = self.source.span(start, end)
        return draft

    def _item(self, draft: Draft) -> bool:
        """Reads one assignment, redirection or word; false where the command ends."""
        if draft.words and (word := self.literal()):
            draft.words.append(word)
            return True
        char = self.text[self.at]
        if char in _ENDS:
            return False
        if char == "#":
            self.comment()
            return False
        if (char in "<>&{" or char.isdigit()) and self.redirect(draft):
            return True
        if char == "&":
            return False
        if not draft.words and self._assignment(draft):
            return True
        draft.words.append(self._argument(draft))
        return True

    def _argument(self, draft: Draft) -> Word:
        declares = draft.words and draft.words[0].value in _TAKES_ARRAYS
        array = _ARRAY.match(self.text, self.at) if declares else None
        if not array:
            return self.word()
        start, parts = self.at, [Part(PartKind.TEXT, array[0])]
        self.at = array.end()
        self._array(parts)
        return self.made(parts, start)

    def redirect(self, draft: Draft) -> bool:
        """Reads a redirection if one stands here."""
        found = _REDIRECT.match(self.text, self.at)
        if not found:
            return False
        start, self.at = self.at, found.end()
        if found[2] in ("<&", ">&") and self.next_is("-"):
            word = self.operator(1)  # it ends there, whatever follows
        else:
            self.blanks()
            word = self.word()
        if not word.parts:
            self.broken("a redirection without a target", start)
        self._redirected(draft, found, word, start)
        return True

    def _redirected(self, draft: Draft, found: re.Match[str], word: Word, start: int) -> None:
        operator, span = found[2] or found[3], self.source.span(start, self.at)
        if operator == ">&":
            self._expanded_twice(word, start)
        target, body = (None, word) if operator == "<<<" else (word, None)
        if operator in ("<<", "<<-"):
            target = None
            self._await(draft, operator, word)
        draft.redirects.append(Redirect(operator, target, span, found[1] or "", body))

    def _expanded_twice(self, word: Word, start: int) -> None:
        """Bash expands the target of `>&` once more, though quoted, and runs what is in it."""
        text = word.value or ""
        if word.value is None or _EXPANDS.search(text):
            self.doubtful("the target of `>&` is expanded twice", start)
            places = [word.span.start] * (len(text) + 1)
            self.inner(source_of(text, places)).expandable([], "")

    def _await(self, draft: Draft, operator: str, word: Word) -> None:
        quoted = any(part.quoted for part in word.parts)
        if word.value is None:
            self.doubtful("an expansion as the end of a here-document", self.at)
        delimiter = word.text if word.value is None else word.value
        nth = len(draft.redirects)
        self.pending.append(Document(draft, nth, delimiter, quoted, operator == "<<-"))

    def _assignment(self, draft: Draft) -> bool:
        found = _ASSIGNMENT.match(self.text, self.at)
        if not found or (found[1] and not self._subscript(found.end())):
            return False
        start = self.at if not found[1] else found.start()
        end = self.at if found[1] else found.end()
        name = self.text[start:end].removesuffix("=").removesuffix("+")
        self.at = end
        if self.next_is("("):
            parts = list[Part]()
            self._array(parts)
            value = self.made(parts, end)
        else:
            value = self.word()
        draft.assignments.append(Assignment(name, value, self.source.span(start, self.at)))
        return True

    def _subscript(self, inside: int) -> bool:
        """Reads `…]=`; without the `=` it goes back, for it is a word."""
        start, mark = self.at, len(self.found.drafts)
        self.at = inside
        self.pair("]")
        if equals := _EQUALS.match(self.text, self.at):
            self.at = equals.end()
            return True
        if re.search(r"[ \t\n|&;()<>$`'\"]", self.text[inside : self.at]):
            self.doubtful("a subscript that assigns nothing", start)
        del self.found.drafts[mark:]
        self.at = start
        return False

    def _array(self, parts: list[Part]) -> None:
        start, mark, inside = self.at, len(self.found.drafts), self.deeper()
        words = list[Word]()
        self.at += 1
        while inside and self._element(words):
            pass
        self.back()
        if not self.next_is(")"):
            self.give_up("an array is not closed", start)
        elif not _ARRAY_END.match(self.text, self.at):
            self.broken("something right behind an array", start)
        self.at = min(self.at + 1, self.end)
        if self.inside or _COMMENT.search(self.text, start, self.at):
            # Bash 5.2 loses its place behind an array that it has met inside `<(…)`.
            self.doubtful("an array with a comment, or inside a substitution", start)
        array = self.expansion(PartKind.EXPANSION, start, mark, quoted=False)
        parts.append(replace(array, words=tuple(words)))

    def _element(self, words: list[Word]) -> bool:
        self.lines()
        if self.at >= self.end or self.next_is(")"):
            return False
        words.append(self.word())
        if not words[-1].parts:
            self.broken("an operator inside an array", self.at)
            self.at += 1
        return True

    def conditional(self) -> None:
        """Reads `[[ … ]]`; its words are the command's."""
        draft, start = self.draft(), self.at
        draft.words.append(self.operator(2))
        while self._operand(draft):
            pass
        if self.at >= self.end:
            self.give_up("`]]` is missing", start)
        else:
            draft.words.append(self.operator(2))
        draft.span = self.source.span(start, self.at)

    def _operand(self, draft: Draft) -> bool:
        self.lines()
        if self.at >= self.end or _TEST_END.match(self.text, self.at):
            return False
        before = draft.words[-1].text
        operator = _TEST_OPERATOR.match(self.text, self.at)
        if before == "=~":
            draft.words.append(self.regular_expression())
        elif operator:
            draft.words.append(self.operator(len(operator[0])))
        else:
            draft.words.append(self.word())
        if not draft.words[-1].text:
            self.give_up("an operator that does not belong into `[[ … ]]`", self.at)
            return False
        return True

    def operator(self, length: int) -> Word:
        """The next characters as a word of their own."""
        start, self.at = self.at, self.at + length
        return self.made([Part(PartKind.TEXT, self.text[start : self.at])], start)

    def arithmetic(self) -> bool:
        """Reads `(( … ))`; false if it turns out to be two subshells."""
        start, mark = self.at, len(self.found.drafts)
        draft = self.draft()
        draft.words.append(self.operator(2))
        inside = self.at
        closed = self.pair(")")
        arithmetic = self.next_is(")") and balanced(self.text[inside : self.at - 1])
        if closed and not arithmetic and self.again(start, mark):
            return False
        self.at = min(self.at + 1, self.end)
        draft.words.append(self._expression(inside, mark + 1))
        draft.span = self.source.span(start, self.at)
        return True

    def _expression(self, start: int, mark: int) -> Word:
        end, self.at = self.at, max(self.at - 2, start)
        commands = self.found.since(mark)
        text = self.text[start : self.at]
        kind = PartKind.ARITHMETIC if "$" in text or "`" in text else PartKind.TEXT
        word = self.made([Part(kind, text, quoted=True, commands=commands)], start)
        self.at = end
        return word


_DELIMITED = r"(?=[ \t\n;&|()<>]|\Z)"
_RESERVED = lazy(
    r"(?:if|then|elif|else|fi|while|until|for|select|do|done|case|esac|function|coproc|time"
    rf"|\{{|\}}|!|\[\[){_DELIMITED}"
)
_IN = lazy(rf"in{_DELIMITED}")
_TIME_OPTION = lazy(rf"[ \t]*+(?:-p|--){_DELIMITED}")
_COPROC_NAME = lazy(
    r"[A-Za-z_]\w*+[ \t]++(?=[({]|(?:if|while|until|for|select|case|\[\[)[ \t\n])", re.ASCII
)
_PARENTHESES = lazy(r"\([ \t]*+\)")
_CLAUSE_END = lazy(r";;&?|;&")
_PREFIXES = ("!", "time")
_NOTHING = lazy(r"[\n;)]|\Z")
_UNEXPECTED = lazy(r";;&?|;&|&&|&(?!>)|\|\||[;|)]|\Z")
_REDIRECTS = lazy(r"\d*+[<>](?!\()|\{\w++\}[<>](?!\()|&>")
_ENDS_LIST = lazy(rf"[\n)]|\Z|(?:then|elif|else|fi|do|done|esac|\}}){_DELIMITED}")
_LOOP_ENDS = {"do": "done", "{": "}"}
_BODIES = frozenset(("{", "if", "while", "until", "for", "select", "case", "[["))


class CommandReader(SimpleReader):
    """Reads lists of commands. It accepts a little more than bash, and says so when it does."""

    def commands(self, closer: str) -> tuple[int, ...]:
        mark = len(self.found.drafts)
        pending, inside, self.pending, self.inside = self.pending, self.inside, [], closer
        start = self.at
        if self.deeper() and self.list_until(closer) != closer:
            self.give_up(f"`{closer}` is missing", start)
        if self.pending:
            self.broken("a here-document without a body", start)
        if closer and _has_document_and_more(self.found.drafts[mark:]):
            # Bash 5.2 prints what it has read in `$(…)` and reads that again, less a `;`.
            self.doubtful("a here-document beside other commands in a substitution", start)
        self.pending, self.inside = pending, inside
        self.back()
        return self.found.since(mark)

    def list_until(self, *stops: str) -> str:
        """Reads commands up to one of `stops` and behind it; "" if the text ends before."""
        while True:
            self.lines()
            if self.at >= self.end:
                return ""
            if stop := self._stop(stops):
                return stop
            self._and_or()

    def _stop(self, stops: tuple[str, ...]) -> str:
        if ")" in stops and self.next_is(")"):
            self.at += 1
            return ")"
        found = _RESERVED.match(self.text, self.at) or _CLAUSE_END.match(self.text, self.at)
        if not found or found[0] not in stops:
            return ""
        self.at = found.end()
        return found[0]

    def _and_or(self) -> None:
        mark = len(self.found.drafts)
        self._pipeline()
        while self.next_is("&&") or self.next_is("||"):
            self.at += 2
            self.lines()
            self._pipeline()
        self._separator(mark)

    def _separator(self, mark: int) -> None:
        """Reads `;` or `&`; a newline, or the word that ends a compound, does as well."""
        if self.line_over:
            self.line_over = False
        elif _CLAUSE_END.match(self.text, self.at):
            pass
        elif self.next_is("&"):
            self.at += 1
            self._in_background(mark)
        elif self.next_is(";"):
            self.at += 1
        elif not _ENDS_LIST.match(self.text, self.at):
            self.broken("two commands with nothing between them", self.at)

    def _in_background(self, mark: int) -> None:
        for draft in self.found.drafts[mark:]:
            draft.background = True

    def _pipeline(self) -> None:
        while (prefix := _RESERVED.match(self.text, self.at)) and prefix[0] in _PREFIXES:
            self.at = prefix.end()
            while prefix[0] == "time" and (option := _TIME_OPTION.match(self.text, self.at)):
                self.at = option.end()
            self.blanks()
            if _NOTHING.match(self.text, self.at):
                return
        mark = len(self.found.drafts)
        self._command()
        while self.next_is("|") and not self.next_is("||"):
            self.at += 2 if self.next_is("|&") else 1
            self.lines()
            mark = self._fed_by(mark)

    def _fed_by(self, mark: int) -> int:
        """Reads a command whose input is the output of all commands since `mark`."""
        feeds, start = self.found.since(mark), len(self.found.drafts)
        self._command()
        for draft in self.found.drafts[start:]:
            draft.feeds = feeds if draft.feeds is None else draft.feeds
        return start

    def _command(self) -> None:
        reserved = _RESERVED.match(self.text, self.at)
        if reserved and reserved[0] == "time":
            reserved = None  # only where a pipeline begins it is no program
        if self.next_is("("):
            if not (self.next_is("((") and self.arithmetic()):
                self.at += 1
                self._body(")")
        elif reserved and reserved[0] in _COMPOUNDS:
            self.at = reserved.end() if reserved[0] != "[[" else self.at
            _COMPOUNDS[reserved[0]](self)
        elif unexpected := reserved or _UNEXPECTED.match(self.text, self.at):
            self.at = unexpected.end()
            what = unexpected[0] or "end of the text"
            self.broken(f"unexpected {what!r}", unexpected.start())
            return
        else:
            self._simple_or_function()
            return
        self._redirects()

    def _redirects(self) -> None:
        """Those of a compound command; they are a command without words."""
        self.blanks()
        if not _REDIRECTS.match(self.text, self.at):
            return
        draft, start, end = self.draft(), self.at, self.at
        while self.redirect(draft):
            end = self.at
            self.blanks()
        draft.span = self.source.span(start, end)

    def _body(self, *stops: str) -> str:
        """The commands inside a compound command, up to one of `stops` and behind it."""
        start, mark = self.at, len(self.found.drafts)
        stop = self.list_until(*stops) if self.deeper() else ""
        self.back()
        if not stop:
            self.give_up(f"`{stops[-1]}` is missing", start)
        elif len(self.found.drafts) == mark:
            self.broken("no command where one is needed", start)
        return stop

    def group(self) -> None:
        self._body("}")

    def branches(self) -> None:
        stop = self._body("then")
        while stop == "then":
            stop = self._body("elif", "else", "fi")
            stop = self._body("then") if stop == "elif" else stop
        if stop == "else":
            self._body("fi")

    def loop(self) -> None:
        self._body("do")
        self._body("done")

    def words_loop(self) -> None:
        self.blanks()
        if not self.next_is("(("):
            self._for_words()
        elif not self.arithmetic():
            self.give_up("`for` with a subshell", self.at)
        self.blanks()
        self.at += 1 if self.next_is(";") else 0
        self.lines()
        self._loop_body()

    def _for_words(self) -> None:
        draft, start = self.draft(), self.at
        draft.loop = self.word().text
        self.lines()
        if listed := _IN.match(self.text, self.at):
            self.at = listed.end()
            self.blanks()
            while (word := self.word()).parts:
                draft.words.append(word)
                self.blanks()
                if self.next_is("#"):
                    self.comment()
        draft.span = self.source.span(start, self.at)

    def _loop_body(self) -> None:
        begin = _RESERVED.match(self.text, self.at)
        if begin and begin[0] in _LOOP_ENDS:
            self.at = begin.end()
            self._body(_LOOP_ENDS[begin[0]])
        else:
            self.broken("`do` is missing", self.at)

    def case(self) -> None:
        draft, start = self.draft(), self.at
        draft.loop = "case"
        self.blanks()
        draft.words.append(self.word())
        self.lines()
        if not (begin := _IN.match(self.text, self.at)):
            self.give_up("`in` is missing", start)
            return
        self.at = begin.end()
        draft.span = self.source.span(start, self.at)
        clauses = self.deeper()
        while clauses:
            clauses = self._clause(draft)
        self.back()

    def _clause(self, draft: Draft) -> bool:
        self.lines()
        if self._stop(("esac",)):
            return False
        start = self.at
        self.at += 1 if self.next_is("(") else 0
        self._case_patterns(draft)
        if not self.next_is(")"):
            self.give_up("`)` is missing after a pattern", start)
            return False
        self.at += 1
        stop = self.list_until(";;", ";&", ";;&", "esac")
        if not stop:
            self.give_up("`esac` is missing", start)
        return stop not in ("", "esac")

    def _case_patterns(self, draft: Draft) -> None:
        more = True
        while more:
            self.blanks()
            draft.words.append(self.word())
            self.blanks()
            more = self.next_is("|")
            self.at += 1 if more else 0

    def function(self) -> None:
        self.blanks()
        name = self.word()
        self.blanks()
        if parentheses := _PARENTHESES.match(self.text, self.at):
            self.at = parentheses.end()
        self._define(name)

    def _define(self, name: Word) -> None:
        self.found.functions.append(name.text if name.value is None else name.value)
        self.lines()
        compound = _RESERVED.match(self.text, self.at)
        if not (self.next_is("(") or (compound and compound[0] in _BODIES)):
            self.broken("a function without a body", self.at)
        self._nested_command()

    def _nested_command(self) -> None:
        if self.deeper():
            self._command()
        self.back()

    def _simple_or_function(self) -> None:
        draft = self.simple()
        if self.found.drafts[-1] is draft and not draft.has_something:
            self.found.drafts.pop()
            return
        if not self.next_is("("):
            return
        parentheses = _PARENTHESES.match(self.text, self.at)
        alone = len(draft.words) == 1 and not draft.assignments and not draft.redirects
        if not parentheses or not alone or self.found.drafts[-1] is not draft:
            self.broken("unexpected '('", self.at)
            return
        self.found.drafts.pop()
        self.at = parentheses.end()
        self._define(draft.words[0])

    def coproc(self) -> None:
        # Inside `$(…)` bash 5.2 runs `coproc a` as `COPROC a`.
        self.doubtful("a coprocess", self.at)
        self.blanks()
        mark = len(self.found.drafts)
        if name := _COPROC_NAME.match(self.text, self.at):
            self.at = name.end()
        self._nested_command()
        self._in_background(mark)


def _has_document_and_more(drafts: list[Draft]) -> bool:
    redirects = [each.operator for draft in drafts for each in draft.redirects]
    return len(drafts) > 1 and ("<<" in redirects or "<<-" in redirects)


_COMPOUNDS: Mapping[str, Callable[[CommandReader], None]] = {
    "{": CommandReader.group,
    "if": CommandReader.branches,
    "while": CommandReader.loop,
    "until": CommandReader.loop,
    "for": CommandReader.words_loop,
    "select": CommandReader.words_loop,
    "case": CommandReader.case,
    "function": CommandReader.function,
    "coproc": CommandReader.coproc,
    "[[": CommandReader.conditional,
}
