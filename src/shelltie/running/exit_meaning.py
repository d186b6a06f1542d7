"""Exit codes that are an answer and no failure: `grep` without a match, `diff` of two texts. Pure.

Each entry is what the program's manual says of that code. A code is explained only where it is
clear whose it is: the last command of a pipeline decides, and in `a && b` both may.
"""

from collections.abc import Iterator, Sequence

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.shell.parse import parse
from shelltie.shell.script import Simple
from shelltie.shell.split import strip_prefixes

_SEARCHES = "grep egrep fgrep zgrep rg ag ack ugrep"
# Programs, what else must be among their words, the code, and what it says.
_TABLE: tuple[tuple[str, str, int, str], ...] = (
    (_SEARCHES, "", 1, "nothing matched"),
    ("git", r"grep\b", 1, "nothing matched"),
    ("xargs", rf"\b(?:{_SEARCHES.replace(' ', '|')})\b", 123, "nothing matched in some of it"),
    ("diff colordiff sdiff diff3 cmp", "", 1, "they differ"),
    ("git", r"diff\b.*--(?:quiet|exit-code|no-index)\b", 1, "there are differences"),
    ("git", r"merge-base\b.*--is-ancestor\b", 1, "it is no ancestor"),
    ("git", r"check-ignore\b", 1, "none of them is ignored"),
    ("git", r"config\b.*--get", 1, "it is not set"),
    ("git", r"(?:show-ref|rev-parse\b.*(?:-q|--quiet))\b", 1, "there is no such ref"),
    ("git", r"ls-remote\b.*--exit-code\b", 2, "there is no such ref"),
    ("test [ [[", "", 1, "the condition is false"),
    ("expr", "", 1, "the result is empty or 0"),
    ("pgrep pkill pidof", "", 1, "no process matched"),
    ("which", "", 1, "no such program"),
    ("command", r"-[vV]\b", 1, "no such program"),
    ("lsof", "", 1, "nothing has it open"),
    ("fuser", "", 1, "nothing has it open"),
    ("getent", "", 2, "no such entry"),
    ("locate plocate look", "", 1, "nothing matched"),
    ("mountpoint", "", 1, "it is no mount point"),
    ("mountpoint", "", 32, "it is no mount point"),
    ("systemctl", r"is-active\b", 3, "it is not active"),
    ("systemctl", r"is-enabled\b", 1, "it is not enabled"),
    ("systemctl", r"is-failed\b", 1, "it has not failed"),
    ("jq", r"(?:^| )(?:-\w*e\w*|--exit-status)\b", 1, "the last result is false or null"),
    ("tmux", r"has(?:-session)?\b", 1, "there is no such session"),
    ("nc", r"(?:^| )-\w*z", 1, "nothing accepts a connection there"),
)
# They say why when they fail; where nothing was said, it was not their code.
_LOUD = ("cd", "pushd", "popd", "echo", "printf", "export", "mkdir", "cat", "source", ".", ":")
_TEXT_MAX = 4096
_OPERATOR = lazy(r"\s*(?:(\|\||&&|\|&?|;)\s*|\n\s*)")
# With these the first failure decides, wherever it is.
_STRICT = lazy(r"\bset\s+-\w*e|\berrexit\b|\bpipefail\b")


@frozen
class _Entry:
    needs: str
    code: int
    means: str


def _entries() -> dict[str, tuple[_Entry, ...]]:
    found: dict[str, tuple[_Entry, ...]] = {}
    for programs, needs, code, means in _TABLE:
        for program in programs.split():
            found[program] = (*found.get(program, ()), _Entry(needs, code, means))
    return found


_BY_PROGRAM = _entries()


def exit_meaning(text: str, code: int | None, *, complained: bool) -> str | None:
    """What the code of this command says, if that is an answer: `grep: nothing matched`.

    A command that `complained` on stderr has failed.
    """
    if not code or complained or len(text) > _TEXT_MAX or _STRICT.search(text):
        return None
    meanings = []
    for words in _deciding(text):
        program = words.split(maxsplit=1)[0].rpartition("/")[2] if words else ""
        means = _means(program, words, code)
        if means is None and program not in _LOUD:
            return None
        meanings += [] if means is None else [f"{program}: {means}"]
    return " or ".join(dict.fromkeys(meanings)) or None


def _means(program: str, words: str, code: int) -> str | None:
    rest = words.partition(" ")[2]
    for entry in _BY_PROGRAM.get(program, ()):
        if entry.code == code and (not entry.needs or lazy(entry.needs).search(rest)):
            return entry.means
    return None


def _deciding(text: str) -> list[str]:
    """The commands of which one has set the exit code, without their prefixes."""
    script = parse(text)
    commands, joints = script.commands, _joints(text, script.commands)
    if script.problems or joints is None:
        return [""]
    deciding = [commands[0]]
    for joint, command in zip(joints, commands[1:], strict=True):
        match joint:
            case "&&":
                deciding.append(command)
            case "|" | "|&":
                deciding[-1] = command
            case _:
                deciding = [command]
    return [strip_prefixes(text[one.span.start : one.span.end]) for one in deciding]


def _joints(text: str, commands: Sequence[Simple]) -> list[str] | None:
    """What stands between simple commands; nothing if one is part of another, or of a loop."""
    if not commands or commands[-1].background:
        return None
    edges = [0, *(place for one in commands for place in (one.span.start, one.span.end)), len(text)]
    gaps = [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    joints = list(_operators(gaps[1:-1]))
    outside = gaps[0].strip() + gaps[-1].strip().removesuffix(";")
    return None if outside or None in joints else [joint or "" for joint in joints]


def _operators(gaps: Sequence[str]) -> Iterator[str | None]:
    for gap in gaps:
        found = _OPERATOR.fullmatch(gap)
        yield None if found is None else found[1] or ";"
