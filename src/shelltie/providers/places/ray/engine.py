"""Engine of Ray places: a detached actor for each keeper, on whichever node Ray finds room.

Ray's functions are called in a process of their own (driver.py): see there.
"""

import base64
import re
import socket
from contextlib import suppress
from typing import Any

import anyio

from shelltie.errors import CannotStart
from shelltie.providers.places import payload as program
from shelltie.providers.places.engine import FarKeeper
from shelltie.providers.places.ray.driver_process import DriverProcess
from shelltie.settings.places import RayPlace

_JOINS_WITHIN = 40.0  # seconds, a cluster that listens
_ROOM_WITHIN = 10.0  # seconds, Ray has to find room for an actor
_CREATES_WITHIN = 75.0  # seconds, it has to start one that has room, as the driver says
_ANSWERS_WITHIN = 15.0  # seconds, an actor
_REMOVES_WITHIN = 20.0  # seconds, the script that ends a keeper
_SLACK = 5.0  # seconds, that the driver itself is waited for longer
_NODE = re.compile(r"\(([^()]+)\)$")


class RayEngine:
    """Launches keepers in a Ray cluster."""

    kind = "ray"
    shared = False

    def __init__(self, name: str, place: RayPlace) -> None:
        self._name = name
        self._place = place
        self._driver: DriverProcess | None = None
        self._joining = anyio.Lock()
        self._closed = False
        self._nodes: dict[str, tuple[str, program.Payload]] = {}

    async def launch(self, name: str, lease: float) -> FarKeeper:
        """See `PlaceEngine`. A keeper has the name of its actor, also of one that was ready."""
        driver = await self._joined()
        keeper = FarKeeper(name, program.new_token(), "")
        try:
            about = await driver.ask(
                "create",
                within=_CREATES_WITHIN + _SLACK,
                name=name,
                options=_actor_options(self._place),
                patience=_ROOM_WITHIN,
                pool=self._place.pool,
            )
            where = f"actor {about['name']} on {about['host']} ({about['node']})"
            keeper = FarKeeper(about["name"], keeper.token, where)
            await self._start(keeper, lease, about["machine"], about["python"])
        except BaseException:
            await self.destroy(keeper)
            raise
        return keeper

    async def _start(self, keeper: FarKeeper, lease: float, machine: str, python: str) -> None:
        node = _node(keeper)
        if node not in self._nodes:
            self._nodes[node] = await self._install(keeper, machine, python)
        place, payload = self._nodes[node]
        script = program.launch_script(payload, place, keeper.name, lease)
        try:
            printed = await self._shell(keeper, script, keeper.token.encode())
            started = list(program.told(printed, "stays"))
        except CannotStart:
            del self._nodes[node]  # somebody may have removed what we put there
            raise
        if not started:
            raise CannotStart(f"the keeper did not start: {keeper.where}: {printed[:200]}")

    async def _install(
        self, keeper: FarKeeper, machine: str, python: str
    ) -> tuple[str, program.Payload]:
        """Have the keeper's program on that node; the directory where it lies."""
        look = program.read_machine(await self._shell(keeper, program.look_script()))
        payload = program.payload_for(machine, look.python or python)
        if payload.name not in look.payloads:
            put = program.put_script(payload, look.place)
            if not list(program.told(await self._shell(keeper, put, payload.content), "put")):
                raise CannotStart(f"the keeper could not be copied: {keeper.where}")
        return look.place, payload

    async def open_stream(self, keeper: FarKeeper) -> socket.socket:
        """See `PlaceEngine`. Where its actor has died, another one on its node carries it."""
        driver = await self._joined()
        directory = f"{await self._folder(keeper)}/{keeper.name}"
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs:
                await driver.ask(
                    "open",
                    within=_ANSWERS_WITHIN + _SLACK,
                    channel=theirs,
                    name=keeper.name,
                    node=_node(keeper),
                    directory=directory,
                )
        except BaseException:
            ours.close()
            raise
        return ours

    async def destroy(self, keeper: FarKeeper) -> None:
        """See `PlaceEngine`. On a node that is gone, the lease ends it."""
        with anyio.CancelScope(shield=True), suppress(CannotStart):
            driver = await self._joined()
            with suppress(CannotStart):
                script = program.remove_script(await self._folder(keeper), keeper.name)
                await self._shell(keeper, script, within=_REMOVES_WITHIN)
            await driver.ask("kill", within=_ANSWERS_WITHIN, name=keeper.name)

    async def list(self) -> list[str]:
        """See `PlaceEngine`."""
        names: list[str] = await (await self._joined()).ask("list", within=_ANSWERS_WITHIN)
        return names

    async def close(self) -> None:
        """See `PlaceEngine`."""
        self._closed = True
        driver, self._driver = self._driver, None
        if driver is None:
            return
        with anyio.CancelScope(shield=True):
            if self._place.pool:
                with suppress(CannotStart):
                    await driver.ask("drain", within=_ANSWERS_WITHIN)
            await driver.close()

    async def _joined(self) -> DriverProcess:
        """The driver; another one, if it has ended."""
        async with self._joining:
            if self._closed:
                raise CannotStart(f"{self._name} is closed")
            if self._driver is not None and self._driver.alive:
                return self._driver
            self._driver = DriverProcess(self._place.python)
            try:
                await self._driver.ask(
                    "connect",
                    within=_JOINS_WITHIN,
                    address=self._place.address,
                    namespace=self._place.namespace,
                )
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._driver.close()
                raise
            return self._driver

    async def _shell(
        self, keeper: FarKeeper, script: str, data: bytes = b"", within: float = _ANSWERS_WITHIN
    ) -> str:
        driver = await self._joined()
        printed: str = await driver.ask(
            "shell",
            within=within + _SLACK,
            name=keeper.name,
            node=_node(keeper),
            script=script,
            data=base64.b64encode(data).decode(),
            seconds=within,
        )
        return printed

    async def _folder(self, keeper: FarKeeper) -> str:
        """Where keepers lie on its node; looked up there, if another server has launched it."""
        if (known := self._nodes.get(_node(keeper))) is not None:
            return known[0]
        return program.read_machine(await self._shell(keeper, program.look_script())).place


def _node(keeper: FarKeeper) -> str:
    found = _NODE.search(keeper.where)
    if found is None:
        raise CannotStart(f"{keeper.where} is not where an actor of Ray's is")
    return found[1]


def _actor_options(place: RayPlace) -> dict[str, Any]:
    """As Ray's `options()` has them."""
    options: dict[str, Any] = {"num_cpus": place.cpus}
    if place.gpus:
        options["num_gpus"] = place.gpus
    if place.memory:
        options["memory"] = place.memory
    if place.resources:
        options["resources"] = {name: float(count) for name, count in place.resources.items()}
    return options
