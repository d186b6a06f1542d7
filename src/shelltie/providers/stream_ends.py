"""Local ends of a command's streams (pipes, socket pair) whose other ends a stream link carries.

The command is on a keeper that stays, here or on another machine.
"""

import asyncio
import os
import socket
from contextlib import suppress

from shelltie.basics.frozen import mutable
from shelltie.keeper.link import checked_run_frame
from shelltie.keeper.protocol import HEADER
from shelltie.model import TerminalSize
from shelltie.providers.provider import Prepared


@mutable
class LocalEnds:
    """Both ends of a command's streams: those that a reader here has, and the keeper's side."""

    stdout: int = -1
    stderr: int | None = None
    stdin: int | None = None
    outputs: dict[int, int] | None = None
    typed: int | None = None


def run_fields(prepared: Prepared) -> bytes:
    """What a RUN frame has after its id. Raises: CannotStart."""
    frame = checked_run_frame(
        0,
        prepared.argv,
        prepared.env,
        prepared.cwd,
        tty=is_terminal(prepared),
        resources=prepared.resources,
        directory=prepared.directory,
    )
    return frame[HEADER.size :].partition(b"\0")[2]


def is_terminal(prepared: Prepared) -> bool:
    """Input and output are one terminal."""
    return prepared.pty is not None and not prepared.one_output


def takes_input(prepared: Prepared) -> bool:
    if is_terminal(prepared):
        return False
    return prepared.stays_open or prepared.stdin is not None


def open_ends(prepared: Prepared) -> LocalEnds:
    ends = LocalEnds(outputs={})
    assert ends.outputs is not None
    if is_terminal(prepared):
        ours, theirs = socket.socketpair()
        ends.stdout, inner = ours.detach(), theirs.detach()
        ends.outputs[1], ends.typed = inner, os.dup(inner)
        return ends
    ends.stdout, ends.outputs[1] = os.pipe()
    if not prepared.one_output:
        ends.stderr, ends.outputs[2] = os.pipe()
    if takes_input(prepared):
        ends.typed, ends.stdin = os.pipe()
    return ends


def start_fields(prepared: Prepared, bound: int) -> tuple[str | int, ...]:
    """What a START frame has between its run and that: no limit yet, `bound` bytes of a stream."""
    streams = ("p" if prepared.pty else "") + ("o" if prepared.one_output else "")
    streams += "i" if takes_input(prepared) else ""
    size = prepared.pty or TerminalSize(24, 80)
    return 0, 0, bound, streams, size.rows, size.columns


def feed(ends: LocalEnds, prepared: Prepared) -> None:
    """Input that ends: the keeper is given it as fast as the command reads."""
    if prepared.stdin is None or prepared.stays_open or is_terminal(prepared):
        return
    assert ends.stdin is not None
    fd, ends.stdin = ends.stdin, None
    os.set_blocking(fd, False)
    rest = memoryview(prepared.stdin)
    loop = asyncio.get_running_loop()

    def write() -> None:
        nonlocal rest
        with suppress(BlockingIOError):
            try:
                while rest:
                    rest = rest[os.write(fd, rest) :]
            except BrokenPipeError:
                rest = rest[:0]
            loop.remove_writer(fd)
            os.close(fd)
            return
        loop.add_writer(fd, write)

    write()
