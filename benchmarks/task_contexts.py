"""The life of a task's session: created, one command, closed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measuring import TRUE, Samples, bare_spawn, fresh_terminal, take_turns
from benchmarks.rows import Goal, Of, Row
from shelltie.contexts.allowlist import AllowlistFile
from shelltie.contexts.context import Executed
from shelltie.contexts.program_access import Access
from shelltie.contexts.registry import Contexts


def measure() -> list[Row]:
    """Each step at its 95th percentile; what a command costs is beyond a bare spawn of it."""
    bare, create, execute, close = asyncio.run(_measure())
    return [
        Row("task session: create, p95", "ms", create.p95, goal=Goal(Of.OURS, 100)),
        Row(f"{TRUE} in it, p95", "ms", execute.p95, bare.p95, goal=Goal(Of.MORE, 500)),
        Row("close it, p95", "ms", close.p95, goal=Goal(Of.OURS, 50)),
    ]


async def _measure() -> list[Samples]:
    async with _contexts() as contexts:
        session = contexts.create("BENCH-1", "benchmark")

        async def create() -> None:
            contexts.create("BENCH-2", "benchmark")

        async def execute() -> None:
            done = await contexts.execute(session.id, "true")
            assert isinstance(done, Executed)
            assert done.outcome.ok

        async def close() -> None:
            newest = contexts.all()[-1]
            await contexts.close(newest.id)

        return await take_turns(
            lambda: bare_spawn(TRUE), create, execute, close, rounds=30, calls=20
        )


@asynccontextmanager
async def _contexts() -> AsyncIterator[Contexts]:
    with TemporaryDirectory() as name:
        file = Path(name) / "allow.json"
        file.write_text(json.dumps(["true"]), encoding="utf-8")
        access = Access(AllowlistFile(file, file.name), str(Path(TRUE).parent))
        async with (
            fresh_terminal() as terminal,
            Contexts(terminal.supervisor, access, Path(name)) as contexts,
        ):
            yield contexts
