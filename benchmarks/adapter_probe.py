"""One probe of an agent framework's executor, theirs or ours, where the framework is installed.

`python -m benchmarks.adapter_probe EXTRA SIDE PROBE TAG` prints a JSON object. It is started by
`benchmarks.adapters`, which ends it when it blocks.
"""

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measuring import memory, take_turns

LIMIT = 3.0  # seconds, for every probe but the flood
_FLOOD_LIMIT = 120.0
_CANCEL_AFTER = 1.0
_SETTLES = 2.0  # seconds after which whoever is still there was left
_LATE = re.compile("timed out|timed_out=True")
_TRUE = "/bin/true"
_MANY = 50


@dataclass(frozen=True, slots=True)
class Executor:
    """How one side runs a text; `is_async` says whether it can be cancelled."""

    call: Callable[[str, float], Any]
    is_async: bool

    async def run(self, text: str, limit: float) -> object:
        """What it answers, be that an exception."""
        try:
            answer = self.call(text, limit)
            return await answer if self.is_async else answer
        except Exception as error:  # noqa: BLE001  whatever its exceptions are
            return error


def mini_swe_agent(side: str) -> Executor:
    """Synchronous."""
    os.environ |= {"MSWEA_SILENT_STARTUP": "1"}
    from minisweagent.environments.local import LocalEnvironment

    from shelltie.adapters.mini_swe_agent import ShelltieEnvironment

    environment = ShelltieEnvironment() if side == "ours" else LocalEnvironment()
    return Executor(
        lambda text, limit: environment.execute({"command": text}, timeout=limit), is_async=False
    )


def pydantic_ai(side: str) -> Executor:
    """The backend of a workspace."""
    from pydantic_ai.workspaces import LocalWorkspaceBackend

    from shelltie.adapters.pydantic_ai import WorkspaceBackend

    backend = WorkspaceBackend(".") if side == "ours" else LocalWorkspaceBackend(".")
    return Executor(lambda text, limit: backend.run(text, shell=True, timeout=limit), is_async=True)


def langchain(side: str) -> Executor:
    """The one shell of its middleware against our tool."""
    if side == "ours":
        from shelltie.adapters.langchain import shell_tool

        tool = shell_tool()
        return Executor(
            lambda text, limit: tool.ainvoke({"command": text, "timeout": limit}), is_async=True
        )
    from langchain.agents.middleware import HostExecutionPolicy
    from langchain.agents.middleware.shell_tool import ShellSession

    shell = ShellSession(Path.cwd(), HostExecutionPolicy(), ("/bin/bash",), {})
    shell.start()
    return Executor(lambda text, limit: shell.execute(text, timeout=limit), is_async=False)


def google_adk(side: str) -> Executor:
    """An environment."""
    from google.adk.environment import LocalEnvironment

    from shelltie.adapters.adk import AdkEnvironment

    kind = AdkEnvironment if side == "ours" else LocalEnvironment
    environment = kind(working_dir=Path.cwd())
    return Executor(lambda text, limit: environment.execute(text, timeout=limit), is_async=True)


def swe_rex(side: str) -> Executor:
    """Commands apart from sessions."""
    from swerex.runtime.abstract import Command
    from swerex.runtime.local import LocalRuntime

    from shelltie.adapters.swe_rex import ShelltieRuntime

    runtime = ShelltieRuntime() if side == "ours" else LocalRuntime()
    return Executor(
        lambda text, limit: runtime.execute(Command(command=text, shell=True, timeout=limit)),
        is_async=True,
    )


def inspect_ai(side: str) -> Executor:
    """The sandbox of a sample, without isolation on both sides."""
    from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

    from shelltie.adapters.inspect_ai import SampleConfig, ShelltieSandbox

    ours = side == "ours"
    sandbox = (
        ShelltieSandbox(SampleConfig(isolation="none"), "") if ours else LocalSandboxEnvironment()
    )
    return Executor(
        lambda text, limit: sandbox.exec(["bash", "-c", text], timeout=int(limit)), is_async=True
    )


def openai_agents(side: str) -> Executor:
    """A sandbox session of this directory, without isolation on both sides."""
    from agents.sandbox import Manifest
    from agents.sandbox.sandboxes.unix_local import UnixLocalSandboxClient

    from shelltie.adapters.openai_agents import ShelltieSandboxClient

    ours = side == "ours"
    client = ShelltieSandboxClient(isolation="none") if ours else UnixLocalSandboxClient()
    sessions: list[Any] = []

    async def call(text: str, limit: float) -> object:
        if not sessions:
            sessions.append(await client.create(manifest=Manifest(root=str(Path.cwd()))))
            await sessions[0].start()
        return await sessions[0].exec(text, timeout=limit)

    return Executor(call, is_async=True)


EXECUTORS = {
    "inspect-ai": inspect_ai,
    "mini-swe-agent": mini_swe_agent,
    "pydantic-ai": pydantic_ai,
    "langchain": langchain,
    "google-adk": google_adk,
    "swe-rex": swe_rex,
    "openai-agents": openai_agents,
}


async def command(extra: str, _: str, __: str) -> dict[str, object]:
    """The usual time of a command, both sides in turns."""
    sides = [EXECUTORS[extra](side) for side in ("theirs", "ours")]

    def subject(executor: Executor) -> Callable[[], Awaitable[object]]:
        return lambda: executor.run(_TRUE, 60.0)

    theirs, ours = await take_turns(*map(subject, sides), rounds=9, calls=10)
    return {"theirs": theirs.p50, "ours": ours.p50}


async def held(extra: str, side: str, tag: str) -> dict[str, object]:
    """A shell that ends at once, and a child that keeps its output open."""
    executor = EXECUTORS[extra](side)
    await executor.run(_TRUE, 60.0)
    begun = time.perf_counter()
    answer = await executor.run(f"sleep 15.{tag} & echo started", LIMIT)
    took = time.perf_counter() - begun
    well = not isinstance(answer, Exception) and not _LATE.search(str(answer))
    return {"seconds": took, "well": well, "answer": _brief(answer)}


async def tree(extra: str, side: str, tag: str) -> dict[str, object]:
    """A time limit, a child of the shell, and one with a session of its own."""
    executor = EXECUTORS[extra](side)
    await executor.run(_TRUE, 60.0)
    begun = time.perf_counter()
    answer = await executor.run(f"setsid sleep 61.{tag} & sleep 60.{tag}; true", LIMIT)
    took = time.perf_counter() - begun
    await asyncio.sleep(_SETTLES)
    return {"seconds": took, "left": alive(tag), "answer": _brief(answer)}


async def flood(extra: str, side: str, _: str) -> dict[str, object]:
    """How much memory 200 MB of output take, with that of our keeper."""
    executor = EXECUTORS[extra](side)
    await executor.run(_TRUE, 60.0)
    before = _peak()
    begun = time.perf_counter()
    answer = await executor.run("head -c 200000000 /dev/zero | tr '\\0' x", _FLOOD_LIMIT)
    took = time.perf_counter() - begun
    return {"seconds": took, "grown": _peak() - before, "answer": _brief(answer)}


async def cancel(extra: str, side: str, tag: str) -> dict[str, object]:
    """A task that is cancelled while its command runs."""
    executor = EXECUTORS[extra](side)
    if not executor.is_async:
        return {"left": None}
    await executor.run(_TRUE, 60.0)
    task = asyncio.ensure_future(executor.run(f"sleep 61.{tag} & sleep 60.{tag}; true", 20.0))
    await asyncio.sleep(_CANCEL_AFTER)
    begun = time.perf_counter()
    task.cancel()
    await asyncio.wait({task}, timeout=10)
    took = time.perf_counter() - begun
    await asyncio.sleep(_SETTLES)
    return {"seconds": took, "left": alive(tag)}


async def many(extra: str, side: str, _: str) -> dict[str, object]:
    """As many at once as an evaluation has samples."""
    executor = EXECUTORS[extra](side)
    await executor.run(_TRUE, 60.0)
    begun = time.perf_counter()
    if executor.is_async:
        await asyncio.gather(*(executor.run(_TRUE, 60.0) for _ in range(_MANY)))
    else:
        with ThreadPoolExecutor(_MANY) as pool:
            list(pool.map(lambda _: executor.call(_TRUE, 60.0), range(_MANY)))
    return {"seconds": time.perf_counter() - begun}


PROBES = {one.__name__: one for one in (command, held, tree, flood, cancel, many)}


def alive(tag: str) -> int:
    """How many processes of a probe there are, by the tag in their words; zombies are dead."""
    found = 0
    for process in psutil.process_iter(["cmdline", "name", "status"]):
        words = process.info["cmdline"] or []
        sleeps = process.info["name"] == "sleep" and any(tag in word for word in words)
        found += sleeps and process.info["status"] != psutil.STATUS_ZOMBIE
    return found


def _peak() -> int:
    """Bytes: the most that this process and its keeper have had."""
    keepers = [
        process.pid
        for process in psutil.Process().children(recursive=True)
        if "keeper" in process.name()
    ]
    return sum(memory(pid, "VmHWM") for pid in (os.getpid(), *keepers))


def _brief(answer: object) -> str:
    return f"{type(answer).__name__}: {str(answer)[:200]}"


if __name__ == "__main__":
    _, _extra, _side, _probe, _tag = sys.argv
    print(json.dumps(asyncio.run(PROBES[_probe](_extra, _side, _tag))), flush=True)
    os._exit(0)  # threads of an executor that blocks would not let us go
