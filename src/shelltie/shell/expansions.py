"""Reads `$…`, backticks and process substitutions, and finds the commands inside them. Pure."""

import re
from abc import abstractmethod

from shelltie.regex import regex
from shelltie.shell.ansi import decoded
from shelltie.shell.reading import Reading
from shelltie.shell.script import Kind, Part
from shelltie.shell.source import source_of

_SECOND_READINGS_MAX = 16  # each may read the rest of the text once more

_NAME = r"[A-Za-z_]\w*+"
_VARIABLE = regex(rf"\$(?:({_NAME}|[0-9@*#?$!-])|\{{({_NAME}|\d++|[@*#?$!-])\}})", re.ASCII)
_PID_AND_BRACKET = regex(r"\$\$[({[]")  # bash looks for the end of `$(` there
_ANSI = regex(r"\$'((?>(?:[^'\\]++|\\.)*))'", re.DOTALL)
_BACKTICKS = regex(r"`((?>(?:[^`\\]++|\\.)*))`", re.DOTALL)
_ESCAPES_IN_BACKTICKS = {
    False: regex(r"\\([$`\\])"),
    True: regex(r"\\([$`\\\"])"),
}
_FUNCTION_SUBSTITUTION = regex(r"\$\{[ \t\n|]")  # `${ cmd; }` of bash 5.3
_PLAIN_IN_PAIR = {
    "}": regex(r"[^'\"\\$`<>}]++"),
    ")": regex(r"[^'\"\\$`<>()]++"),
    "]": regex(r"[^'\"\\$`<>\[\]]++"),
}
_QUOTED = regex(r"\\.|'[^']*+'|\"(?>(?:[^\"\\]++|\\.)*)\"", re.DOTALL)
_MISCOUNTED = regex(r"#|<<|\besac\b")  # bash counts parentheses in these, too


class ExpansionReader(Reading):
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
            parts.append(Part(Kind.VARIABLE, variable[1] or variable[2], quoted))
            self.at = variable.end()
            if _PID_AND_BRACKET.match(self.text, variable.start()):
                self.doubtful("a bracket behind `$$`", variable.start())
        elif not self._longer_dollar(parts, quoted=quoted):
            parts.append(Part(Kind.TEXT, "$", quoted))
            self.at += 1
        return True

    def _longer_dollar(self, parts: list[Part], *, quoted: bool) -> bool:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "(":
            self._parenthesis(parts, quoted=quoted)
        elif following == "{":
            self._brace(parts, quoted=quoted)
        elif following == "[":
            self._old_arithmetic(parts, quoted=quoted)
        elif following == "'" and not quoted:
            self._ansi(parts)
        elif following == '"' and not quoted:
            self.at += 1
            self.double(parts)
        else:
            return False
        return True

    def _ansi(self, parts: list[Part]) -> None:
        if body := _ANSI.match(self.text, self.at):
            value = decoded(self.source.verbatim(*body.span(1)))
            parts.append(Part(Kind.TEXT, value, quoted=True))
            self.at = body.end()
        else:
            self.give_up("a single quote is not closed", self.at)

    def _parenthesis(self, parts: list[Part], *, quoted: bool) -> None:
        arithmetic = self.next_is("$((") and self._arithmetic(parts, quoted=quoted)
        if not arithmetic:
            self.substitution(parts, Kind.COMMAND, quoted=quoted)

    def substitution(self, parts: list[Part], kind: Kind, *, quoted: bool = False) -> bool:
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
        parts.append(self.expansion(Kind.ARITHMETIC, start, mark, quoted=quoted))
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
        parts.append(self.expansion(Kind.ARITHMETIC, start, mark, quoted=quoted))

    def _brace(self, parts: list[Part], *, quoted: bool) -> None:
        start, mark = self.at, len(self.found.drafts)
        commands = _FUNCTION_SUBSTITUTION.match(self.text, start)
        self.at += 2
        if commands:
            self.commands("}")
            self.broken("only some versions of bash run the commands in `${ …; }`", start)
        else:
            self.pair("}", quoted=quoted)
        kind = Kind.COMMAND if commands else Kind.EXPANSION
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
            self.double(ignored)
        elif char == "`":
            self.backticks(ignored, quoted=quoted)
        elif char == "$":
            self.dollar(ignored, quoted=quoted)
        elif char in "<>":
            self._process_in_pair(ignored, quoted=quoted)
        else:
            self.at += 1
            return -1 if char == closer else 1
        return 0

    def _single_in_pair(self, *, quoted: bool) -> None:
        """Within double quotes bash looks for the second one, but expands what is between them."""
        closing = self.text.find("'", self.at + 1)
        if closing < 0:
            self.give_up("a single quote is not closed", self.at)
            return
        start, self.at = self.at, closing + 1
        if quoted:
            self.doubtful("a single quote inside an expansion", start)
            self.inner(self.source.part(start + 1, closing)).expandable([], "")

    def _process_in_pair(self, parts: list[Part], *, quoted: bool) -> None:
        if quoted or self.text[self.at + 1 : self.at + 2] != "(":
            self.at += 1
        else:
            # In a subscript it is none, and what looks quoted in it is expanded.
            self.doubtful("a process substitution inside an expansion", self.at)
            self.substitution(parts, Kind.PROCESS)

    def backticks(self, parts: list[Part], *, quoted: bool = False) -> bool:
        """As bash: the text up to the next backtick, unescaped once, is read on its own."""
        start, mark = self.at, len(self.found.drafts)
        found = _BACKTICKS.match(self.text, start)
        if not found:
            self.give_up("a backtick is not closed", start)
            return False
        self.at = found.end()
        if self.deeper():
            self._backticked(found.start(1), found.end(1), quoted=quoted)
        self.back()
        parts.append(self.expansion(Kind.COMMAND, start, mark, quoted=quoted))
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
