"""Finds a run or session by id in all running servers; reads and writes it over the socket."""

import base64
import difflib
import re
from collections.abc import Sequence
from typing import Any, cast

from shelltie.basics import json_codec, visible_text
from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.environment.inherited import inherited
from shelltie.errors import (
    AmbiguousRun,
    InvalidParameters,
    NoLiveRun,
    NoServerAnswer,
    TerminalError,
    UnknownRun,
)
from shelltie.frontends.cli.console import print_error
from shelltie.frontends.cli.main import NOT_DONE, REFUSED, SHELLTIE_FAILED
from shelltie.frontends.control import client
from shelltie.frontends.control.client import Server
from shelltie.frontends.control.run_row import RunRow, exit_from_json
from shelltie.model import ExitStatus

_PREFIX_MIN, _PREFIX_SHOWN = 4, 12
_SINCE: dict[str, object] = {"stays": False}  # what servers of older versions do not say
_MANY = 6
_QUALIFIED = lazy(r"(?:(\d{1,10}):)?(?:term_)?(.+)", re.DOTALL)  # term_01… is ACP's id of 01…
_NOT_DONE = (InvalidParameters.code, UnknownRun.code, TerminalError.code)


@frozen
class FoundRun:
    """A run, and the server that has it."""

    server: Server
    listed: RunRow

    @property
    def id(self) -> str:
        """The id of its session, or its own."""
        return self.listed.id


@frozen
class OutputPiece:
    """Output from `start` on; `skipped` bytes before it are lost, and `total` were printed."""

    start: int
    data: bytes
    skipped: int
    total: int
    ended: bool
    exit: ExitStatus

    @property
    def end(self) -> int:
        """Where to read on."""
        return self.start + len(self.data)

    @property
    def last(self) -> bool:
        """There will be no more."""
        return self.ended and self.end >= self.total


def list_runs(*, look: bool = False) -> tuple[list[Server], list[FoundRun], list[str]]:
    """Every server, every run in them, and who does not answer."""
    servers = client.servers(inherited())
    found: list[FoundRun] = []
    told: list[str] = []
    for server, said in client.ask_all(servers, "ps", look=look):
        if isinstance(said, NoServerAnswer):
            told.append(visible_text.inline(str(said)))
            continue
        try:
            rows = cast(list[Any], said["runs"])
            found += [
                FoundRun(server, json_codec.from_json(RunRow, {**_SINCE, **row})) for row in rows
            ]
        except (KeyError, TypeError, ValueError):
            told.append(f"the server {server.pid} says what we do not understand")
    return servers, found, told


def find(name: str) -> FoundRun:
    """The one run or session that is meant.

    Raises: NoLiveRun.
    """
    return find_all([name])[0]


def find_all(names: Sequence[str]) -> list[FoundRun]:
    """Each of them, once.

    Raises: NoLiveRun.
    """
    servers, runs, problems = list_runs()
    for problem in problems:
        print_error(problem)
    meant = [_match(name, servers, runs) for name in names]
    return list({(run.server.path, run.listed.run_id): run for run in meant}.values())


def _match(name: str, servers: list[Server], found: list[FoundRun]) -> FoundRun:
    match = _QUALIFIED.fullmatch(name.strip())
    pid, wanted = match.groups() if match else (None, "")
    here = [run for run in found if pid in (None, str(run.server.pid))]
    matches = [run for run in here if run.listed.session_id == wanted.lower()]
    if not matches and len(wanted) >= _PREFIX_MIN:
        matches = [run for run in here if run.listed.run_id.startswith(wanted.upper())]
    if len(matches) == 1:
        return matches[0]
    if matches:
        ids = [f"{run.server.pid}:{run.listed.id}" for run in matches]
        more = f" and {len(ids) - _MANY} more" if len(ids) > _MANY else ""
        meant = f"{', '.join(ids[:_MANY])}{more}"
        raise AmbiguousRun(f"{visible_text.inline(name)} may be any of {meant}: say which")
    raise NoLiveRun(_unknown(name, servers, found))


def _unknown(name: str, servers: list[Server], found: list[FoundRun]) -> str:
    said = f"no run matches '{visible_text.brief(name, 60)}'"
    if not servers:
        return f"{said}: nothing runs here"
    short = 0 < len(name) < _PREFIX_MIN
    if short and any(one.listed.run_id.startswith(name.upper()) for one in found):
        return f"{said}: write at least {_PREFIX_MIN} characters of a run's id"
    close = difflib.get_close_matches(name, names(found), 1, cutoff=0.5)
    advice = f"did you mean {close[0]}? " if close else ""
    return f"{said}; {advice}`shelltie ps` lists what runs"


def names(found: list[FoundRun]) -> list[str]:
    """For each the shortest name that `find` takes now."""
    sessions = [one.listed.session_id for one in found]
    return [
        _prefix(one, found)
        if one.listed.session_id is None
        else one.listed.session_id
        if sessions.count(one.listed.session_id) == 1
        else f"{one.server.pid}:{one.listed.session_id}"
        for one in found
    ]


def _prefix(one: FoundRun, found: list[FoundRun]) -> str:
    others = [other.listed.run_id for other in found if other is not one]
    whole = one.listed.run_id
    for length in range(_PREFIX_SHOWN, len(whole)):
        if not any(other.startswith(whole[:length]) for other in others):
            return whole[:length]
    return whole


def as_json(found: FoundRun) -> dict[str, object]:
    """For programs."""
    about = {"server": found.server.pid, "client": found.server.client}
    return {"id": found.id, **json_codec.as_json(found.listed), **about}


def read(found: FoundRun, start: int, end: int | None = None, wait: float = 0) -> OutputPiece:
    """What it printed; without any yet, what it prints within `wait` seconds.

    Raises: NoServerAnswer.
    """
    fields: dict[str, object] = {"id": found.listed.run_id, "from": start, "to": end, "wait": wait}
    said: dict[str, Any] = client.ask(found.server.path, "logs", **fields)
    try:
        return OutputPiece(
            start=int(said["start"]),
            data=base64.b64decode(said["data"]),
            skipped=int(said["skipped"]),
            total=int(said["total"]),
            ended=bool(said["ended"]),
            exit=exit_from_json(said),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NoServerAnswer(
            f"the server {found.server.pid} says what we do not understand"
        ) from error


def write(found: FoundRun, data: bytes) -> None:
    """Type into it.

    Raises: NoServerAnswer.
    """
    encoded = base64.b64encode(data).decode("ascii")
    client.ask(found.server.path, "send", id=found.listed.run_id, data=encoded)


def describe_exit(exit_status: ExitStatus) -> str:
    """How it ended, in words."""
    if exit_status.signal is not None:
        return f"by {exit_status.signal_name}"
    return f"exit code {exit_status.number}"


def failed(found: FoundRun, error: NoServerAnswer) -> int:
    """Say why the server did not do it; the exit code."""
    if error.reply:
        print_error(f"{found.id}: {visible_text.inline(str(error))}")
    else:
        print_error(f"the server {found.server.pid} is gone, and what it ran has ended with it")
    if error.reply in _NOT_DONE:
        return NOT_DONE
    return REFUSED if error.reply == "REFUSED" else SHELLTIE_FAILED
