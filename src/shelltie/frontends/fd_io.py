"""Reads and writes non-blocking file descriptors in the event loop."""

import os

import anyio
import anyio.lowlevel

from shelltie.frontends.jsonl import READ_SIZE


async def read(source: int) -> bytes:
    """The next bytes; none at the end. Files never block, and so need no polling they cannot do."""
    await anyio.lowlevel.checkpoint()
    while True:
        try:
            return os.read(source, READ_SIZE)
        except BlockingIOError:
            await anyio.wait_readable(source)
        except OSError:  # a terminal or a socket that hung up
            return b""


async def write(sink: int, line: bytes) -> None:
    """Write all of it, however long that takes.

    Raises: OSError when nobody reads.
    """
    rest = memoryview(line)
    while rest:
        try:
            rest = rest[os.write(sink, rest) :]
        except BlockingIOError:
            await anyio.wait_writable(sink)
