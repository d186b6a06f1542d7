"""Starts commands on leashes and collects what is said about them."""

import os
from collections.abc import Mapping
from typing import TypeVar

import anyio

from shelltie.keeper.link import Leash, Link
from shelltie.keeper.protocol import Gone, LeashWord, Lost
from shelltie.model import Resources

PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
UNLIMITED = Resources()
W = TypeVar("W", bound=LeashWord)


class Told:
    """A leash, and every word it said."""

    def __init__(self) -> None:
        self.words: list[LeashWord] = []
        self.leash: Leash
        self._more = anyio.Event()

    def hear(self, word: LeashWord) -> None:
        self.words.append(word)
        self._more.set()
        self._more = anyio.Event()

    async def word(self, kind: type[W], limit: float = 50) -> W:
        """The first word of a kind, once it has been said."""
        with anyio.fail_after(limit):
            while True:
                for word in self.words:
                    if isinstance(word, kind):
                        return word
                await self._more.wait()

    async def last(self) -> Gone | Lost:
        """The last word."""
        with anyio.fail_after(50):
            while not self.words or not isinstance(self.words[-1], Gone | Lost):
                await self._more.wait()
        word = self.words[-1]
        assert isinstance(word, Gone | Lost)
        return word


def start(
    link: Link,
    *argv: str,
    env: Mapping[str, str] = PATH,
    cwd: str = "/",
    stdio: tuple[int, int, int] | None = None,
    tty: bool = False,
    resources: Resources = UNLIMITED,
) -> Told:
    """Start a command; without `stdio` it reads and writes nothing."""
    told = Told()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        told.leash = link.spawn(
            argv,
            env,
            cwd,
            stdio or (null, null, null),
            tty=tty,
            resources=resources,
            listen=told.hear,
        )
    finally:
        os.close(null)
    return told


async def output_of(
    link: Link,
    *argv: str,
    env: Mapping[str, str] = PATH,
    cwd: str = "/",
    resources: Resources = UNLIMITED,
) -> bytes:
    """What a command prints, both streams together, until nobody holds them."""
    told, reader = start_printing(link, *argv, env=env, cwd=cwd, resources=resources)
    printed = chunk = await read(reader)
    while chunk:
        chunk = await read(reader)
        printed += chunk
    os.close(reader)
    await told.last()
    return printed


def start_printing(
    link: Link,
    *argv: str,
    env: Mapping[str, str] = PATH,
    cwd: str = "/",
    resources: Resources = UNLIMITED,
) -> tuple[Told, int]:
    """Start a command, and the end of a pipe that it writes to."""
    reader, writer = os.pipe()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        stdio = (null, writer, writer)
        told = start(link, *argv, env=env, cwd=cwd, resources=resources, stdio=stdio)
    finally:
        os.close(writer)
        os.close(null)
    return told, reader


async def read(reader: int, size: int = 65536) -> bytes:
    """What comes next from a pipe or terminal, nothing at its end."""
    with anyio.fail_after(50):
        await anyio.wait_readable(reader)
    return os.read(reader, size)


async def printed_ready(reader: int) -> None:
    """Wait until a program says so, and let it print to nobody from then on."""
    assert await read(reader, 6) == b"ready\n"
    os.close(reader)
