"""Kinds of commands that a person allowed for a workspace, in a file; revoked by deletion."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from shelltie.approval.question import Kind, ProvedKind
from shelltie.basics.times import iso_utc
from shelltie.errors import ConfigWrong
from shelltie.settings import toml_list
from shelltie.settings.files import WatchedFile

TABLE = "kind"
HEADING = """\
Kinds of commands that run without a question in one workspace, because you said so.
`shelltie approvals` lists them, `shelltie approvals revoke ID` ends one."""


class KindRules:
    """The file, read again whenever it has changed. A broken one allows nothing.

    As with single commands, what counts is what was in it at the start, and what is added here.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        self._file = WatchedFile(path)
        self._believed: frozenset[ProvedKind] | None = None
        self._rules: frozenset[ProvedKind] = frozenset()
        self._load()
        self._believed = self._rules

    def holds(self, kind: ProvedKind) -> bool:
        """Whether a person allowed this kind, in this workspace, with this detail."""
        if self._file.changed():
            self._load()
        return kind in self._rules

    def add(self, kind: ProvedKind) -> None:
        """Allow it from now on.

        Raises: ConfigWrong if the file is broken; OSError.
        """

        def edit(known: list[dict[str, object]]) -> Iterator[toml_list.TomlTable]:
            yield from (one for one in known if _understood(one, self.path) != kind)
            yield entry(kind)

        toml_list.change(self.path, TABLE, edit, HEADING)
        self._believed = (self._believed or frozenset()) | {kind}

    def _load(self) -> None:
        self.problem, self._rules = "", frozenset()
        try:
            ours, others = toml_list.split(self.path, TABLE)
            written = frozenset(_understood(one, self.path) for one in ours)
        except ConfigWrong as error:
            self.problem = f"{error}; no kind is allowed by it"
            return
        self._rules = written if self._believed is None else written & self._believed
        if others:
            self.problem = (
                f"{self.path} was changed, and not by shelltie: {len(others)} of its entries do"
                " not count"
            )


def entry(kind: ProvedKind) -> dict[str, object]:
    """What is written when a person allows a kind."""
    detail = {"detail": kind.detail} if kind.detail else {}
    since = iso_utc(time.time(), "seconds")
    return {"kind": str(kind.kind), "workspace": kind.workspace, **detail, "since": since}


def shown_kind(kind: ProvedKind) -> str:
    """The same as it will stand in the file.

    Raises: ConfigWrong.
    """
    return toml_list.as_toml(TABLE, entry(kind))


def _understood(given: Mapping[str, object], path: Path) -> ProvedKind:
    match given:
        case {"kind": str(kind), "workspace": str(workspace), **rest} if kind in {*Kind}:
            return ProvedKind(Kind(kind), workspace, str(rest.get("detail", "")))
        case _:
            raise ConfigWrong(f"{path}: each [[{TABLE}]] needs a known kind and a workspace")
