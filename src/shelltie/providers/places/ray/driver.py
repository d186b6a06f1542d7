"""The Ray driver: a program of its own, which asks a Ray cluster for actors and pumps streams.

Run as `python driver.py SOCKET` by a Python that has the cluster's version of Ray, which need not
be ours; 3.9 is enough. Not in the server: Ray changes its driver's signals, starts threads in it,
and exits it when the cluster is gone. It ends with its server, whose end of SOCKET is closed then.

A request is a line of JSON with `id` and `do`; an `open` comes with a descriptor. The answer has
the same `id`, and `is` or `error`. actor.py lies beside it.
"""

from __future__ import annotations

import asyncio
import base64
import ctypes
import json
import os
import platform
import runpy
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

_PR_SET_DUMPABLE = 4
_READ_SIZE = 64 * 1024
_DESCRIPTORS = 8  # that may come with one reading
_KNOCKS_WITHIN = 4.0  # seconds, to the cluster's port
_JOINS_WITHIN = 20.0  # seconds, a cluster that listens
_STARTS_WITHIN = 60.0  # seconds, an actor that has room
_ANSWERS_WITHIN = 10.0  # seconds, an actor that lives
_IDLE = 60.0  # seconds, an actor that nobody gives a keeper, or has connect to it
_PINNED = 0.001  # how much of a node's own resource is taken by whoever must run there
_AS_MUCH = 1e-9  # Ray rounds what it has


class RefusedRequest(Exception):
    """It cannot be done; the text says why, and what to do."""


class NoKeeper(RefusedRequest):
    """The node answers, and the keeper is not there any more."""


class Cluster:
    """What is asked of Ray. Ray's own functions wait, and so run in threads."""

    def __init__(self) -> None:
        self._ray: Any = None
        self._actor_class: Any = None
        self._actors: dict[str, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._creating: dict[str, Any] = {}
        self._ready: dict[str, dict[str, Any]] = {}
        self._filling: asyncio.Task[None] | None = None

    async def _in_thread(self, function: Any, *args: Any, **named: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(
            None, partial(function, *args, **named)
        )

    async def connect(self, address: str, namespace: str) -> dict[str, Any]:
        """Join the cluster as a driver."""
        if ":" in address and "://" not in address:
            await self._knock(address)
        try:
            import ray
        except ImportError as error:
            raise RefusedRequest(
                f"{sys.executable} has no Ray ({error}): install shelltie[ray], or name a Python"
                " that has the cluster's Ray in the place's `python`"
            ) from error
        self._ray = ray
        joining = self._in_thread(
            ray.init,
            address=address,
            namespace=namespace,
            configure_logging=False,
            log_to_driver=False,
        )
        try:
            await asyncio.wait_for(joining, _JOINS_WITHIN)
        except asyncio.TimeoutError:
            raise RefusedRequest(
                f"what listens at {address} did not let us join in {_JOINS_WITHIN:g} s: name the"
                " address that `ray status` prints, and look whether its head lives"
            ) from None
        except Exception as error:
            raise RefusedRequest(_why_not(ray, address, error)) from error
        self._actor_class = _load_actor_class(ray)
        return {"ray": ray.__version__, "python": platform.python_version()}

    async def _knock(self, address: str) -> None:
        """Whether anything listens there: Ray itself would try for a minute."""
        host, _, port = address.rpartition(":")
        try:
            _, writer = await asyncio.wait_for(
                asyncio.open_connection(host.strip("[]"), int(port)), _KNOCKS_WITHIN
            )
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            said = str(error) or f"no answer in {_KNOCKS_WITHIN:.0f} s"
            raise RefusedRequest(f"no Ray cluster answers at {address}: {said}") from error
        writer.close()

    async def create(
        self, name: str, options: dict[str, Any], patience: float, pool: int
    ) -> dict[str, Any]:
        """An actor, wherever Ray finds room, of that name, or one that was ready; what its node is.

        As many as `pool` are ready for those who come next.
        """
        self._creating[name] = asyncio.current_task()
        try:
            about = await self._take_ready() or await self._started(name, options, patience)
        finally:
            self._creating.pop(name, None)
        if pool and self._filling is None:
            self._filling = asyncio.ensure_future(self._fill(options, patience, pool))
        return about

    async def _started(self, name: str, options: dict[str, Any], patience: float) -> dict[str, Any]:
        """A new one."""
        try:
            await self._in_thread(self._refuse_infeasible, options)
            actor = self._new_actor(name, options, _IDLE)
            return {"name": name, **await self._described(actor, options, patience)}
        except (RefusedRequest, asyncio.CancelledError):
            await self.kill(name)
            raise
        except Exception as error:
            await self.kill(name)
            raise RefusedRequest(f"Ray could not start an actor: {_said(error)}") from error

    async def _take_ready(self) -> dict[str, Any] | None:
        """One of the pool that lives."""
        while self._ready:
            name, about = self._ready.popitem()
            if await self._extended(name):
                return about
        return None

    async def _fill(self, options: dict[str, Any], patience: float, pool: int) -> None:
        """Have so many ready; where there is no room for them, with the next command again."""
        try:
            while len(self._ready) < pool:
                name = f"shelltie-{os.urandom(6).hex()}"
                self._ready[name] = await self._started(name, options, patience)
        except RefusedRequest:
            pass
        finally:
            self._filling = None

    async def renew(self) -> None:
        """Those that are ready leave by themselves when nobody says this any more."""
        while True:
            await asyncio.sleep(_IDLE / 3)
            for name in list(self._ready):
                if not await self._extended(name):
                    self._ready.pop(name, None)

    async def _extended(self, name: str) -> bool:
        """Whether an actor that has no keeper yet goes on waiting for one."""
        try:
            call = _value(self._actors[name].extend.remote(_IDLE))
            await asyncio.wait_for(call, _ANSWERS_WITHIN)
        except (KeyError, asyncio.TimeoutError, self._ray.exceptions.RayError):
            await self.kill(name)
            return False
        return True

    async def drain(self) -> None:
        """End those that are ready."""
        if self._filling is not None:
            self._filling.cancel()
            await asyncio.wait({self._filling})
        while self._ready:
            await self.kill(self._ready.popitem()[0])

    async def _described(
        self, actor: Any, options: dict[str, Any], patience: float
    ) -> dict[str, Any]:
        """What its node is. Where there is room, it only takes long to start: many do at once."""
        describing = asyncio.ensure_future(_value(actor.describe.remote()))
        try:
            done, _ = await asyncio.wait({describing}, timeout=patience)
            if not done:
                if wrong := await self._in_thread(self._why_pending, options, patience):
                    raise RefusedRequest(wrong)
                done, _ = await asyncio.wait({describing}, timeout=_STARTS_WITHIN)
            if not done:
                raise RefusedRequest(f"Ray has not started an actor in {_STARTS_WITHIN:g} s")
            about: dict[str, Any] = await describing
            return about
        finally:
            describing.cancel()

    def _new_actor(self, name: str, options: dict[str, Any], idle: float) -> Any:
        actor = self._actor_class.options(
            name=name, lifetime="detached", max_restarts=0, max_task_retries=0, **options
        ).remote(idle)
        self._actors[name] = actor
        return actor

    def _refuse_infeasible(self, options: dict[str, Any]) -> None:
        """No node is so large, however long one waits; without that Ray would wait silently."""
        wanted = _wanted(options)
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if not nodes:
            raise RefusedRequest("no node of the Ray cluster is alive")
        if any(all(node.get(key, 0) >= count - _AS_MUCH for key, count in wanted.items())
               for node in nodes):  # fmt: skip
            return
        most = {key: max(node.get(key, 0) for node in nodes) for key in wanted}
        raise RefusedRequest(
            f"no node of the Ray cluster has {_listed(wanted)}; the most that a node has is"
            f" {_listed(most)}: ask for less in the place's settings, or add a node"
        )

    def _why_pending(self, options: dict[str, Any], patience: float) -> str:
        """What is missing, or nothing if there would be room for yet another one."""
        wanted, free = _wanted(options), self._ray.available_resources()
        if all(free.get(key, 0) >= count - _AS_MUCH for key, count in wanted.items()):
            return ""
        return (
            f"Ray found no room for an actor in {patience:g} s: it asks for {_listed(wanted)}, and"
            f" {_listed({key: free.get(key, 0) for key in wanted})} is free in the whole cluster."
            " Try later, ask for less, or add a node"
        )

    async def shell(self, name: str, node: str, script: str, data: str, seconds: float) -> str:
        """What `sh` prints of a script, on the node of that actor."""
        _, printed = await self._call(
            name, node, "shell", script, base64.b64decode(data), seconds=seconds
        )
        return str(printed)

    async def open(self, name: str, node: str, directory: str, channel: socket.socket) -> None:
        """Pump this socket to the one of the keeper in that directory."""
        stream = os.urandom(8).hex()
        try:
            actor, wrong = await self._call(name, node, "open", stream, directory)
        except BaseException:
            channel.close()
            raise
        if wrong:
            channel.close()
            raise NoKeeper(wrong)
        self._keep(_pump(actor, stream, channel))

    async def _call(
        self, name: str, node: str, method: str, *args: Any, seconds: float = _ANSWERS_WITHIN
    ) -> tuple[Any, Any]:
        """The actor of that name, and what its method returned; of another one, if it has died."""
        for last in (False, True):
            actor = await self._reach(name, node)
            try:
                call = getattr(actor, method).remote(*args)
                return actor, await asyncio.wait_for(_value(call), seconds)
            except asyncio.TimeoutError:
                raise RefusedRequest(f"actor {name} did not answer in {seconds:g} s") from None
            except self._ray.exceptions.RayActorError as error:
                self._actors.pop(name, None)
                if last:
                    raise RefusedRequest(f"actor {name} has died: {_said(error)}") from error
        raise AssertionError

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reach(self, name: str, node: str) -> Any:
        """The actor of a keeper; another on its node, if that one has died.

        The other takes no CPU or memory: what the keeper holds has them already, and would be out
        of reach if somebody else got them meanwhile.
        """
        if name in self._actors:
            return self._actors[name]
        try:
            self._actors[name] = await self._in_thread(self._ray.get_actor, name)
            return self._actors[name]
        except ValueError:
            pass
        pin = f"node:{node}"
        nodes = await self._in_thread(self._ray.nodes)
        if not any(one["Alive"] and pin in one["Resources"] for one in nodes):
            raise RefusedRequest(f"node {node} is not in the Ray cluster now")
        try:
            return self._new_actor(name, {"num_cpus": 0, "resources": {pin: _PINNED}}, _IDLE)
        except ValueError:  # another server was faster
            return await self._in_thread(self._ray.get_actor, name)

    async def kill(self, name: str) -> None:
        """End its actor, if there is one, or is about to be."""
        creation = self._creating.pop(name, None)
        if creation is not None and creation is not asyncio.current_task():
            creation.cancel()
            await asyncio.wait({creation})
        actor = self._actors.pop(name, None)
        try:
            actor = actor or await self._in_thread(self._ray.get_actor, name)
        except ValueError:
            return
        await self._in_thread(self._ray.kill, actor)

    async def list(self) -> list[str]:
        """The names of all actors in our namespace that live."""
        names: list[str] = await self._in_thread(self._ray.util.list_named_actors)
        return sorted(names)


async def _value(ref: Any) -> Any:
    """What a call returned. Ray's reference is awaitable, and no coroutine as `wait_for` wants."""
    return await ref


async def _pump(actor: Any, stream: str, channel: socket.socket) -> None:
    """Both directions, until one of them ends; then the socket is closed, which whoever has its
    other end takes for a link that broke.
    """
    down = asyncio.ensure_future(_pump_down(actor, stream, channel))
    up = asyncio.ensure_future(_pump_up(actor, stream, channel))
    await asyncio.wait({down, up}, return_when=asyncio.FIRST_COMPLETED)
    for task in (down, up):
        task.cancel()
    await asyncio.gather(down, up, return_exceptions=True)
    channel.close()
    actor.close.remote(stream)


async def _pump_up(actor: Any, stream: str, channel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(channel, _READ_SIZE):
        await actor.write.remote(stream, data)


async def _pump_down(actor: Any, stream: str, channel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await actor.read.remote(stream):
        await loop.sock_sendall(channel, data)


class Requests:
    """Reads requests from the server's socket, and answers each when it is done."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._cluster = Cluster()
        self._line = b""
        self._passed: list[int] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._does: dict[str, Callable[..., Awaitable[Any]]] = {
            "connect": self._cluster.connect,
            "create": self._cluster.create,
            "shell": self._cluster.shell,
            "kill": self._cluster.kill,
            "drain": self._cluster.drain,
            "list": self._cluster.list,
        }

    async def serve(self) -> None:
        """Until the server closes its end."""
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        self._channel.setblocking(False)
        loop.add_reader(self._channel, self._hear, ended)
        renewing = asyncio.ensure_future(self._cluster.renew())
        await ended
        renewing.cancel()

    def _hear(self, ended: asyncio.Future[None]) -> None:
        try:
            data, passed, _, _ = socket.recv_fds(self._channel, _READ_SIZE, _DESCRIPTORS)
        except BlockingIOError:
            return
        except OSError:
            data, passed = b"", []
        self._passed += passed
        if not data:
            if not ended.done():
                ended.set_result(None)
            return
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            task = asyncio.ensure_future(self._answer(json.loads(line)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: dict[str, Any]) -> None:
        number, do = request.pop("id"), request.pop("do")
        try:
            if do == "open":
                channel = socket.socket(fileno=self._passed.pop(0))
                channel.setblocking(False)
                await self._cluster.open(channel=channel, **request)
                answer: dict[str, Any] = {"is": None}
            else:
                answer = {"is": await self._does[do](**request)}
        except RefusedRequest as error:
            answer = {"error": str(error), "gone": isinstance(error, NoKeeper)}
        except Exception as error:  # noqa: BLE001  Ray's errors are many, and each is the answer
            answer = {"error": f"Ray: {_said(error)}"}
        line = json.dumps({"id": number, **answer}).encode() + b"\n"
        await asyncio.get_running_loop().sock_sendall(self._channel, line)


def _wanted(options: dict[str, Any]) -> dict[str, float]:
    """What an actor asks for, by the names that Ray gives its nodes' resources."""
    known = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    wanted = {ray: options[ours] for ours, ray in known.items() if options.get(ours)}
    return {**wanted, **options.get("resources", {})}


def _listed(resources: dict[str, float]) -> str:
    return ", ".join(
        f"{count / 2**30:.3g} GiB of memory" if key == "memory" else f"{count:g} {key}"
        for key, count in resources.items()
    )


def _said(error: BaseException) -> str:
    """The first line that says something: Ray's messages are long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])[:400]}"


def _why_not(ray: Any, address: str, error: Exception) -> str:
    text = str(error)
    if "ersion mismatch" in text:
        return (
            f"this Python has Ray {ray.__version__} on Python {platform.python_version()}, and the"
            f" cluster at {address} another: {' '.join(text.split())[:300]}. Name a Python that has"
            " the cluster's Ray in the place's `python`"
        )
    return f"no Ray cluster at {address}: {_said(error)}"


def _load_actor_class(ray: Any) -> Any:
    """The class of actor.py, of no module: so Ray sends all of it to nodes that do not have it."""
    return ray.remote(runpy.run_path(str(Path(__file__).with_name("actor.py")))["KeeperActor"])


def main(words: list[str]) -> None:
    """Serve the server at the other end of this descriptor."""
    if len(words) != 2 or not words[1].isdigit():
        sys.exit("usage: driver.py SOCKET")
    if sys.platform == "linux":  # what it was given to show to Ray is nobody else's
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    with socket.socket(fileno=int(words[1])) as channel:
        asyncio.run(Requests(channel).serve())


if __name__ == "__main__":
    main(sys.argv)
    os._exit(0)  # Ray's threads would take seconds to end
