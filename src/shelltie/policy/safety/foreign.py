"""Danger in text for PowerShell and cmd.exe, by a small list. Pure."""

import re
from collections.abc import Iterator

from shelltie.policy.safety.case import Case
from shelltie.policy.safety.data import table
from shelltie.regex import regex
from shelltie.verdict import Code

_HEAD = 10_000  # characters of a text that are searched
_PROGRAMS = {
    name: (
        regex(entry.get("words", ""), re.IGNORECASE | re.DOTALL),
        Code(entry["code"]),
        entry["why"],
    )
    for entry in table("foreign")["program"]
    for name in entry["names"].split()
}
_TEXTS = tuple(
    (regex(entry["pattern"], re.IGNORECASE | re.DOTALL), Code(entry["code"]), entry["why"])
    for entry in table("foreign")["text"]
)
_SHELLS = regex(r"(?:powershell|pwsh|cmd)(?:\.exe)?", re.IGNORECASE)
_ENCODED = regex(r"(?:^|\s)[-/]e(?:nc?|ncodedcommand|c)?(?:\s|$)", re.IGNORECASE)
_CMDLET = regex(r"[A-Za-z]+-[A-Z][A-Za-z]+")  # Get-ChildItem
_OPTIONS = regex(r"\s*(?:[-/]\w+\s+)*")
_EXTENSION = regex(r"\.(?:exe|cmd|bat|com|ps1)$", re.IGNORECASE)


def without_extension(program: str) -> str:
    """`npm.cmd` is npm."""
    return _EXTENSION.sub("", program)


def rate_foreign(case: Case) -> None:
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
        _rate_shell(case, line)


def _rate_shell(case: Case, line: str) -> None:
    case.unknown(Code.FOREIGN_SHELL, f"{case.program} is a shell whose text we do not judge")
    if _ENCODED.search(line):
        case.dangerous(Code.REMOTE_CODE, "the code is hidden by an encoding")
    case.again.danger_in_text(_OPTIONS.sub("", line, count=1), case, case.program, case.simple.span)


def dangers_in(text: str) -> Iterator[tuple[Code, str]]:
    """What a whole text would do in PowerShell."""
    for pattern, code, why in _TEXTS:
        if pattern.search(text, 0, _HEAD):
            yield code, f"in PowerShell, it {why}"
