"""Overlayfs: copy-on-write views of what a command may write, and why there are none."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.errors import CannotStart
from shelltie.keeper.binaries import BINARY, KeeperKind
from shelltie.providers.workspace.boundaries import within

_OCTAL = re.compile(rb"\\(\d{3})")  # so mountinfo has blanks and such
_PROGRAM = Path(__file__).with_name("overlay_mount.py")
PYTHON = sys.executable
SANDBOX_ENDED = "its sandbox has just ended"  # so says who was to enter it
_WHY = {
    "EPERM": "this kernel lets only root mount an overlay (Linux 5.11 lets everybody), or a"
    " container forbids it",
    "ENODEV": "this kernel has no overlay file system: modprobe overlay",
    "EINVAL": "the file system of the state directory cannot keep what an overlay writes (another"
    " overlay, NFS and FAT cannot): set state.dir to a directory on ext4, XFS, Btrfs or tmpfs",
}


@frozen
class Overlay:
    """A view at `target` of the directory `lower`, whose changes are in `upper`."""

    lower: Path
    identity: tuple[int, int]
    upper: Path
    work: Path
    target: Path


def overlays_of(roots: Sequence[Path], folder: Path) -> tuple[Overlay, ...]:
    """A view of each, the first in `folder` itself; what is written to the others is in `other-…`.

    Raises: CannotStart.
    """
    made = _overlays(roots, folder)
    for one in made:
        one.target.mkdir(mode=0o700, exist_ok=True)
    return made


def overlay_in_place(root: Path, folder: Path) -> Overlay:
    """A view that will be where the directory itself is. Raises: CannotStart."""
    return _overlays((root,), folder)[0]


def _overlays(roots: Sequence[Path], folder: Path) -> tuple[Overlay, ...]:
    real = Path(os.path.realpath(folder))
    if within(roots)(real):
        raise CannotStart(
            f"what it writes would be kept in {real.parent}, where the command could write itself:"
            " set state.dir to a directory outside of the workspace"
        )
    places = (real, *(real / f"other-{number}" for number in range(1, len(roots))))
    return tuple(_overlay(root, place) for root, place in zip(roots, places, strict=True))


def mounts_now() -> bytes:
    """What is mounted, in the kernel's words: as long as they are the same, nothing has changed."""
    with open("/proc/self/mountinfo", "rb", buffering=0) as mounts:  # noqa: PTH123  it has no disk
        return mounts.read()


def check_all_is_seen(root: Path, hidden: Sequence[Path], mounts: bytes) -> None:
    """An overlay shows one file system as it is: neither what of the `mounts` is further down, nor
    what a sandbox covers there.

    Raises: CannotStart.
    """
    below = within((root,))
    for place in hidden:
        if below(Path(os.path.realpath(place))):
            raise CannotStart(f"{place}, which is shelltie's own, is in the workspace")
    lines = mounts.splitlines()
    for name in (_OCTAL.sub(_character, line.split(b" ", 5)[4]) for line in lines):
        if name.startswith(os.fsencode(f"{root}/")):
            raise CannotStart(f"{os.fsdecode(name)} is mounted in the workspace")


def check_can_be_written(root: Path) -> None:
    """An overlay takes every write, also where none could become real, and then it is too late.

    What belongs to another user or group an ordinary user's overlay cannot copy (EOVERFLOW), as no
    other number means anything in its user namespace.
    Raises: CannotStart.
    """
    if os.statvfs(root).f_flag & os.ST_RDONLY:
        raise CannotStart(f"{root} is on a file system that is read-only")
    owner, us = root.stat(), (os.geteuid(), os.getegid())
    if us[0] != 0 and (owner.st_uid, owner.st_gid) != us:
        raise CannotStart(
            f"{root} belongs to another user or group, of which an ordinary user's overlay can"
            " change nothing"
        )


def _character(octal: "re.Match[bytes]") -> bytes:
    return bytes([int(octal[1], 8)])


def cache_overlay(cache: Path, folder: Path, home: Path) -> Overlay:
    """A view of one cache in a home; what is added is in `folder`. Raises: CannotStart."""
    name = str(cache.relative_to(home)).replace("/", "+")
    made = _overlay(cache, Path(os.path.realpath(folder)) / name)
    made.target.mkdir(mode=0o700, exist_ok=True)
    return made


def _overlay(root: Path, place: Path) -> Overlay:
    try:
        for name in ("upper", "work"):
            (place / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.stat()
        # It is what a command sees as the mode of its workspace.
        (place / "upper").chmod(status.st_mode & 0o7777)
    except OSError as error:
        raise CannotStart(f"no place for what it writes: {error}") from error
    identity = status.st_dev, status.st_ino
    return Overlay(root, identity, place / "upper", place / "work", place / "view")


def mounting(overlays: Iterable[Overlay]) -> list[str]:
    """The beginning of a command line, to mount them before bwrap starts."""
    words = [
        word
        for one in overlays
        for word in (
            str(one.lower),
            f"{one.identity[0]}:{one.identity[1]}",
            *map(str, (one.upper, one.work, one.target)),
        )
    ]
    return [PYTHON, "-I", "-S", str(_PROGRAM), *words, "--"] if words else []


def entering(bwrap: int, overlay: Overlay, filtered: int, kind: KeeperKind) -> list[str]:
    """The beginning of a command line, to have a program in the living sandbox of that process,
    where it alone sees the overlay. `filtered` is a descriptor with its seccomp filter, or -1.
    """
    program = [str(BINARY), "--enter"]
    if kind is KeeperKind.PYTHON:
        program = [PYTHON, "-I", "-S", str(_PROGRAM), "enter"]
    where = str(overlay.lower), f"{overlay.identity[0]}:{overlay.identity[1]}"
    written = *map(str, (overlay.upper, overlay.work)), str(overlay.lower)
    return [*program, str(bwrap), str(filtered), *where, *written]


def why_no_overlay(said: str) -> str:
    """What the kernel answered, `overlay: mount: EPERM: …`, with a remedy where we know one."""
    _, _, number, text = said.split(": ", 3)
    return f"no overlay can be mounted: {_WHY.get(number, text)}"
