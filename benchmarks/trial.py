"""What enforcing costs: safe commands in a read-only view, beside the same ones without."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from tempfile import TemporaryDirectory

from benchmarks.measuring import take_turns
from benchmarks.rows import Goal, Of, Row
from shelltie import Config, Terminal

_SAFE = ("cat /etc/hostname", "ls -la /usr", "head -5 /etc/services | sort")


def measure() -> list[Row]:
    """Only where bubblewrap is."""
    return asyncio.run(_enforced()) if shutil.which("bwrap") else []


async def _enforced() -> list[Row]:
    async with AsyncExitStack() as stack:
        terminals = [
            await stack.enter_async_context(_terminal(stack, enforce))
            for enforce in ("auto", "off")
        ]
        enforced, plain = await take_turns(*map(_next, terminals), rounds=15, calls=6)
        first, first_plain = await take_turns(_first("auto"), _first("off"), rounds=9, calls=2)
    return [
        Row(
            "safe commands enforced, against plain",
            "ms", enforced.p50, plain.p50, enforced.p95, plain.p95, Goal(Of.RATIO, 1.15),
        ),
        Row("CPU in the server of one", "ms", enforced.cpu_each, plain.cpu_each),
        Row(
            "first safe command of a terminal, enforced, against plain",
            "ms", first.p50, first_plain.p50, first.p95, first_plain.p95,
        ),
    ]  # fmt: skip


def _terminal(stack: AsyncExitStack, enforce: str) -> Terminal:
    state = stack.enter_context(TemporaryDirectory())
    return Terminal(Config.of(state_dir=state, safety_enforce=enforce))


def _next(terminal: Terminal) -> Callable[[], Awaitable[None]]:
    turn = 0

    async def one() -> None:
        nonlocal turn
        turn += 1
        await terminal.run(_SAFE[turn % len(_SAFE)])

    return one


def _first(enforce: str) -> Callable[[], Awaitable[None]]:
    async def one() -> None:
        async with AsyncExitStack() as stack:
            terminal = await stack.enter_async_context(_terminal(stack, enforce))
            await terminal.run(_SAFE[0])

    return one
