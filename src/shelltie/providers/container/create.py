"""Creates labelled containers with a keeper inside, and sweeps those left behind."""

import json
import os
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio

from shelltie.basics.frozen import frozen
from shelltie.errors import CannotStart, Silent
from shelltie.keeper import process_identity
from shelltie.keeper.binaries import BINARY
from shelltie.keeper.joined_link import JoinedKeeper, JoinedLink
from shelltie.providers.container.engine_api import Engine, Image
from shelltie.providers.container.mounts import Mount, covers, order, ways
from shelltie.providers.policies import ContainerPolicy
from shelltie.providers.spawn import answers
from shelltie.providers.workspace.guards import FileIdentity, identities, identity_below

OWNER = "shelltie.owner"
_SELINUX = Path("/sys/fs/selinux/enforce")
_KEEPER_TIMEOUT = 30.0  # with a keeper that does not come
_LOOK = 0.5  # how often to ask whether it still can
_REMOVE_TIMEOUT = 10.0  # with an engine that shall remove what ends by itself, too


@frozen
class StartedContainer:
    """A container in which a keeper waits."""

    name: str
    link: JoinedLink
    variables: dict[str, str]


async def make(
    address: Path,
    policy: ContainerPolicy,
    mounts: tuple[Mount, ...],
    known: Mapping[str, FileIdentity],
    note: Callable[[str], None],
) -> StartedContainer:
    """Have one made and started, and wait for its keeper; `note` its name as soon as it may be.

    `known` is what the mounts' sources were when somebody looked at them. Raises: CannotStart, and
    then there is none, unless the engine does not answer.
    """
    async with Engine(address) as engine:
        image = await engine.image(policy.settings.image or "")
        with _door() as door:
            covered = covers(mounts, (*policy.hidden, address), door.empty)
            everything = (*mounts, *covered, *ways(BINARY, door.place))
            known = {**identities(mount.source for mount in everything), **known}
            wanted = order(policy, everything, policy.settings.user or _user(address), _security())
            name = f"shelltie-{os.getpid()}-{secrets.token_hex(4)}"
            note(name)
            try:
                await engine.create(name, {**wanted, **_marks(image)})
                await engine.start(name)
                link = await _come(door.listener, engine, name, _Ordered(everything, known))
                await _try(link, policy)
                return StartedContainer(name, link, image.variables)
            except Silent as error:
                # Whoever closes asks once more. It may be the workspace that takes so long.
                raise CannotStart(str(error)) from error
            except BaseException:
                with anyio.CancelScope(shield=True), suppress(CannotStart, TimeoutError):
                    await engine.remove(name)
                raise


def _marks(image: Image) -> dict[str, object]:
    """Whose it is; and nothing of the image's own may run, for which Podman must not be asked."""
    me = process_identity.of(os.getpid())
    owner = json.dumps([me.pid, me.started, me.boot, me.namespace])
    unchecked = {"Healthcheck": {"Test": ["NONE"]}} if image.checks_itself else {}
    return {"Labels": {OWNER: owner}, **unchecked}


async def remove(address: Path, names: set[str]) -> None:
    """Have nothing left of these, soon.

    Raises: CannotStart, TimeoutError.
    """
    async with Engine(address, change_timeout=_REMOVE_TIMEOUT) as engine:
        for name in names:
            await engine.remove(name)


async def sweep(address: Path) -> None:
    """Remove what servers left that are certainly dead, as far as the engine lets us.

    Raises: CannotStart if it does not answer at all.
    """
    async with Engine(address, change_timeout=_REMOVE_TIMEOUT) as engine:
        # Podman cannot list while one is being removed. The next shelltie will sweep, too.
        with _unless_silent():
            for container, owner in (await engine.labelled(OWNER)).items():
                if _is_dead(owner):
                    await engine.remove(container)


@contextmanager
def _unless_silent() -> Iterator[None]:
    try:
        yield
    except Silent:
        raise
    except (CannotStart, TimeoutError):
        pass


def _is_dead(owner: str) -> bool:
    """What is not written by us is nobody's whom we could know."""
    with suppress(ValueError, TypeError):
        pid, started, boot, namespace = json.loads(owner)
        who = process_identity.ProcessIdentity(int(pid), str(started), str(boot), str(namespace))
        return not who.alive
    return False


def _user(engine: Path) -> str:
    """Whoever we are. In containers of our own engine that is root, unless the engine is root's."""
    ours = engine.stat().st_uid == os.geteuid()
    return "0:0" if ours else f"{os.geteuid()}:{os.getegid()}"


def _security() -> tuple[str, ...]:
    """With labels of SELinux a container could touch nothing of ours, not even the socket."""
    return ("label=disable",) if _SELINUX.exists() else ()


@frozen
class _Ordered:
    """What shall be where in a container, and what each source was when it was looked at."""

    mounts: tuple[Mount, ...]
    known: Mapping[str, FileIdentity]

    def compare(self, root: int) -> None:
        """The engine goes by names, and a command that runs can change what they mean meanwhile.

        Raises: CannotStart.
        """
        try:
            for mount in self.mounts:
                inside = identity_below(root, mount.target.lstrip("/"))
                if inside is None or inside != self.known[str(mount.source)]:
                    raise CannotStart(
                        f"{mount.source} was changed while a container was made for it: try again"
                    )
        finally:
            os.close(root)


@frozen
class _Door:
    """Where a keeper comes to: only who is in the container can enter `place`."""

    listener: socket.socket
    place: Path
    empty: Path


@contextmanager
def _door() -> Iterator[_Door]:
    with (
        tempfile.TemporaryDirectory(prefix="shelltie-") as name,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        place, empty = Path(name) / "link", Path(name) / "empty"
        for folder in (place, empty):
            folder.mkdir()
            folder.chmod(0o755)
        listener.bind(str(place / "socket"))
        (place / "socket").chmod(0o666)
        listener.listen(1)
        listener.setblocking(False)
        yield _Door(listener, place, empty)


async def _come(
    listener: socket.socket, engine: Engine, name: str, ordered: "_Ordered"
) -> JoinedLink:
    """The keeper that comes, unless its container ends before, or is not as it was ordered."""
    channel, over = None, ""
    deadline = anyio.current_time() + _KEEPER_TIMEOUT
    while channel is None and not over:
        if anyio.current_time() > deadline:
            waited = f"{_KEEPER_TIMEOUT:.0f} s"
            over = f"its keeper did not come in {waited}: is the engine on this machine?"
        channel = await _accepted(listener)
        if channel is None:
            over = over or await engine.ended(name)
    if channel is None:
        raise CannotStart(f"the container cannot be used: {over}")
    try:
        ordered.compare(await _root(channel))
        return JoinedLink(channel, JoinedKeeper(channel))
    except OSError as error:
        channel.close()
        raise CannotStart(
            f"the keeper in the container cannot be seen from here ({error}): does shelltie itself"
            " run in a container?"
        ) from error
    except BaseException:
        channel.close()
        raise


async def _root(channel: socket.socket) -> int:
    """The root of its file system, which a keeper shows at first; a descriptor."""
    with anyio.move_on_after(_KEEPER_TIMEOUT):
        await anyio.wait_readable(channel)
    channel.setblocking(False)
    _, shown, *_ = socket.recv_fds(channel, 1, 1)
    if len(shown) != 1:
        raise ConnectionError("it does not show its root")
    return shown[0]


async def _try(link: JoinedLink, policy: ContainerPolicy) -> None:
    """Run something in it: a container in which texts cannot be run is none.

    Raises: CannotStart.
    """
    fine = False
    try:
        fine = await answers(link, policy.shell)
    finally:
        if not fine:
            with anyio.CancelScope(shield=True):
                await link.close()
    if not fine:
        raise CannotStart(
            f"in the image {policy.settings.image} {policy.shell} does not run: use an image that"
            " has it, or set shell to one that it has, such as /bin/sh"
        )


async def _accepted(listener: socket.socket) -> socket.socket | None:
    with anyio.move_on_after(_LOOK):
        await anyio.wait_readable(listener)
    with suppress(BlockingIOError):
        return listener.accept()[0]
    return None
