"""`shelltie approvals`: lists what is allowed for good, and revokes it."""

import hashlib
import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path

from shelltie.approval import always, kind_rules
from shelltie.approval.question import Kind, ProvedKind
from shelltie.basics import visible_text
from shelltie.basics.frozen import frozen
from shelltie.errors import InvalidParameters
from shelltie.frontends.cli.console import print_error, print_json, table, width
from shelltie.frontends.cli.find_question import NOT_DONE
from shelltie.settings import paths, toml_list

_HEAD = ("ID", "SINCE", "IN", "ALLOWED")
_ID_LENGTH = 6


@frozen
class Approval:
    """One entry of a file; an entry that shelltie did not write does not count."""

    path: Path
    table: str
    entry: Mapping[str, object]
    ours: bool

    @property
    def id(self) -> str:
        """Short, and the same as long as the entry is."""
        text = json.dumps([self.table, self.entry], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH].upper()

    @property
    def told(self) -> str:
        """What is allowed, in words."""
        match self.entry:
            case {"kind": str(kind), "workspace": str(place), **rest} if kind in {*Kind}:
                return ProvedKind(Kind(kind), place, str(rest.get("detail", ""))).told
            case {"text": str(text)}:
                return text
            case {"argv": list(words)}:
                return " ".join(map(str, words))
            case _:
                return "?"


def main(args: Namespace) -> int:
    """List them, or end one."""
    if args.action == "revoke":
        if args.id is None:
            raise InvalidParameters("revoke what? shelltie approvals revoke ID")
        return _revoke(args.id)
    found = list(_all())
    if args.json:
        print_json([{"id": one.id, "counts": one.ours, **one.entry} for one in found])
    elif found:
        table([_HEAD, *map(_row, found)])
    else:
        print("Nothing is allowed for good.")
    return 0


def _all() -> Iterator[Approval]:
    """Raises: ConfigWrong."""
    files = (
        (paths.approved_file(), always.TABLE),
        (paths.approved_kinds_file(), kind_rules.TABLE),
    )
    for path, name in files:
        ours, others = toml_list.split(path, name)
        yield from (Approval(path, name, one, ours=True) for one in ours)
        yield from (Approval(path, name, one, ours=False) for one in others)


def _row(one: Approval) -> tuple[str, ...]:
    place = str(one.entry.get("cwd") or one.entry.get("workspace") or "?")
    note = "" if one.ours else "(not written by shelltie: does not count) "
    day = str(one.entry.get("since", "?"))[:10]
    room = max(width() // 3, 12)
    return one.id, day, visible_text.brief(place, room), visible_text.inline(note + one.told)


def _revoke(name: str) -> int:
    chosen = [one for one in _all() if one.id == name.upper()]
    if not chosen:
        print_error(f"nothing is allowed with ID {name}: see shelltie approvals")
        return NOT_DONE
    one = chosen[0]

    def edit(known: list[dict[str, object]]) -> Iterator[toml_list.TomlTable]:
        yield from (entry for entry in known if entry != one.entry)

    heading = always.HEADING if one.table == always.TABLE else kind_rules.HEADING
    toml_list.change(one.path, one.table, edit, heading)
    print(f"{one.id} revoked: {visible_text.brief(one.told, width() - 20)}")
    return 0
