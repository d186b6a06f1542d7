"""Environment variables of a child process: ours without secrets, plus what the call changes."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.environment import variable_kinds
from shelltie.environment.inherited import inherited as inherited
from shelltie.environment.inherited import inherited_variable as inherited_variable
from shelltie.environment.inherited import login_shell as login_shell
from shelltie.errors import InvalidParameters
from shelltie.output.secret_variable_names import is_path_to_secret, is_secret_name

# Nobody is there to admire colours, to page through output, or to answer a prompt.
_PLAIN = {"PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
UNPAGED = dict.fromkeys(("PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"), "cat")
QUIET = {
    **_PLAIN,
    **UNPAGED,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "PIP_NO_INPUT": "1",
    "DEBIAN_FRONTEND": "noninteractive",
}
# Programs that ask. On a terminal that stays a call may choose them, where they are judged.
_CHOSEN = frozenset(
    (
        *("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GH_EDITOR", "KUBE_EDITOR"),
        *("SUDO_EDITOR", "FCEDIT", "PAGER", "MANPAGER", "GIT_PAGER", "GH_PAGER", "BAT_PAGER"),
        *("DELTA_PAGER", "SYSTEMD_PAGER", "AWS_PAGER"),
    )
)
_FALLBACK_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RUN_MARK = "SHELLTIE_RUN"  # lets a person find what belongs to a run
# Who asked, in the words of a front-end. Once they are set, no call changes them.
_ASKER = frozenset({"CAWS_TASK_ID", "CAWS_AGENT_ID", "CAWS_SESSION_ID"})
# With one of these our shell would read the judged text otherwise than we did.
_REWRITE = lazy(
    r"(?:BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_COMPAT|POSIXLY_CORRECT|PROMPT_COMMAND|PS0|PS4|CDPATH"
    r"|GLOBIGNORE|EXECIGNORE)$|BASH_FUNC_"
)
_USERINFO = lazy(r"^((?:[\w.+-]+://)?).*@")  # a password may have an @ of its own
# What a hostile repository would have git run. Against its diff.external, filters and textconv no
# setting helps: an empty diff.external makes git fail.
_HARDENED_GIT = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.sshCommand": "ssh",
    "gpg.program": "gpg",
    "log.showSignature": "false",
    "protocol.ext.allow": "never",
}
_NOTHING: Mapping[str, str] = {}


@frozen
class Sifted:
    """Variables without those that no command gets.

    `secrets` are the secret values by name, for whoever must not repeat them: also those that
    `passed` lets through.
    """

    kept: Mapping[str, str]
    withheld: tuple[str, ...]
    secrets: Mapping[str, str] = field(repr=False)
    passed: tuple[str, ...]


@frozen
class Environment:
    """What one command gets; the rest is as in `Sifted`, with what the call gave."""

    env: dict[str, str]
    withheld: tuple[str, ...]
    secrets: Mapping[str, str] = field(repr=False)


def sift(variables: Mapping[str, str], passed: Sequence[str] = ()) -> Sifted:
    """Take out secrets, ways to the user's keys, and what makes a shell read a text differently.

    `passed` are names that stay in any case; one with `*` at its end stands for all that begin so.
    A proxy stays without the password in its address.
    """
    kept: dict[str, str] = {}
    found: dict[str, str] = {}
    for name, value in variables.items():
        secret = is_secret_name(name) or variable_kinds.is_secret_value(value) is not None
        if secret and not is_path_to_secret(name, value):
            found[name] = value
        if _matches(name, passed):
            kept[name] = value
        elif name.upper().endswith("_PROXY") and not is_secret_name(name):
            kept[name] = _USERINFO.sub(r"\1", value)
        elif not (secret or variable_kinds.is_channel_name(name) or _REWRITE.match(name)):
            kept[name] = value
    withheld = tuple(sorted(variables.keys() - kept.keys()))
    return Sifted(kept, withheld, found, tuple(passed))


def build(
    base: Sifted,
    changes: Mapping[str, str | None],
    *,
    path: str | None,
    pty: bool,
    run: str,
    own: Mapping[str, str] = _NOTHING,
    interactive: bool = False,
) -> Environment:
    """The whole environment of one command; what the call names wins over our defaults.

    What is `interactive` may ask: it has the user's own editor, pager and prompts.
    A secret in `changes` is withheld like our own. `own` is set last, and no call changes it.
    Raises: InvalidParameters for a name or value that no environment can hold, and for a name that
    would decide which code is run.
    """
    env = {
        **base.kept,
        **(_PLAIN if interactive else QUIET),
        "TERM": "xterm-256color" if pty else "dumb",
    }
    env["PATH"] = path or base.kept.get("PATH") or _FALLBACK_PATH
    given: dict[str, str] = {}
    for name, value in changes.items():
        _check(name, value)
        if name in _ASKER and name in env:
            continue
        if _changes_nothing(name, value, base):
            continue
        _refuse_hook(name, value, env, base.passed)
        if value is None:
            env.pop(name, None)
        else:
            given[name] = value
    sifted = sift(given, base.passed)
    env |= {**sifted.kept, **own, RUN_MARK: run}
    # Of the call's also one that has a value of ours: it is not the one that was asked for.
    withheld = ({*base.withheld} - env.keys()) | ({*sifted.withheld} - own.keys())
    return Environment(env, tuple(sorted(withheld)), {**base.secrets, **sifted.secrets})


@cache
@cache
def hardened_git() -> Mapping[str, str]:
    """Variables with which git runs nothing that a repository's configuration names.

    For commands that run because they are safe: others may need what this switches off.
    """
    settings = dict(enumerate(_HARDENED_GIT.items()))
    keys = {f"GIT_CONFIG_KEY_{place}": key for place, (key, _) in settings.items()}
    values = {f"GIT_CONFIG_VALUE_{place}": value for place, (_, value) in settings.items()}
    return {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": str(len(settings)),
        **keys,
        **values,
    }


def with_chosen_programs(
    text: str, changes: Mapping[str, str | None]
) -> tuple[str, dict[str, str | None]]:
    """A text that sets the editors and pagers among the changes itself, and the other changes.

    They decide which code runs, so they belong where the text is judged, asked about and recorded.
    """
    chosen = {name: value for name, value in changes.items() if value and name in _CHOSEN}
    words = [f"{name}={shlex.quote(value)}" for name, value in chosen.items()]
    rest = {name: value for name, value in changes.items() if name not in chosen}
    return (f"export {' '.join(words)}; {text}" if words and text.strip() else text), rest


def join_paths(first: str, second: str) -> str:
    """Both lists of directories without repetition, the first one's before."""
    return ":".join(dict.fromkeys(part for part in f"{first}:{second}".split(":") if part))


def _matches(name: str, passed: Sequence[str]) -> bool:
    return any(
        name.startswith(word[:-1]) if word.endswith("*") else name == word for word in passed
    )


def changed(given: Mapping[str, str | None], base: Sifted) -> dict[str, str | None]:
    """Of the variables of a call those that are to be judged: the others are as they are anyway."""
    return {name: value for name, value in given.items() if not _changes_nothing(name, value, base)}


def _changes_nothing(name: str, value: str | None, base: Sifted) -> bool:
    """A caller that hands on its whole environment has our own values, and asks for nothing.

    Nor does one that wants no pager: there is none.
    """
    if value is None or not variable_kinds.is_hook_name(name) or _matches(name, base.passed):
        return False
    return base.kept.get(name) == value or (name.endswith("PAGER") and value in ("", "cat"))


def _refuse_hook(
    name: str, value: str | None, env: Mapping[str, str], passed: Sequence[str]
) -> None:
    harmless = env.get(name) == value or (value is None and name != "PATH")
    if variable_kinds.is_hook_name(name) and not harmless and not _matches(name, passed):
        raise InvalidParameters(
            f"env: {name} decides which code programs run, so a call may not set it: put it in the"
            f" text of the command, where it is judged ({name}=… command), or have the user add it"
            " to environment.pass"
        )


def _check(name: object, value: object) -> None:
    if not isinstance(name, str) or not name or "=" in name or "\0" in name:
        raise InvalidParameters(
            f"env: {name!r} cannot be the name of a variable; use letters, digits and '_'"
        )
    if value is not None and (not isinstance(value, str) or "\0" in value):
        raise InvalidParameters(f"env: {name} must be text without NUL bytes, or null to unset it")
