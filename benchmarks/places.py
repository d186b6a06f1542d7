"""Commands at places against bare ssh and bare Ray calls: first, next, echo, 100 MB, many at once.

Runs what is there: ssh where there is an sshd and asyncssh, Ray where RAY_PYTHON names a Python
that has it. Both are this machine, over loopback: what a network adds is not in these figures.
`PLACE_SESSIONS` says how many are opened at once (ssh 100, Ray 30).
"""

import asyncio
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import psutil

from benchmarks.measuring import TRUE, bare_spawn, memory, percentile, rounds_of
from benchmarks.rows import Row
from shelltie import Config, Terminal
from shelltie.model import Command, Limits, Resources, TerminalSize
from shelltie.providers.places.engine import PlaceEngine
from shelltie.providers.places.provider import PlaceProvider
from shelltie.providers.places.ray.engine import RayEngine
from shelltie.providers.provider import Prepared
from shelltie.running.options import RunOptions
from shelltie.running.run import Run
from shelltie.settings.places import Place, RayPlace
from tests.places.ray_cluster import ray_cluster, ray_python
from tests.ssh_server import SshServer, ssh_server

_SIZE = 100_000_000
_FLOOD = ("head", "-c", str(_SIZE), "/dev/zero")
_CALLS = 30
_POOLED, _FILLS = 9, 5.0  # commands from a pool, and seconds in which it is filled again
_WATCHED = 20.0  # seconds, what waits or prints
_CHATTY = "while :; do echo 0123456789012345678901234567890123456789012345678; sleep 0.1; done"


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one way: milliseconds, but seconds of what is long."""

    first: list[float]
    next: list[float]
    echo: list[float]
    flood: list[float]
    many: list[float]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a session costs, on both sides: KiB, and percent of a CPU."""

    here: float
    there: float
    idle: float
    chatty: float


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of place that can be measured here."""

    name: str
    many: int
    place: Place
    make: Callable[[Any], PlaceEngine]
    bare: Callable[[], Awaitable[Figures]]
    program: str  # what stands for bare
    folder: Path  # below which its keepers lie


def measure() -> list[Row]:
    """Of each kind that is there."""
    rows: list[Row] = []
    for kind in (_ssh, _ray):
        with kind() as found:
            if found is not None:
                rows += asyncio.run(_measure(found))
    return rows


@contextmanager
def _ssh() -> Iterator[Kind | None]:
    if shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        yield None
        return
    if find_spec("asyncssh") is None:
        yield None
        return
    from shelltie.providers.places.ssh import SshEngine

    with ssh_server() as server:
        server.configure("MaxSessions 100\n")
        place = server.place(commands=1000)
        many = int(os.environ.get("PLACE_SESSIONS", "100"))
        yield Kind(
            "ssh",
            many,
            place,
            lambda place: SshEngine("bench", place),
            lambda: _bare_ssh(server, many),
            "ssh",
            server.folder,
        )


@contextmanager
def _ray() -> Iterator[Kind | None]:
    python = ray_python()
    if python is None:
        yield None
        return
    with ray_cluster(python) as cluster:
        place = RayPlace(address=cluster.address, python=python, cpus=0.01, commands=1000)
        many = int(os.environ.get("PLACE_SESSIONS", "30"))
        yield Kind(
            "Ray",
            many,
            place,
            lambda place: RayEngine("bench", place),
            lambda: _bare_ray(python, cluster.address, many),
            "a Ray call",
            cluster.folder,
        )


async def _measure(kind: Kind) -> list[Row]:
    ours, bare = await _at_place(kind), await kind.bare()
    cost = await _cost(kind)
    pooled = await _from_pool(kind) if isinstance(kind.place, RayPlace) else []

    def row(what: str, unit: str, mine: list[float], theirs: list[float]) -> Row:
        p95 = (percentile(mine, 95), percentile(theirs, 95)) if len(mine) > 5 else (None, None)
        return Row(
            f"{kind.name}: {what}, against {kind.program}",
            unit, median(mine), median(theirs), p95[0], p95[1],
        )  # fmt: skip

    return [
        row("first command, with the connection", "ms", ours.first, bare.first),
        row("next command", "ms", ours.next, bare.next),
        *([row("next command, from a pool", "ms", pooled, bare.next)] if pooled else []),
        row("echo of a keystroke", "ms", ours.echo, bare.echo),
        row("100 MB of output", "s", ours.flood, bare.flood),
        row(f"{kind.many} sessions at once", "s", ours.many, bare.many),
        Row(f"{kind.name}: memory of an idle session, here", "KiB", cost.here),
        Row(f"{kind.name}: memory of an idle session, there", "KiB", cost.there),
        Row(f"{kind.name}: CPU here of an idle session", "% of a core", cost.idle),
        Row(f"{kind.name}: CPU here of one that prints 10 lines a second", "% of a core",
            cost.chatty),
    ]  # fmt: skip


@asynccontextmanager
async def _terminal(kind: Kind, place: Place | None = None) -> AsyncIterator[Terminal]:
    with TemporaryDirectory() as state:
        place = place or kind.place
        provider = PlaceProvider("bench", place, kind.make(place))
        async with Terminal(Config.of(state_dir=state), providers=[provider]) as terminal:
            yield terminal


async def _at_place(kind: Kind) -> Figures:
    first = []
    for _ in range(rounds_of(3)):
        begun = time.perf_counter()
        async with _terminal(kind) as terminal:
            assert (await terminal.run([TRUE], provider="bench")).exit_code == 0
            first.append((time.perf_counter() - begun) * 1000)
    async with _terminal(kind) as terminal:
        await terminal.run([TRUE], provider="bench")
        following = await _times(lambda: terminal.run([TRUE], provider="bench"))
        flood = []
        for _ in range(rounds_of(3)):
            begun = time.perf_counter()
            assert (await terminal.run(_FLOOD, provider="bench")).stdout_bytes == _SIZE
            flood.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        results = await asyncio.gather(
            *(terminal.run([TRUE], provider="bench", timeout=600) for _ in range(kind.many))
        )
        many = [time.perf_counter() - begun]
        assert {result.exit_code for result in results} == {0}
    return Figures(first, following, await _echo(kind), flood, many)


async def _from_pool(kind: Kind) -> list[float]:
    """The next command, when the pool had time to fill."""
    walls = []
    async with _terminal(kind, replace(kind.place, pool=1)) as terminal:  # type: ignore[call-arg]
        await terminal.run([TRUE], provider="bench")
        for _ in range(rounds_of(_POOLED)):
            await asyncio.sleep(_FILLS)
            begun = time.perf_counter()
            await terminal.run([TRUE], provider="bench")
            walls.append((time.perf_counter() - begun) * 1000)
    return walls


async def _times(call: Callable[[], Awaitable[object]]) -> list[float]:
    walls = []
    for _ in range(rounds_of(_CALLS)):
        begun = time.perf_counter()
        await call()
        walls.append((time.perf_counter() - begun) * 1000)
    return walls


async def _session(terminal: Terminal, *argv: str) -> Run:
    command = Command(" ".join(argv), argv, stays_open=True, pty=TerminalSize())
    options = RunOptions("session", Limits(None, None, "sessions have no limit"), provider="bench")
    return await terminal.supervisor.start(command, options)


async def _echo(kind: Kind) -> list[float]:
    """From a key that is typed to what the terminal there shows of it."""
    provider = PlaceProvider("bench", kind.place, kind.make(kind.place))
    await provider.ready("/")
    environment = {"PATH": os.defpath}
    process = provider.spawn(
        Prepared(("cat",), environment, "/", None, TerminalSize(), Resources(), stays_open=True),
        lambda _: None,
    )
    times = await _keys(process.stdout, process.stdout)
    await provider.close()
    os.close(process.stdout)
    return times


async def _keys(typed: int, shown: int) -> list[float]:
    async def key() -> None:
        os.write(typed, b"x")
        await anyio.wait_readable(shown)
        os.read(shown, 4096)

    await key()
    return await _times(key)


async def _cost(kind: Kind) -> Cost:
    """What sessions cost that wait, and that print."""
    here = psutil.Process()
    async with _terminal(kind) as terminal:
        await terminal.run([TRUE], provider="bench")
        before = _memory([here, *_drivers(here)])
        runs = [await _session(terminal, "cat") for _ in range(kind.many)]
        idle = await _cpu(here)
        grown = _memory([here, *_drivers(here)]) - before
        there = _memory(_far_side(kind))
        for run in runs:
            await run.kill("measured")
        runs = [await _session(terminal, "sh", "-c", _CHATTY) for _ in range(kind.many)]
        chatty = await _cpu(here)
        for run in runs:
            await run.kill("measured")
    many = kind.many
    return Cost(grown / many / 1024, there / many / 1024, idle / many, chatty / many)


async def _cpu(here: psutil.Process) -> float:
    """Percent of a core that we and our drivers take."""
    processes = [here, *_drivers(here)]
    before = sum(sum(one.cpu_times()[:2]) for one in processes)
    begun = time.monotonic()
    await asyncio.sleep(_WATCHED)
    spent = sum(sum(one.cpu_times()[:2]) for one in processes) - before
    return 100 * spent / (time.monotonic() - begun)


def _drivers(here: psutil.Process) -> list[psutil.Process]:
    ours = (one for one in psutil.process_iter(["cmdline", "ppid"]) if one.info["ppid"] == here.pid)
    return [one for one in ours if any("driver.py" in word for word in one.info["cmdline"] or ())]


def _far_side(kind: Kind) -> list[psutil.Process]:
    """Keepers that stay, what is below them, and the actors that carry their streams."""
    found = set()
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or [""]
        if "--stay" in words and any(word.startswith(str(kind.folder)) for word in words):
            found |= {process, *process.children(recursive=True)}
        if kind.name == "Ray" and words[0].startswith("ray::KeeperActor"):
            found.add(process)
    return list(found)


def _memory(processes: Sequence[psutil.Process]) -> int:
    """Bytes, pages that are shared divided among those who share them."""
    found = 0
    for one in processes:
        with suppress(OSError):  # it has just ended
            found += memory(one.pid, "Pss", "smaps_rollup")
    return found


async def _bare_ssh(server: SshServer, many: int) -> Figures:
    shared = server.folder / "control"
    words = (
        *("ssh", "-F", os.devnull, "-p", str(server.port), "-i", str(server.folder / "key")),
        *("-o", f"UserKnownHostsFile={server.folder / 'known_hosts'}", "-o", "BatchMode=yes"),
        *("-o", f"ControlPath={shared}", "127.0.0.1"),
    )
    alone = (*words[:-1], "-o", "ControlPath=none", words[-1])
    first = await _times(lambda: bare_spawn(*alone, TRUE))
    master = await asyncio.create_subprocess_exec(*words[:-1], "-MN", words[-1])
    while not shared.exists():
        await asyncio.sleep(0.05)
    following = await _times(lambda: bare_spawn(*words, TRUE))
    typing = await asyncio.create_subprocess_exec(
        *words[:-1], "-tt", words[-1], "stty raw -echo; cat",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert typing.stdin is not None
    assert typing.stdout is not None
    echo = await _typed(typing.stdin, typing.stdout)
    typing.kill()
    await typing.wait()
    flood = []
    for _ in range(rounds_of(3)):
        begun = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*words, *_FLOOD, stdout=subprocess.PIPE)
        assert process.stdout is not None
        while await process.stdout.read(1 << 20):
            pass
        flood.append(time.perf_counter() - begun)
        await process.wait()
    begun = time.perf_counter()
    await asyncio.gather(*(bare_spawn(*alone, TRUE) for _ in range(many)))
    took = time.perf_counter() - begun
    master.terminate()
    await master.wait()
    return Figures(first, following, echo, flood, [took])


async def _typed(typed: asyncio.StreamWriter, shown: asyncio.StreamReader) -> list[float]:
    async def key() -> None:
        typed.write(b"x")
        await shown.read(4096)

    await key()
    return await _times(key)


async def _bare_ray(python: str, address: str, many: int) -> Figures:
    program = Path(__file__).with_name("ray_calls.py")
    process = await asyncio.create_subprocess_exec(
        python, str(program), address, str(many), stdout=subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return Figures(**json.loads(printed.splitlines()[-1]))
