"""Danger in program text of other languages, found by its usual spellings. Pure.

It proves nothing: such text is never safe. It only tells what is certainly bad.
"""

import re
from collections.abc import Iterator

from shelltie.policy.safety.args import HOLE, Arg
from shelltie.policy.safety.case import Case
from shelltie.policy.safety.data import table
from shelltie.policy.safety.paths import is_secret_path, protection
from shelltie.regex import regex
from shelltie.verdict import Code

_LENGTH_MAX = 10_000
_FINDS_MAX = 20
_ANY_CASE = re.IGNORECASE | re.DOTALL
_SPELLINGS = tuple(
    (
        regex(entry["pattern"], _ANY_CASE),
        regex(entry.get("with", ""), _ANY_CASE),
        Code(entry["code"]),
        entry["why"],
    )
    for entry in table("inline")["spelling"]
)
_TEXT = r"""(?:"((?>(?:[^"\\\n]++|\\.)*))"|'((?>(?:[^'\\\n]++|\\.)*))')"""
_TEXTS = regex(_TEXT)
# A call with a text, or with a list of texts: `run(["rm", "-rf", "x"])`.
_NAMES = "|".join(map(re.escape, table("inline")["calls"]["names"]))
_CALLS = regex(rf"\b(?:{_NAMES})\s?\(?\s?\[?\s?[fbru]?{_TEXT}((?>(?:\s?,\s?\[?\s?{_TEXT})*))")
_BACKTICKS = regex(r"`([^`\n]+)`|%x[({\[]([^)}\]]+)[)}\]]|\bqx[({/]([^)}/]+)[)}/]")
# Lines of sqlite3, psql, ed, vim and expect that are for the shell.
_LINES = regex(
    r"^\s*(?:\.(?:shell|system|sh)\s+|\\!\s*|[:%.,$\d]*!+\s*|spawn\s+|shell\s+)(.+?)\s*$",
    re.MULTILINE,
)
_WRITES = regex(r"\b(?:write|append|open|copy|rename|symlink|chmod)", re.IGNORECASE)


def scan(case: Case, text: str, arg: Arg) -> None:
    """Tell what is certainly dangerous in a piece of code."""
    text = text.replace(HOLE, " ")[:_LENGTH_MAX]
    for pattern, beside, code, why in _SPELLINGS:
        if pattern.search(text) and beside.search(text):
            case.dangerous(code, why, arg)
    for command in list(_commands(text))[:_FINDS_MAX]:
        case.again.danger_in_text(_plain(command), case, case.program, arg.span)
    _paths(case, text, arg)


def scan_escapes(case: Case, text: str, arg: Arg) -> None:
    """Lines by which a pager hands a command to the shell: `!rm -rf ~`."""
    for command in _LINES.findall(text[:_LENGTH_MAX])[:_FINDS_MAX]:
        case.again.danger_in_text(command, case, case.program, arg.span)


def _commands(text: str) -> Iterator[str]:
    """Commands for the shell inside the code."""
    for call in _CALLS.finditer(text):
        more = ["".join(pair) for pair in _TEXTS.findall(call[3] or "")]
        yield " ".join([call[1] or call[2] or "", *more])
    yield from ("".join(groups) for groups in _BACKTICKS.findall(text))
    yield from _LINES.findall(text)


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _paths(case: Case, text: str, arg: Arg) -> None:
    """Files that the code names."""
    for first, second in _TEXTS.findall(text)[: _FINDS_MAX * 5]:
        path = first or second
        if "/" not in path and not path.startswith("."):
            continue
        if is_secret_path(path, case.directories):
            case.dangerous(Code.SECRET_READ, f"the code names {path}", arg)
        elif protection(path) in (Code.PERSISTENCE, Code.PRIVILEGE) and _WRITES.search(text):
            case.dangerous(Code.PERSISTENCE, f"the code may change {path}", arg)
