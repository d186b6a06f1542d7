"""Client of the control socket: discovers every running server of this user, and asks one."""

import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.errors import NoServerAnswer
from shelltie.frontends.control import messages
from shelltie.frontends.control.socket_dirs import existing, sweep

_PATIENCE = 5.0


@frozen
class Server:
    """A running server."""

    path: Path
    pid: int
    client: str
    started: float


def servers(environ: Mapping[str, str]) -> list[Server]:
    """Everyone who answers, the oldest first."""
    found: list[Server] = []
    for place in existing(environ):
        sweep(place)
        for path in sorted(place.glob("*.sock")):
            with suppress(NoServerAnswer):
                match ask(path, "hello"):
                    case {"pid": int(pid), "client": str(name), "started": int() | float() as at}:
                        found.append(Server(path, pid, name, float(at)))
                    case _:
                        pass  # this is no server of ours
    return sorted(found, key=lambda server: server.started)


def ask(path: Path, do: str, **fields: object) -> dict[str, object]:
    """Ask a server for something.

    Raises: NoServerAnswer.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_PATIENCE)
            connection.connect(str(path))
            with suppress(BrokenPipeError):  # it did not want to listen, but may have said why
                connection.sendall(messages.request(do, fields))
            answer = messages.understood(_line(connection))
    except (OSError, messages.NotOurMessage) as error:
        raise NoServerAnswer(f"the server at {path} does not answer: {error}") from error
    if answer.get("ok") is not True:
        raise NoServerAnswer(str(answer.get("message")), str(answer.get("code")))
    return answer


def _line(connection: socket.socket) -> bytes:
    deadline = time.monotonic() + _PATIENCE
    line = bytearray()
    while not line.endswith(b"\n"):
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        chunk = connection.recv(256 * 1024)
        if not chunk or len(line) > messages.ANSWER_MAX:
            raise messages.NotOurMessage("its answer has no end")
        line += chunk
    return bytes(line)
