"""Client of the control socket: discovers every running server of this user, and asks one."""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.errors import NoServerAnswer
from shelltie.frontends.control import messages
from shelltie.frontends.control.socket_dirs import existing

_PATIENCE = 5.0
_STARTING = 60.0  # seconds after which a socket without a listener is nobody's


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
                found.append(_introduced(path, ask(path, "hello")))
    return sorted(found, key=lambda server: server.started)


def _introduced(path: Path, said: Mapping[str, object]) -> Server:
    match said:
        case {"pid": int(pid), "client": str(client), "started": int() | float() as started}:
            return Server(path, pid, client, float(started))
        case _:
            raise NoServerAnswer(f"{path}: this is no server of ours")


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
            said = messages.understood(_line(connection))
    except (OSError, messages.NotOurMessage) as error:
        raise NoServerAnswer(f"the server at {path} does not answer: {error}") from error
    if said.get("ok") is not True:
        raise NoServerAnswer(str(said.get("message")), str(said.get("code")))
    return said


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


def sweep(place: Path) -> None:
    """Remove the sockets of servers that are dead."""
    for path in place.glob("*.sock"):
        with suppress(OSError):
            if _refused(path) and (not _alive(path) or _old(path)):
                path.unlink()


def _refused(path: Path) -> bool:
    """Nobody listens. A server that is just being started does not do so yet."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _alive(path: Path) -> bool:
    pid = path.name.partition("-")[0]
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return True


def _old(path: Path) -> bool:
    return time.time() - path.lstat().st_mtime > _STARTING
