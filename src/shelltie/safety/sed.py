"""sed scripts: the e and w commands and other side effects. Pure.

Only what is known to stay inside sed is let through; a script that we cannot follow is unknown.
"""

import re
from collections.abc import Callable

from shelltie.basics.lazy_regex import lazy
from shelltie.safety.arg import HOLE, Arg
from shelltie.safety.dataflow import scan_input
from shelltie.safety.inspection import Inspection
from shelltie.safety.protected_names import is_harmless_target, protection, secrecy
from shelltie.verdict import Code, Rating

_SPACE = lazy(r"[\s;]*")
_BLANKS = lazy(r"[ \t]*")
_NUMBER = lazy(r"\d+(?:~\d+)?|[+~]\d+|\$")
_REGEX_FLAGS = lazy(r"[IM]*")
_LINE = lazy(r"[^\n]*")
_ALONE = "=dDgGhHnNpPxlqQFz{}"
_LABELLED = "btT:"
_LABEL = lazy(r"[ \t]*[^;\s}]*[ \t]*")
_AFTER_LABEL = lazy(r"[;\n}]|$")
_EXIT = lazy(r"[ \t]*\d*")
_TEXT = lazy(r"(?:[^\\\n]|\\.)*", re.DOTALL)
_FLAGS = lazy(r"[gpiImM0-9]*")
_FLAGS_AFTER_E = lazy(r"[gpiImM0-9e]*")
_COMMANDS_MAX = 1000


class _Lost(ValueError):
    """The script is not one we can follow."""


def rate_sed(case: Inspection, arg: Arg) -> None:
    """Rate a sed script that is given as an argument."""
    for guess in arg.guesses:
        try:
            _Script(case, arg, guess).read()
        except _Lost as error:
            case.unknown(Code.DYNAMIC_ARGUMENT, str(error), arg)
    if not arg.exact and arg.values:
        case.unknown(Code.DYNAMIC_ARGUMENT, "the sed script is put together at run time", arg)


class _Script:
    """Goes over a script once."""

    def __init__(self, case: Inspection, arg: Arg, text: str) -> None:
        self.case, self.arg, self.text = case, arg, text
        self.at = 0
        self._files: dict[str, Callable[[str], None]] = {
            "r": self._reads,
            "R": self._reads,
            "w": self._writes,
            "W": self._writes,
        }

    def read(self) -> None:
        if HOLE in self.text:
            raise _Lost("a part of the sed script is known only at run time")
        for _ in range(_COMMANDS_MAX):
            self._skip(_SPACE)
            if self.at >= len(self.text):
                return
            self._command()
        raise _Lost("the sed script is too long")

    def _command(self) -> None:
        self._address()
        self._skip(_BLANKS)
        name = self._next()
        if name in _ALONE:
            self._skip(_EXIT)
        elif name == "#":
            self._skip(_LINE)
        elif name in _LABELLED:
            self._label()
        elif name in "aic":
            self._skip(_TEXT)
        elif name in "sy":
            self._substitution(name)
        elif name in self._files:
            self._files[name](self._take(_LINE).strip())
        elif name == "e":
            self._runs(self._take(_LINE).strip())
        else:
            raise _Lost(f"the sed command {name!r} is not known")

    def _label(self) -> None:
        self._skip(_LABEL)
        if not _AFTER_LABEL.match(self.text, self.at):  # GNU sed goes on there, others do not
            raise _Lost("something follows a label in the sed script")

    def _address(self) -> None:
        for _ in range(2):
            self._skip(_BLANKS)
            if not self._one_address():
                break
            self._skip(_BLANKS)
            if not self.text.startswith(",", self.at):
                break
            self.at += 1
        self._skip(_BLANKS)
        while self.text.startswith("!", self.at):
            self.at += 1
            self._skip(_BLANKS)

    def _one_address(self) -> bool:
        if self._take(_NUMBER):
            return True
        if self.text.startswith("\\", self.at):
            self.at += 1
        elif not self.text.startswith("/", self.at):
            return False
        self._delimited(self._next())
        self._skip(_REGEX_FLAGS)
        return True

    def _delimited(self, mark: str) -> str:
        """The text up to the next `mark` that is not escaped."""
        start, bracket = self.at, False
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == mark:
                # Versions of sed differ in whether brackets hide the mark.
                if bracket:
                    raise _Lost("a bracket in the sed script holds its delimiter")
                self.at += 1
                return self.text[start : self.at - 1]
            if char == "[" and not bracket:
                bracket = self.text.find("]", self.at + 2) > 0
            elif char == "]":
                bracket = False
            self.at += 2 if char == "\\" and not bracket else 1
        raise _Lost("the sed script ends too early")

    def _substitution(self, name: str) -> None:
        mark = self._next()
        if mark in "\\\n":
            raise _Lost("the sed script has a strange delimiter")
        self._delimited(mark)
        replacement = self._delimited(mark)
        self._skip(_FLAGS)
        following = self.text[self.at : self.at + 1]
        if name == "s" and following == "w":
            self.at += 1
            self._writes(self._take(_LINE).strip())
        elif name == "s" and following == "e":
            self.at += 1
            self._skip(_FLAGS_AFTER_E)
            self._runs(replacement)
        elif following and following not in " \t;\n}#":
            raise _Lost(f"the sed flag {following!r} is not known")

    def _reads(self, path: str) -> None:
        worst = max(secrecy(path, self.case.directories), Rating.UNKNOWN, key=lambda it: it.rank)
        self.case.say(worst, Code.SECRET_READ, f"the sed script reads {path}", self.arg)

    def _writes(self, path: str) -> None:
        if is_harmless_target(path):
            return
        if (code := protection(path, self.case.directories)) is not None:
            self.case.dangerous(code, f"the sed script writes {path}", self.arg)
        else:
            self.case.unknown(Code.WRITE_FLAG, f"the sed script writes {path}", self.arg)

    def _runs(self, command: str) -> None:
        self.case.unknown(Code.EXEC_FLAG, "the sed script runs a command", self.arg)
        scan_input(self.case)
        if command:
            self.case.again.danger_in_text(command, self.case, "sed e", self.arg.span)

    def _next(self) -> str:
        if self.at >= len(self.text):
            raise _Lost("the sed script ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        self._take(pattern)

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        text = found[0] if found else ""
        self.at += len(text)
        return text
