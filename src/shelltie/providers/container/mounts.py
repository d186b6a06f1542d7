"""Container specification: image, mounts, user and variables for the engine.

The system is the image's and read-only. Of this machine there are the workspace, as in a sandbox,
and what `container.mounts` lists; nothing of the home, and no variable that was not meant for it.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.errors import CannotStart
from shelltie.providers.policies import ContainerPolicy
from shelltie.providers.workspace.boundaries import checked
from shelltie.providers.workspace.guards import Guards

_LINK = "/run/shelltie/link"
_KEEPER = "/run/shelltie/keeper"
_HOME = "/home/shelltie"
_PRIVATE = ("/tmp", "/var/tmp", "/run", _HOME)  # noqa: S108  inside, where they belong to nobody else
_TAKEN = ("/", "/proc", "/sys", "/dev", "/run/shelltie")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:@-]*")
# Podman writes mounts as text with commas, and what follows one is an option: another source.
_MISREAD = re.compile('[,"\x00-\x1f\x7f\ud800-\udfff]')
_FALLBACK_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_COMMON = re.compile(r"TERM|COLORTERM|NO_COLOR|LANG|LANGUAGE|LC_\w+|TZ")


@frozen
class Mount:
    """Something of this machine, and where it is inside."""

    source: Path
    target: str
    writable: bool


def checked_image(name: str) -> str:
    """The name of an image, if it can be one.

    Raises: CannotStart.
    """
    if not _IMAGE.fullmatch(name) or ".." in name:
        raise CannotStart(f"container.image: {name!r} is no name of an image, such as debian:12")
    return name


def checked_mounts(
    policy: ContainerPolicy, ours: tuple[Path, ...], workspace: tuple[Path, ...]
) -> tuple[Mount, ...]:
    """What the settings want to be there, beside the workspace.

    `ours` are places that no command may reach. Raises: CannotStart.
    """
    mounts = tuple(_mount(text, policy.home, ours) for text in policy.settings.mounts)
    for mount in mounts:
        if mount.writable and any(_overlap(mount.source, root) for root in workspace):
            raise CannotStart(
                f"container.mounts: {mount.source} and the workspace have parts in common, of which"
                " some must stay as they are: add :ro"
            )
        _claim(mount.source, ours)
    return mounts


def _overlap(source: Path, root: Path) -> bool:
    return source == root or source in root.parents or root in source.parents


def _claim(source: Path, ours: tuple[Path, ...]) -> None:
    """Make our own places that are not there: what comes later could not be covered."""
    for place in ours:
        if source in place.parents and not os.path.lexists(place):
            try:
                place.mkdir(mode=0o700, parents=True)
            except OSError as error:
                raise CannotStart(
                    f"container.mounts: {source} would show {place}, which is shelltie's own: mount"
                    " something further down"
                ) from error


def _mount(text: str, home: Path, ours: tuple[Path, ...]) -> Mount:
    words = text.removesuffix(":ro").split(":")
    try:
        given = Path(words[0]).expanduser()
        source = Path(os.path.realpath(given))
        exists = source.exists()
    except (OSError, RuntimeError, ValueError) as error:  # too long, nobody's home, a NUL
        raise CannotStart(f"container.mounts: {text[:100]!r} is no path: {error}") from error
    if len(words) > 2 or not given.is_absolute():
        raise CannotStart(
            f"container.mounts: {text!r} must be SOURCE or SOURCE:TARGET, from /, perhaps with :ro"
        )
    target = _normal(words[-1]) if len(words) == 2 else str(source)
    if not exists:
        raise CannotStart(f"container.mounts: {source} does not exist")
    if not target.startswith("/") or any(
        target == one or (one != "/" and target.startswith(f"{one}/")) for one in _TAKEN
    ):
        raise CannotStart(f"container.mounts: nothing can be put at {target} in a container")
    if any(source == one or one in source.parents for one in ours):
        raise CannotStart(f"container.mounts: {source} is nothing for commands: it commands us")
    if text.endswith(":ro"):
        return Mount(source, target, writable=False)
    try:
        checked(str(source if source.is_dir() else source.parent), home, ours)
    except CannotStart as error:
        raise CannotStart(f"container.mounts: nobody may write to {source}: add :ro") from error
    return Mount(source, target, writable=True)


def _normal(target: str) -> str:
    """Without `..`, and with one `/` before it."""
    normal = os.path.normpath(target)
    return f"/{normal.lstrip('/')}" if normal.startswith("/") else normal


def workspace_mounts(guards: Guards) -> Iterator[Mount]:
    """The workspace at its own path, without a way to change what others run or obey."""
    for place in (*guards.writable, *guards.pinned):
        # Each is a mount of its own, so that it cannot be renamed to make another in its place.
        yield Mount(place, str(place), writable=True)
    for place in guards.kept:
        yield Mount(place, str(place), writable=False)


def order(
    policy: ContainerPolicy, mounts: tuple[Mount, ...], user: str, security: tuple[str, ...]
) -> dict[str, object]:
    """What to ask the engine for. `mounts` and the network are all there is of this machine."""
    private = f"rw,exec,nosuid,nodev,mode=1777,size={policy.sandbox.tmp_size}"
    return {
        "Image": policy.settings.image,
        "User": user,
        "Entrypoint": [_KEEPER, "--connect", f"{_LINK}/socket"],
        "Cmd": [],
        "WorkingDir": "/",
        "HostConfig": {
            "AutoRemove": True,
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges", *security],
            "NetworkMode": "default" if policy.settings.network == "on" else "none",
            "IpcMode": "private",
            "LogConfig": {"Type": "none"},
            "Mounts": [_written(one) for one in mounts],
            "Tmpfs": dict.fromkeys(_PRIVATE, private),
            **_limits(policy),
        },
    }


def ways(binary: Path, link: Path) -> tuple[Mount, Mount]:
    """The keeper, and the directory with the socket that it comes to."""
    return Mount(binary, _KEEPER, writable=False), Mount(link, _LINK, writable=False)


def _written(mount: Mount) -> dict[str, object]:
    source, target = str(mount.source), mount.target
    for path in (source, target):
        if _MISREAD.search(path):
            raise CannotStart(
                f"{path!r} cannot be in a container: it has a comma, a quotation mark or something"
                " unprintable, which engines misread. Rename it"
            )
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": not mount.writable}


def _limits(policy: ContainerPolicy) -> dict[str, object]:
    limits = {
        "Memory": policy.settings.memory,
        "MemorySwap": policy.settings.memory,  # all together, so there is none beside it
        "NanoCpus": int(policy.settings.cpus * 1_000_000_000),
        "PidsLimit": policy.settings.processes,
    }
    return {name: value for name, value in limits.items() if value}


def covers(mounts: tuple[Mount, ...], ours: tuple[Path, ...], empty: Path) -> tuple[Mount, ...]:
    """Over our own places, wherever they would be seen: with our socket a command could say yes.

    Not a tmpfs: Podman fills one with what it covers.
    """
    found: dict[str, Mount] = {}
    for mount in mounts:
        for place in ours:
            if mount.source in place.parents and place.exists() and not place.is_symlink():
                inside = str(Path(mount.target) / place.relative_to(mount.source))
                cover = empty if place.is_dir() else Path(os.devnull)
                found[inside] = Mount(cover, inside, writable=False)
    return tuple(found.values())


def visible(mounts: tuple[Mount, ...]) -> tuple[str, ...]:
    """Where a command may have its directory."""
    return (*(mount.target for mount in mounts), *_PRIVATE)


def variables(
    given: Mapping[str, str], policy: ContainerPolicy, image: Mapping[str, str]
) -> dict[str, str]:
    """The image's, and those that are meant for this command, not for this machine."""
    env = {**image, **{name: value for name, value in given.items() if _meant(name, value, policy)}}
    if image.get("PATH") and "PATH" in given:
        env["PATH"] = ":".join(dict.fromkeys(f"{env['PATH']}:{image['PATH']}".split(":")))
    if "PATH" in given:
        env.setdefault("PATH", _FALLBACK_PATH)
    if "HOME" in given:
        env.setdefault("HOME", _HOME)
    return env


def _meant(name: str, value: str, policy: ContainerPolicy) -> bool:
    if policy.outside.get(name) != value or _COMMON.fullmatch(name):
        return True
    return any(
        name.startswith(word[:-1]) if word.endswith("*") else name == word for word in policy.passed
    )
