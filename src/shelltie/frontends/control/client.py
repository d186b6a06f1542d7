"""Client of the control socket: finds every process of this user that runs commands, and asks it.

All are asked at once: each may have to load the code that answers first.
"""

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent import futures
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from shelltie.basics.frozen import frozen
from shelltie.errors import NoServerAnswer
from shelltie.frontends.control import line_format
from shelltie.frontends.control.socket_dirs import SOCKET, existing, sweep

_ANSWER_TIMEOUT = 5.0
_AT_ONCE = 16
A = TypeVar("A")
B = TypeVar("B")


@frozen
class Server:
    """A running server."""

    path: Path
    pid: int
    client: str
    started: float


def servers(environ: Mapping[str, str]) -> list[Server]:
    """Everyone who answers, the oldest first."""
    places = list(existing(environ))
    for place in places:
        sweep(place)
    paths = [path for place in places for path in sorted(place.glob(f"*{SOCKET}"))]
    found = [server for server in _at_once(_introduced, paths) if server is not None]
    return sorted(found, key=lambda server: server.started)


def _introduced(path: Path) -> Server | None:
    with suppress(NoServerAnswer):
        match ask(path, "hello"):
            case {"pid": int(pid), "client": str(name), "started": int() | float() as at}:
                return Server(path, pid, name, float(at))
            case _:
                pass  # this is no server of ours
    return None


def ask_all(
    asked: Iterable[Server], do: str, **fields: object
) -> list[tuple[Server, dict[str, object] | NoServerAnswer]]:
    """What each says, or why it says nothing; of those that have left meanwhile, nothing."""

    def answer(server: Server) -> tuple[Server, dict[str, object] | NoServerAnswer] | None:
        try:
            return server, ask(server.path, do, **fields)
        except NoServerAnswer as error:
            return (server, error) if error.reply or server.path.exists() else None

    return [said for said in _at_once(answer, list(asked)) if said is not None]


def _at_once(do: Callable[[A], B], items: list[A]) -> list[B]:
    if len(items) <= 1:
        return [do(item) for item in items]
    with futures.ThreadPoolExecutor(_AT_ONCE) as threads:
        return list(threads.map(do, items))


def ask(path: Path, do: str, **fields: object) -> dict[str, object]:
    """Ask a server for something.

    Raises: NoServerAnswer.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_TIMEOUT)
            connection.connect(str(path))
            with suppress(BrokenPipeError):  # it did not want to listen, but may have said why
                connection.sendall(line_format.request(do, fields))
            answer = line_format.understood(_line(connection))
    except (OSError, line_format.NotOurMessage) as error:
        raise NoServerAnswer(f"the server at {path} does not answer: {error}") from error
    if answer.get("ok") is not True:
        raise NoServerAnswer(str(answer.get("message")), str(answer.get("code")))
    return answer


def _line(connection: socket.socket) -> bytes:
    deadline = time.monotonic() + _ANSWER_TIMEOUT
    line = bytearray()
    while not line.endswith(b"\n"):
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        chunk = connection.recv(256 * 1024)
        if not chunk or len(line) > line_format.ANSWER_MAX:
            raise line_format.NotOurMessage("its answer has no end")
        line += chunk
    return bytes(line)
