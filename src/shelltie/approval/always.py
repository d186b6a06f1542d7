"""Allowlist of commands that a person approved for good, each exactly as it was asked about."""

import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from shelltie.approval.question import Question, Scope, fingerprint
from shelltie.basics.times import iso_utc
from shelltie.errors import ConfigWrong
from shelltie.model import Command, TerminalSize
from shelltie.settings import toml_list
from shelltie.settings.files import WatchedFile

TABLE = "approved"
HEADING = """\
Commands that run without a question, because you said `shelltie approve ID --always`.
Each is allowed exactly as it stands here, in this directory and place, and in no other form.
`shelltie approvals` lists them, `shelltie approvals revoke ID` ends one."""
_KEYS = {"text", "argv", "cwd", "provider", "pty", "since"}


class Approved:
    """The file, read again whenever it has changed. A broken one approves nothing.

    What counts is what was in it at the start, and what is added here: whatever else comes to it
    meanwhile may be the work of a command.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        self._file = WatchedFile(path)
        self._believed: frozenset[str] | None = None
        self._digests: frozenset[str] = frozenset()
        self._foreign: frozenset[str] = frozenset()
        self._load()
        self._believed = self._digests

    def holds(self, question: Question) -> bool:
        """Whether a question has been answered for good; its directory is then one by its name."""
        if self._file.changed():
            self._load()
        return fingerprint(question.command, question.provider) in self._digests

    def disowns(self, question: Question) -> bool:
        """Whether there is an entry for it that we did not write; it counts for nothing."""
        return fingerprint(question.command, question.provider) in self._foreign

    def add(self, question: Question) -> None:
        """Approve this for good.

        Raises: ConfigWrong if the file is broken or the command is none that can be kept; OSError.
        """
        made = entry(question)
        self._digests_of([made])  # what could not be read back would break the file

        def edit(known: list[dict[str, object]]) -> Iterator[toml_list.TomlTable]:
            self._digests_of(known)
            yield from known
            yield made

        toml_list.change(self.path, TABLE, edit, HEADING)
        self._believed = (self._believed or frozenset()) | self._digests_of([made])

    def _load(self) -> None:
        self.problem, self._digests, self._foreign = "", frozenset(), frozenset()
        try:
            ours, others = toml_list.split(self.path, TABLE)
            written, self._foreign = self._digests_of(ours), self._digests_of(others)
        except ConfigWrong as error:
            self.problem = f"{error}; nothing is approved by it"
            return
        self._digests = written if self._believed is None else written & self._believed
        if self._foreign:
            self.problem = (
                f"{self.path} was changed, and not by shelltie: {len(others)} of its entries do"
                " not count. Approve these commands again with --always, or delete them there"
            )
        elif written - self._digests:
            self.problem = f"what was added to {self.path} since this server began is not used here"

    def _digests_of(self, entries: list[dict[str, object]]) -> frozenset[str]:
        return frozenset(
            _digest(one, f"{self.path}: entry {n}") for n, one in enumerate(entries, 1)
        )


def entry(question: Question) -> dict[str, object]:
    """What is written when somebody says "always".

    Raises: ConfigWrong.
    """
    command = question.command
    if command.env or command.stdin is not None or question.input is not None:
        raise ConfigWrong(
            "a command with variables or input of its own cannot be approved for good,"
            " because these may be secrets that belong in no file; approve it for the session"
        )
    words = {"text": command.text} if command.argv is None else {"argv": list(command.argv)}
    pty = {} if command.pty is None else {"pty": True}
    since = iso_utc(time.time(), "seconds")
    return {**words, "cwd": command.cwd, "provider": question.provider, **pty, "since": since}


def offered_scopes(question: Question) -> tuple[Scope, ...]:
    """How far a yes to this may go: what cannot be kept in a file is not offered for good, and
    changes are applied once.
    """
    if question.is_apply:
        return (Scope.ONCE,)
    kind = () if question.kind is None else (Scope.KIND,)
    try:
        entry(question)
    except ConfigWrong:
        return Scope.ONCE, Scope.SESSION, *kind
    return Scope.ONCE, Scope.SESSION, Scope.ALWAYS, *kind


KEYS = {"y": Scope.ONCE, "s": Scope.SESSION, "a": Scope.ALWAYS, "k": Scope.KIND}
_KEY_NAMES = {"y": "once", "s": "session", "a": "always", "k": "kind"}


def keys_line(scopes: Collection[Scope]) -> str:
    """`[y] once  [s] session  [a] always  [N] no`: the keys that answer a question."""
    told = (f"[{key}] {_KEY_NAMES[key]}" for key, scope in KEYS.items() if scope in scopes)
    return "  ".join((*told, "[N] no"))


def shown_rule(question: Question) -> str:
    """The same as it will stand in the file.

    Raises: ConfigWrong.
    """
    return toml_list.as_toml(TABLE, entry(question))


def _digest(given: Mapping[str, object], where: str) -> str:
    unknown = sorted(set(given) - _KEYS)
    if unknown:
        raise ConfigWrong(f"{where}: unknown key {unknown[0]}; known: {', '.join(sorted(_KEYS))}")
    cwd, provider, pty = given.get("cwd"), given.get("provider"), given.get("pty", False)
    if not isinstance(cwd, str) or not cwd.startswith("/") or not isinstance(provider, str):
        raise ConfigWrong(f"{where}: needs an absolute cwd and a provider")
    if not isinstance(pty, bool):
        raise ConfigWrong(f"{where}: pty must be true or false")
    text, argv = _words(given, where)
    command = Command(text, argv, cwd, pty=TerminalSize() if pty else None)
    return fingerprint(command, provider)


def _words(given: Mapping[str, object], where: str) -> tuple[str, tuple[str, ...] | None]:
    match given.get("text"), given.get("argv"):
        case str(text), None:
            return text, None
        case None, [_, *_] as words if all(isinstance(word, str) for word in words):
            return "", tuple(map(str, words))
        case _:
            raise ConfigWrong(f"{where}: needs either text, or argv as a list of texts")
