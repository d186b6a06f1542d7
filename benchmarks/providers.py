"""The first and the next command in each place, beside a bare spawn, bwrap and podman exec."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring import TRUE, bare_spawn, take_turns
from benchmarks.rows import Goal, Of, Row
from shelltie import Config, Terminal
from shelltie.frontends.api import Options
from tests.containers import IMAGE, TOOLS, OwnEngine, run_engine

_BWRAP = (
    *("bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev"),
    *("--proc", "/proc", "--tmpfs", "/tmp", "--cap-drop", "ALL", TRUE),
)


def measure() -> list[Row]:
    """Only what is there, bubblewrap or Podman, and the latter for root."""
    rows = asyncio.run(_sandbox()) if shutil.which("bwrap") else []
    if os.geteuid() != 0 or not all(map(shutil.which, TOOLS)):
        return rows
    with run_engine() as engine:
        return [*rows, *asyncio.run(_container(engine))]


async def _container(engine: OwnEngine) -> list[Row]:
    settings = {"container_image": IMAGE, "container_engine": str(engine.address)}
    with TemporaryDirectory() as workspace:
        where: Options = {"isolation": "container", "workspace": workspace, "cwd": workspace}
        async with _terminal(workspace, **settings) as terminal:

            async def contained() -> None:
                await terminal.run([TRUE], **where)

            async def local() -> None:
                await terminal.run([TRUE])

            async def first() -> None:
                async with _terminal(workspace, **settings) as fresh:
                    await fresh.run([TRUE], **where)

            await contained()
            (name,) = (str(one["Id"]) for one in engine.containers())
            inside, ours, executed = await take_turns(
                contained, local, lambda: bare_spawn(*engine.podman("exec", name, TRUE)),
                rounds=9, calls=3,
            )  # fmt: skip
        (opened,) = await take_turns(first, rounds=6, calls=1)
    return [
        Row(
            "next command in a container, against one here",
            "ms", inside.p50, ours.p50, inside.p95, ours.p95, Goal(Of.RATIO, 1.15),
        ),
        Row(
            "next command in a container, against podman exec",
            "ms", inside.p50, executed.p50, inside.p95, executed.p95,
        ),
        Row(
            "first command of a terminal, in a container, against podman exec",
            "ms", opened.p50, executed.p50, opened.p95, executed.p95,
        ),
    ]  # fmt: skip


async def _sandbox() -> list[Row]:
    with TemporaryDirectory() as workspace:
        async with _terminal(workspace) as terminal:

            async def local() -> None:
                await terminal.run([TRUE])

            async def sandboxed() -> None:
                await terminal.run([TRUE], isolation="sandbox", workspace=workspace, cwd=workspace)

            async def first() -> None:
                async with _terminal(workspace) as fresh:
                    await fresh.run([TRUE], isolation="sandbox", workspace=workspace, cwd=workspace)

            async def first_here() -> None:
                async with _terminal(workspace) as fresh:
                    await fresh.run([TRUE])

            bare, wrapped, ours, inside = await take_turns(
                lambda: bare_spawn(TRUE), lambda: bare_spawn(*_BWRAP), local, sandboxed,
                rounds=15, calls=10,
            )  # fmt: skip
            opened, opened_here = await take_turns(first, first_here, rounds=9, calls=2)
    return [
        Row("next command here", "ms", ours.p50, bare.p50, ours.p95, bare.p95),
        Row(
            "next command in a sandbox, against one here",
            "ms", inside.p50, ours.p50, inside.p95, ours.p95, Goal(Of.RATIO, 1.3),
        ),
        Row(
            "next command in a sandbox, against a bare bwrap",
            "ms", inside.p50, wrapped.p50, inside.p95, wrapped.p95,
        ),
        Row(
            "first command of a terminal, in a sandbox, against one here",
            "ms", opened.p50, opened_here.p50, opened.p95, opened_here.p95,
        ),
    ]  # fmt: skip


@asynccontextmanager
async def _terminal(workspace: str, **settings: str) -> AsyncIterator[Terminal]:
    config = Config.of(state_dir=str(Path(workspace).with_suffix(".state")), **settings)
    async with Terminal(config) as terminal:
        yield terminal
