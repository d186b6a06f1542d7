"""Places in a Ray cluster: the contract, real faults, and errors that leave nothing behind."""

import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from shelltie.errors import CannotStart
from shelltie.keeper.protocol import Exited, Gone, LeashWord, Lost
from shelltie.keeper.stream_link import StreamLink
from shelltie.model import Resources
from shelltie.providers import contract
from shelltie.providers.places.engine import FarKeeper
from shelltie.providers.places.provider import PlaceProvider
from shelltie.providers.places.ray.engine import RayEngine
from shelltie.providers.provider import Prepared
from shelltie.settings.places import RayPlace
from tests.places.ray_cluster import CPUS, NODE, RayCluster, ray_cluster, ray_python
from tests.tree import new_tag, nobody_left, tagged, until

PATIENCE = 120  # seconds, for what takes one on a machine that has nothing else to do
LEASE = 300.0
PRINTS = "i=0; while [ $i -lt {0} ]; do echo line $i; i=$((i+1)); sleep {1}; done; exit 7"

pytestmark = [
    pytest.mark.skipif(ray_python() is None, reason="RAY_PYTHON names no Python with Ray"),
    pytest.mark.timeout(900),
]


class Printing:
    """A command at a place, and what it has printed."""

    def __init__(self, provider: PlaceProvider, script: str) -> None:
        argv = ("/bin/sh", "-c", script)
        prepared = Prepared(argv, {"PATH": "/usr/bin:/bin"}, "/", None, None, Resources())
        self.words: list[LeashWord] = []
        self.printed = b""
        self.process = provider.spawn(prepared, self.words.append)
        os.set_blocking(self.process.stdout, False)

    def has(self, lines: int) -> bool:
        """Whether it has printed so many."""
        with suppress(BlockingIOError):
            while data := os.read(self.process.stdout, 1 << 20):
                self.printed += data
        return self.printed.count(b"\n") >= lines

    def over(self) -> bool:
        """Whether the last word was said."""
        self.has(0)
        return any(isinstance(word, Gone | Lost) for word in self.words)

    def complete(self, lines: int) -> bool:
        """Each line once and in order, and its exit code."""
        exits = [word.wait_status for word in self.words if isinstance(word, Exited)]
        expected = b"".join(b"line %d\n" % number for number in range(lines))
        return self.printed == expected and exits == [7 << 8]


class KeptEngine(RayEngine):
    """Stays joined when a provider closes it: to join takes longer than most checks."""

    async def close(self) -> None:
        """Not yet."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    with ray_cluster(str(ray_python())) as made:
        yield made


@pytest.fixture
async def engine(cluster: RayCluster) -> AsyncIterator[RayEngine]:
    """One that has left nothing in the cluster when the test is over."""
    made = RayEngine("ray", place(cluster))
    yield made
    await until_async(made.list, [])
    await made.close()
    assert cluster.keepers() == []


def place(
    cluster: RayCluster,
    *,
    python: str = "",
    address: str = "",
    cpus: float = 1.0,
    lease: float = LEASE,
) -> RayPlace:
    return RayPlace(
        address=address or cluster.address,
        python=python or cluster.python,
        cpus=cpus,
        lease=lease,
    )


async def until_async(look: Callable[[], object], wanted: object) -> None:
    with anyio.fail_after(PATIENCE):
        while await look() != wanted:  # type: ignore[misc]
            await anyio.sleep(0.1)


async def refusal(refused: RayPlace) -> str:
    """What is told of a launch that cannot be."""
    engine = RayEngine("ray", refused)
    with pytest.raises(CannotStart) as told, anyio.fail_after(PATIENCE):
        await engine.launch("refused", LEASE)
    await engine.close()
    return str(told.value)


async def welcomed(engine: RayEngine, keeper: FarKeeper) -> StreamLink:
    link = StreamLink(await engine.open_stream(keeper), keeper.token, take=True)
    with anyio.fail_after(PATIENCE):
        while not link.welcomed:
            assert link.alive, link.problem
            await anyio.sleep(0.02)
    return link


async def test_a_keeper_is_launched_reached_and_destroyed(
    cluster: RayCluster, engine: RayEngine
) -> None:
    keeper = await engine.launch("one", LEASE)
    link = await welcomed(engine, keeper)
    assert await engine.list() == ["one"]
    assert "127.0.0.3" in keeper.where
    assert link.lease == LEASE

    await engine.destroy(keeper)

    assert cluster.keepers() == []
    assert await engine.list() == []
    await engine.destroy(keeper)


async def test_a_place_in_a_cluster_keeps_the_contract(
    cluster: RayCluster, public_path: Path
) -> None:
    wanted = place(cluster, cpus=0.1)
    kept = KeptEngine("ray", wanted)

    for check in contract.CHECKS:
        await check(PlaceProvider("ray", wanted, kept), public_path)

    await until_async(kept.list, [])
    await RayEngine.close(kept)
    assert cluster.keepers() == []


async def test_output_goes_on_when_actors_are_killed_each_line_once(cluster: RayCluster) -> None:
    provider = PlaceProvider("ray", place(cluster), RayEngine("ray", place(cluster)))
    await provider.ready("/")
    command = Printing(provider, PRINTS.format(3000, 0.002))

    for lines in (200, 900, 1700):
        await until(partial(command.has, lines), PATIENCE)
        for actor in cluster.actors():
            actor.kill()
    await until(command.over, PATIENCE)
    await provider.close()

    assert command.complete(3000)
    assert cluster.keepers() == []


async def test_a_raylet_that_is_killed_loses_nothing_that_its_lease_spares(
    cluster: RayCluster,
) -> None:
    tag = new_tag()
    short, long = place(cluster, lease=3.0), place(cluster)
    brief = PlaceProvider("brief", short, RayEngine("ray", short))
    lasting = PlaceProvider("lasting", long, RayEngine("ray", long))
    await brief.ready("/")
    await lasting.ready("/")
    hidden = Printing(brief, f"setsid sh -c 'trap \"\" TERM; sleep 900.{tag}' & sleep 900.{tag}")
    command = Printing(lasting, PRINTS.format(600, 0.05))
    await until(lambda: len(tagged(tag)) >= 2, PATIENCE)
    await until(partial(command.has, 20), PATIENCE)

    await anyio.to_thread.run_sync(cluster.kill_raylet, NODE)
    await nobody_left(tag, PATIENCE)
    await until(hidden.over, PATIENCE)
    await anyio.to_thread.run_sync(cluster.start_worker)
    await until(command.over, PATIENCE)
    await brief.close()
    await lasting.close()

    assert command.complete(600)
    assert any(isinstance(word, Lost) for word in hidden.words)
    assert cluster.keepers() == []


async def test_a_python_without_ray_is_named(cluster: RayCluster) -> None:
    assert "has no Ray" in await refusal(place(cluster, python=sys.executable))


async def test_a_python_that_is_not_there_is_named(cluster: RayCluster) -> None:
    assert "/nowhere/python" in await refusal(place(cluster, python="/nowhere/python"))


async def test_an_address_at_which_nothing_listens_is_named(cluster: RayCluster) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        assert f"no Ray cluster answers at {address}" in await refusal(
            place(cluster, address=address)
        )


async def test_something_else_that_listens_there_is_no_cluster(cluster: RayCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert address in await refusal(place(cluster, address=address))


async def test_another_version_of_ray_is_told_with_what_to_do(
    cluster: RayCluster, tmp_path: Path
) -> None:
    older = tmp_path / "python"
    older.write_text(
        f"#!/bin/sh\nexec {cluster.python} -c \"import ray, runpy, sys; ray.__version__ = '2.0.0';"
        ' sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name=\'__main__\')" "$@"\n',
        encoding="utf-8",
    )
    older.chmod(0o755)

    said = await refusal(place(cluster, python=str(older)))

    assert "this Python has Ray 2.0.0" in said
    assert "`python`" in said


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (RayPlace(cpus=64.0), "the most that a node has is 4 CPU"),
        (RayPlace(memory=1 << 50), "GiB of memory"),
        (RayPlace(resources={"tape": "1"}), "0 tape"),
    ],
    ids=["cpus", "memory", "resource"],
)
async def test_what_no_node_has_is_refused_at_once(
    cluster: RayCluster, wanted: RayPlace, named: str
) -> None:
    refused = replace(wanted, address=cluster.address, python=cluster.python)
    assert named in await refusal(refused)


async def test_what_is_taken_by_others_is_refused_and_nothing_waits_for_it(
    cluster: RayCluster, engine: RayEngine
) -> None:
    first = await engine.launch("first", LEASE)
    greedy = RayEngine("ray", place(cluster, cpus=float(CPUS)))

    with pytest.raises(CannotStart, match=r"asks for 4 CPU, and 3 CPU is free"):
        await greedy.launch("second", LEASE)

    assert await engine.list() == ["first"]
    await greedy.close()
    await engine.destroy(first)


async def test_a_launch_that_is_given_up_leaves_nothing(
    cluster: RayCluster, engine: RayEngine
) -> None:
    await engine.list()  # it has joined

    with anyio.move_on_after(0.3):
        await engine.launch("given-up", LEASE)

    await until_async(engine.list, [])
    assert cluster.keepers() == []


async def test_an_actor_that_was_ready_is_taken_and_none_is_left_at_the_end(
    cluster: RayCluster, engine: RayEngine
) -> None:
    pooled = RayEngine("ray", replace(place(cluster), pool=1))
    keeper = await pooled.launch("asked-for", LEASE)

    with anyio.fail_after(PATIENCE):
        while keeper.name == "asked-for":  # none was ready yet
            await pooled.destroy(keeper)
            keeper = await pooled.launch("asked-for", LEASE)

    (await welcomed(pooled, keeper)).close()
    assert keeper.name in keeper.where
    assert keeper.name in await engine.list()
    await pooled.destroy(keeper)
    await pooled.close()
    await until_async(engine.list, [])


async def test_a_keeper_that_is_gone_takes_its_actor_with_it(engine: RayEngine) -> None:
    """Or it would take room in the cluster for ever."""
    keeper = await engine.launch("ends", LEASE)
    link = await welcomed(engine, keeper)

    os.kill(link.keeper_pid, signal.SIGKILL)

    await until_async(engine.list, [])
    link.close()
    await engine.destroy(keeper)


async def test_a_server_that_dies_leaves_nothing_after_the_lease(cluster: RayCluster) -> None:
    server = RayEngine("ray", place(cluster))
    keeper = await server.launch("orphan", 2.0)
    (await welcomed(server, keeper)).close()

    await server.close()

    later = RayEngine("ray", place(cluster))
    await until_async(later.list, [])
    assert cluster.keepers() == []
    with pytest.raises((CannotStart, OSError), match="no keeper"):
        await later.open_stream(keeper)
    await later.destroy(keeper)
    await later.close()


async def test_a_driver_that_dies_is_started_again(engine: RayEngine) -> None:
    keeper = await engine.launch("survives", LEASE)
    link = await welcomed(engine, keeper)
    assert engine._driver is not None

    os.kill(engine._driver._process.pid, signal.SIGKILL)

    with anyio.fail_after(PATIENCE):
        while link.alive:
            await anyio.sleep(0.02)
    assert (await welcomed(engine, keeper)).keeper_pid == link.keeper_pid
    await engine.destroy(keeper)
