"""Ends commands quickly, and finds what is left of one by a tag in its processes' command lines."""

import secrets
import signal
from collections.abc import Callable
from contextlib import suppress

import anyio
import psutil

from shelltie import EscalationStep
from tests import fork_server

# To the hard end soon; how long the dead then take to be gone says something about the machine.
QUICK = (EscalationStep(signal.SIGTERM, 0.3), EscalationStep(signal.SIGKILL, 30))


def new_tag() -> str:
    """Digits only, so that `sleep 300.<tag>` is a legal command."""
    return str(secrets.randbelow(9 * 10**11) + 10**11)


def tagged(tag: str, name: str | None = None) -> list[psutil.Process]:
    """Everybody alive with the tag in the command line, or only programs of that name; zombies are
    dead. A shell has the tag as soon as it begins, long before it has done what its text says.
    """
    found = []
    for process in psutil.process_iter(["cmdline", "name", "status"]):
        line, alive = process.info["cmdline"] or [], process.info["status"] != psutil.STATUS_ZOMBIE
        if alive and tag in " ".join(line) and name in (None, process.info["name"]):
            found.append(process)
    return found


async def until(condition: Callable[[], bool], limit: float = 50) -> None:
    """Wait for something that only polling can tell."""
    with anyio.fail_after(limit):
        while not condition():
            await anyio.sleep(0.01)


async def nobody_left(tag: str, limit: float = 50) -> None:
    """Wait until nobody with the tag lives."""
    await until(lambda: not tagged(tag), limit)


def own_children() -> list[psutil.Process]:
    """Whom this process has started, but for the fork server of the tests, and the parser that
    waits for the next text.
    """
    others = (one for one in psutil.Process().children() if one.pid not in fork_server.pids)
    return [one for one in others if one.name() != "shfmt"]


def zombies() -> list[int]:
    """Who is dead below us and was not waited for, as anybody is for a moment."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if process.status() == psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found
