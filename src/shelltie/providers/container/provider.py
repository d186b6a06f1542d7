"""ContainerProvider: a container for each workspace, of an image that the user names."""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from pathlib import Path

import anyio

from shelltie.basics.frozen import mutable
from shelltie.errors import CannotStart, NotSetUp
from shelltie.keeper.binaries import KeeperKind, choose
from shelltie.keeper.protocol import LeashWord
from shelltie.model import Isolation
from shelltie.providers.cgroup import CommandCgroup, group_of
from shelltie.providers.container.mounts import (
    checked_image,
    checked_mounts,
    variables,
    visible,
    workspace_mounts,
)
from shelltie.providers.files.file_rules import FileRules, guarded_by
from shelltie.providers.files.workspace_files import WorkspaceFiles
from shelltie.providers.policies import ContainerPolicy, bars_of
from shelltie.providers.pool import Sandbox, SandboxPool
from shelltie.providers.provider import Prepared
from shelltie.providers.proxy.server import open_proxy, proxy_variables
from shelltie.providers.spawn import LeashedProcess, limited, spawn
from shelltie.providers.workspace.boundaries import checked
from shelltie.providers.workspace.guards import RememberedFiles, guards_of
from shelltie.providers.workspace.new_repositories import NewRepositories
from shelltie.providers.workspace.watched_names import WatchedNames
from shelltie.settings.network_list import expanded

_MORE = "add the directory to container.mounts"
_SCHEME = "unix://"


@mutable
class _Container(Sandbox):
    name: str = field(kw_only=True)
    engine: Path = field(kw_only=True)
    variables: dict[str, str] = field(kw_only=True)
    group: CommandCgroup = field(kw_only=True)
    given_up: bool = False

    @property
    def current(self) -> bool:
        """Whether it guards what it was made to, and nobody has paused it."""
        alive = self.proxy is None or self.proxy.alive
        return self.held.unchanged and alive and not self.group.frozen()

    @property
    def lost(self) -> bool:
        """Whether it is paused, and keeps nobody who could still come to his end in it."""
        return (self.link.idle or self.link.doubtful) and self.group.frozen()


class ContainerProvider:
    """Commands in containers that have an image's system and may write in their workspace."""

    name = "container"
    isolation = Isolation.CONTAINER

    def __init__(self, policy: ContainerPolicy) -> None:
        self.bars = bars_of(policy.settings.network)
        self._allowed = expanded(policy.sandbox.network_allow)
        self._policy = policy
        self._rooms: SandboxPool[_Container] = SandboxPool("container", _MORE, policy.sandbox.idle)
        self._locks: dict[Path, anyio.Lock] = {}
        self._made: dict[Path, set[str]] = {}  # by the engine that made them

    def files(self, workspace: str, *, secrets: bool) -> WorkspaceFiles:  # noqa: ARG002  commands read them, too
        """See `FileProvider`: those of the workspace, which is at the same path inside."""
        policy = self._policy
        place = checked(workspace, policy.home, policy.hidden)

        def guarded() -> tuple[Path, ...]:
            return guarded_by(guards_of((place,), policy.home, policy.hidden, policy.own))

        return WorkspaceFiles(workspace, FileRules(policy.hidden, guarded=guarded), place)

    async def ready(self, workspace: str) -> None:
        """See `Provider`."""
        room = self._rooms.by_name(workspace)  # which lets go of it if somebody has paused it
        if room is not None:
            self._rooms.reserve(room)
        for paused in [room for room in self._rooms.stopping if room.lost and not room.given_up]:
            paused.given_up = True
            await _remove(paused.engine, {paused.name})
        if room is None:
            place = checked(workspace, self._policy.home, self._policy.hidden)
            async with self._locks.setdefault(place, anyio.Lock()):
                room = self._rooms.by_path(place, workspace) or await self._open(place, workspace)
            self._rooms.reserve(room)

    def spawn(self, prepared: Prepared, listen: Callable[[LeashWord], None]) -> LeashedProcess:
        """See `Provider`."""
        room = self._rooms.reserved(prepared.workspace)
        if room is None:
            raise CannotStart("its container has just ended: ask again, and there will be another")
        env = variables(prepared.env, self._policy, room.variables)
        env = env if room.proxy is None else {**env, **proxy_variables()}
        listen = limited(room.group, listen)
        with self._rooms.entered(room, prepared, env, listen) as (inside, told):
            hear, attached = room.networked(told, forward=self._policy.sandbox.forward)
            return attached(spawn(room.link, inside, hear))

    async def close(self) -> None:
        """See `Provider`."""
        await self._rooms.close()
        made, self._made = self._made, {}
        for address, names in made.items():
            await _remove(address, names)

    async def _open(self, place: Path, workspace: str) -> _Container:
        policy, address = self._policy, _address(self._policy)
        choose(KeeperKind.C)
        guards, held = (
            guards_of((place,), policy.home, policy.hidden, policy.own),
            RememberedFiles(),
        )
        held.note_all(guards)
        ours = (*policy.hidden, address)
        mounts = (
            *workspace_mounts(guards),
            *checked_mounts(policy, ours, guards.writable),
        )
        held.note(one.source for one in mounts)
        self._rooms.replace(place)
        # Here, because to load an HTTP client takes 0.1 s and most terminals make no container.
        from shelltie.providers.container.create import make, sweep

        if address not in self._made:
            await sweep(address)
        names = self._made.setdefault(address, set())
        watched = WatchedNames(guards.watched)
        try:
            made = await make(address, policy, mounts, held.known, names.add)
        except BaseException:
            watched.close()
            raise
        room = _Container(
            place,
            visible(mounts),
            made.link,
            name=made.name,
            engine=address,
            held=held,
            watched=watched,
            made=NewRepositories(place, guards.repositories),
            variables=made.variables,
            group=group_of(made.link.pid),
        )
        self._rooms.add(room, workspace)
        if policy.settings.network == "allow":
            room.proxy = await open_proxy(room.link, self._allowed)
        return room


async def _remove(engine: Path, names: set[str]) -> None:
    from shelltie.providers.container.create import remove  # it is loaded already

    # If it is gone: they have ended with their keepers, and go by themselves.
    with anyio.CancelScope(shield=True), suppress(CannotStart, TimeoutError):
        await remove(engine, names)


def _address(policy: ContainerPolicy) -> Path:
    """The socket of the engine.

    Raises: CannotStart.
    """
    if not policy.settings.image:
        raise NotSetUp("no image is set for containers: set container.image, such as debian:12")
    checked_image(policy.settings.image)
    if sys.platform != "linux":
        raise CannotStart("containers are held on Linux only, where their processes can be seen")
    closed: list[str] = []
    for given in policy.engines:
        if "://" in given and not given.startswith(_SCHEME):
            raise CannotStart(f"the engine at {given} is not on this machine: use {_SCHEME}PATH")
        path = Path(given.removeprefix(_SCHEME))
        try:
            if path.is_socket():
                return Path(os.path.realpath(path))
        except OSError as error:
            closed.append(f"{given} cannot be looked at: {error.strerror}")
    raise CannotStart(
        f"no container engine is here (looked at {', '.join(policy.engines) or 'nothing'}"
        f"{''.join(f'; {one}' for one in closed)}): install"
        " Docker or Podman and start it (systemctl enable --now podman.socket), or set"
        " container.engine"
    )
