"""Danger in PowerShell, cmd.exe, `python -c` and `node -e`. Pure."""

import re
from collections.abc import Iterator

from shelltie.basics.lazy_regex import lazy
from shelltie.safety.arg import HOLE, Arg
from shelltie.safety.inspection import Inspection
from shelltie.safety.protected_names import is_secret_path, protection, table
from shelltie.verdict import Code

_HEAD = 10_000  # characters of a text that are searched
_PROGRAMS = {
    name: (
        lazy(entry.get("words", ""), re.IGNORECASE | re.DOTALL),
        Code(entry["code"]),
        entry["why"],
    )
    for entry in table("foreign")["program"]
    for name in entry["names"].split()
}
_TEXTS = tuple(
    (lazy(entry["pattern"], re.IGNORECASE | re.DOTALL), Code(entry["code"]), entry["why"])
    for entry in table("foreign")["text"]
)
_SHELLS = lazy(r"(?:powershell|pwsh|cmd)(?:\.exe)?", re.IGNORECASE)
_ENCODED = lazy(r"(?:^|\s)[-/]e(?:nc?|ncodedcommand|c)?(?:\s|$)", re.IGNORECASE)
_CMDLET = lazy(r"[A-Za-z]+-[A-Z][A-Za-z]+")  # Get-ChildItem
_OPTIONS = lazy(r"\s*(?:[-/]\w+\s+)*")
_EXTENSION = lazy(r"\.(?:exe|cmd|bat|com|ps1)$", re.IGNORECASE)


def without_extension(program: str) -> str:
    """`npm.cmd` is npm."""
    return _EXTENSION.sub("", program)


def rate_foreign(case: Inspection) -> None:
    """One command, as PowerShell or cmd.exe would read it."""
    if _CMDLET.fullmatch(case.program):
        case.unknown(Code.FOREIGN_SHELL, f"{case.program} is a word of PowerShell")
    known = _PROGRAMS.get(without_extension(case.program).lower())
    is_shell = _SHELLS.fullmatch(case.program) is not None
    if known is None and not is_shell:
        return
    line = " ".join(arg.guesses[0] for arg in case.words)
    if known is not None and known[0].search(line):
        case.dangerous(known[1], f"{case.program} {known[2]}")
    if is_shell:
        case.unknown(Code.FOREIGN_SHELL, f"{case.program} is a shell whose text we do not judge")
        if _ENCODED.search(line):
            case.dangerous(Code.REMOTE_CODE, "the code is hidden by an encoding")
        case.again.danger_in_text(
            _OPTIONS.sub("", line, count=1), case, case.program, case.simple.span
        )


def dangers_in(text: str) -> Iterator[tuple[Code, str]]:
    """What a whole text would do in PowerShell."""
    for pattern, code, why in _TEXTS:
        if pattern.search(text, 0, _HEAD):
            yield code, f"in PowerShell, it {why}"


_LENGTH_MAX = 10_000
_FINDS_MAX = 20
_ANY_CASE = re.IGNORECASE | re.DOTALL
_SPELLINGS = tuple(
    (
        lazy(entry["pattern"], _ANY_CASE),
        lazy(entry.get("with", ""), _ANY_CASE),
        Code(entry["code"]),
        entry["why"],
    )
    for entry in table("inline")["spelling"]
)
_TEXT = r"""(?:"((?>(?:[^"\\\n]++|\\.)*))"|'((?>(?:[^'\\\n]++|\\.)*))')"""
_INLINE_TEXTS = lazy(_TEXT)
# A call with a text, or with a list of texts: `run(["rm", "-rf", "x"])`.
_NAMES = "|".join(map(re.escape, table("inline")["calls"]["names"]))
_CALLS = lazy(rf"\b(?:{_NAMES})\s?\(?\s?\[?\s?[fbru]?{_TEXT}((?>(?:\s?[,\s]\s?\[?\s?{_TEXT})*))")
_BACKTICKS = lazy(
    r"`([^`\n]+)`|\"([^\"\n]+)\"\.?!|%x[({\[]([^)}\]]+)[)}\]]|\bqx[({/]([^)}/]+)[)}/]"
)
_SIDE_BY_SIDE = lazy(rf"{_TEXT}(?>(?:\s*+[fbru]?{_TEXT})++)")
# Lines of sqlite3, psql, ed, vim and expect that are for the shell.
_LINES = lazy(
    r"^\s*(?:\.(?:shell|system|sh)\s+|\\[!P]\s*|[:%.,$\d]*!+\s*"
    r"|(?:spawn|pager|system|(?:platform\s+)?shell)\s+)(.+?)\s*$",
    re.MULTILINE,
)
_WRITES = lazy(r"\b(?:write|append|open|copy|rename|symlink|chmod)", re.IGNORECASE)


def scan(case: Inspection, text: str, arg: Arg) -> None:
    """Tell what is certainly dangerous in a piece of code."""
    text = text.replace(HOLE, " ")[:_LENGTH_MAX]
    for pattern, beside, code, why in _SPELLINGS:
        if pattern.search(text) and beside.search(text):
            case.dangerous(code, why, arg)
    scan_calls(case, text, arg)
    _paths(case, text, arg)


def scan_calls(case: Inspection, text: str, arg: Arg) -> None:
    """Tell what is dangerous in the commands that a piece of code hands to a shell."""
    text = text[:_LENGTH_MAX]
    # Texts that stand side by side are one: `system('rm ' '-rf x')`.
    joined = _SIDE_BY_SIDE.sub(_as_one_text, text)
    commands = dict.fromkeys((*_commands(text), *_commands(joined)))
    for command in list(commands)[:_FINDS_MAX]:
        case.again.danger_in_text(re.sub(r"\\(.)", r"\1", command), case, case.program, arg.span)


def scan_escapes(case: Inspection, text: str, arg: Arg) -> None:
    """Lines by which a pager hands a command to the shell: `!rm -rf ~`."""
    for command in _LINES.findall(text[:_LENGTH_MAX])[:_FINDS_MAX]:
        case.again.danger_in_text(command, case, case.program, arg.span)


def _commands(text: str) -> Iterator[str]:
    """Commands for the shell inside the code."""
    for call in _CALLS.finditer(text):
        more = ["".join(pair) for pair in _INLINE_TEXTS.findall(call[3] or "")]
        yield " ".join([call[1] or call[2] or "", *more])
    yield from ("".join(groups) for groups in _BACKTICKS.findall(text))
    yield from _LINES.findall(text)


def _as_one_text(texts: re.Match[str]) -> str:
    return '"' + "".join("".join(pair) for pair in _INLINE_TEXTS.findall(texts[0])) + '"'


def _paths(case: Inspection, text: str, arg: Arg) -> None:
    """Files that the code names."""
    for first, second in _INLINE_TEXTS.findall(text)[: _FINDS_MAX * 5]:
        path = first or second
        if "/" not in path and not path.startswith("."):
            continue
        if is_secret_path(path, case.directories):
            case.dangerous(Code.SECRET_READ, f"the code names {path}", arg)
        elif protection(path) in (Code.PERSISTENCE, Code.PRIVILEGE) and _WRITES.search(text):
            case.dangerous(Code.PERSISTENCE, f"the code may change {path}", arg)
