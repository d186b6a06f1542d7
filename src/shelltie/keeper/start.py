"""Starts a keeper process, with a socketpair to it and a pipe for its stderr."""

import os
import socket
import subprocess
from collections.abc import Sequence

from shelltie.keeper.hardening import bare_environment


def start_keeper(
    argv: Sequence[str], stderr: int | None, passed: tuple[int, ...]
) -> tuple[socket.socket, "subprocess.Popen[bytes]", int | None]:
    """The socket, the process, and where to read its complaints unless they go to `stderr`.

    Nobody need read them, and nobody waits when they are many: neither end blocks.
    Raises: OSError.
    """
    if stderr is not None:
        return *_start(argv, stderr, passed), None
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    try:
        return *_start(argv, writer, passed), reader
    except OSError:
        os.close(reader)
        raise
    finally:
        os.close(writer)


def complaint(stderr: int | None) -> str:
    """What a keeper said when it could not even begin; the pipe is closed."""
    if stderr is None:
        return ""
    with open(stderr, "rb", closefd=True) as file:  # noqa: PTH123  a pipe
        said = (file.read() or b"").decode("utf-8", "replace").strip()
    return f"the keeper cannot work: {said}" if said else ""


def _start(
    argv: Sequence[str], stderr: int, passed: tuple[int, ...]
) -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = subprocess.Popen(
                [*argv, str(theirs.fileno())],
                pass_fds=(theirs.fileno(), *passed),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=bare_environment(),
                start_new_session=True,  # ^C at our terminal is for us alone
            )
        except OSError:
            ours.close()
            raise
    return ours, process
