"""Reads simple commands, and `[[ … ]]` and `(( … ))`, which contain no others either. Pure."""

import re

from shelltie.regex import regex
from shelltie.shell.expansions import balanced
from shelltie.shell.found import Draft
from shelltie.shell.lines import Document, LineReader
from shelltie.shell.script import Assignment, Kind, Part, Redirect, Word
from shelltie.shell.source import source_of
from shelltie.verdict import Span

_COMMANDS_END = 5000

_NAME = r"[A-Za-z_]\w*+"
_REDIRECT = regex(
    rf"(?:(?>(\d++|\{{{_NAME}\}})?)(<<<|<<-?|<[&>]|<(?!\()|>[>&|]|>(?!\())|(&>>?))", re.ASCII
)
_ASSIGNMENT = regex(rf"{_NAME}(?:\+?=|(\[))", re.ASCII)
_EXPANDS = regex(r"[$`\\]")
_EQUALS = regex(r"\+?=")
_ARRAY = regex(rf"{_NAME}\+?=(?=\()", re.ASCII)
_COMMENT = regex(r"[ \t\n(]#")
_ARRAY_END = regex(r"\)(?:[ \t\n;&|)]|\Z)")
_TAKES_ARRAYS = frozenset(
    ("alias", "declare", "eval", "export", "let", "local", "readonly", "typeset")
)
_ENDS = "\n;|)("
_TEST_OPERATOR = regex(r"&&|\|\||[()]|[<>](?!\()")
_TEST_END = regex(r"\]\](?=[ \t\n;&|()<>]|\Z)")


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
        start, parts = self.at, [Part(Kind.TEXT, array[0])]
        self.at = array.end()
        self._array(parts)
        return self.made(parts, start)

    def redirect(self, draft: Draft) -> bool:
        """Reads a redirection if one stands here."""
        found = _REDIRECT.match(self.text, self.at)
        if not found:
            return False
        start, self.at = self.at, found.end()
        word = self._target(found[2])
        if not word.parts:
            self.broken("a redirection without a target", start)
        self._redirected(draft, found, word, start)
        return True

    def _target(self, operator: str | None) -> Word:
        if operator in ("<&", ">&") and self.next_is("-"):
            return self.operator(1)  # it ends there, whatever follows
        self.blanks()
        return self.word()

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
        value = self._value()
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

    def _value(self) -> Word:
        if not self.next_is("("):
            return self.word()
        start, parts = self.at, list[Part]()
        self._array(parts)
        return self.made(parts, start)

    def _array(self, parts: list[Part]) -> None:
        start, mark, inside = self.at, len(self.found.drafts), self.deeper()
        self.at += 1
        while inside and self._element():
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
        parts.append(self.expansion(Kind.EXPANSION, start, mark, quoted=False))

    def _element(self) -> bool:
        self.lines()
        if self.at >= self.end or self.next_is(")"):
            return False
        if not self.word().parts:
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
        return self._read_something(draft.words[-1])

    def _read_something(self, word: Word) -> bool:
        if not word.text:
            self.give_up("an operator that does not belong into `[[ … ]]`", self.at)
        return bool(word.text)

    def operator(self, length: int) -> Word:
        """The next characters as a word of their own."""
        start, self.at = self.at, self.at + length
        return self.made([Part(Kind.TEXT, self.text[start : self.at])], start)

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
        kind = Kind.ARITHMETIC if "$" in text or "`" in text else Kind.TEXT
        word = self.made([Part(kind, text, quoted=True, commands=commands)], start)
        self.at = end
        return word
