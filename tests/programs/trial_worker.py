"""Runs operations on trees, in a real overlay and outside, and applies what the overlay caught.

One process for many examples: a line of JSON in, a line of JSON out. It is started by root, and
becomes the user it is to be; what it mounts is in namespaces of a child that ends at once.
"""

import ctypes
import errno
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from shelltie.errors import TrialError
from shelltie.trials.apply import apply_changes
from shelltie.trials.overlay_upper import file_clock, read_change_set
from shelltie.trials.tree_copy import remove_tree
from shelltie.trials.undo import undo

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_PRIVATE = 0x40000 | 0x4000
_SET_DUMPABLE = 4
KERNEL = ctypes.CDLL(None, use_errno=True)

Operation = list[object]


def become(uid: int) -> None:
    """Another user from now on, who may make namespaces of his own."""
    if uid != os.getuid():
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        KERNEL.prctl(_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self is root's


def mount(kind: str, where: str, options: str) -> None:
    """Raises: OSError."""
    done = KERNEL.mount(kind.encode(), where.encode(), kind.encode(), 0, os.fsencode(options))
    if done != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mount {kind}: {os.strerror(code)}")


def enter_namespaces(*, own_users: bool) -> None:
    """A mount namespace, and where that takes it a user namespace, for this process alone."""
    uid, gid = os.getuid(), os.getgid()
    if KERNEL.unshare(_NEWNS | (_NEWUSER if own_users else 0)) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if own_users:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    KERNEL.mount(None, b"/", None, _PRIVATE, None)


def in_child(work: Callable[[], None]) -> str:
    """Do it in a process of its own; what went wrong, "" for nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  it is told
            os.write(writing, repr(error).encode()[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        problem = told.read().decode()
    os.waitpid(child, 0)
    return problem


def on_trial(place: Path, work: Callable[[Path], None], *, users: bool) -> str:
    """Do something to `place/merged`, an overlay of `place/workspace`."""

    def inside() -> None:
        enter_namespaces(own_users=users)
        os.chdir(place)
        # Otherwise the whole file system is written out when it is unmounted.
        layers = "lowerdir=workspace,upperdir=upper,workdir=work,volatile"
        mount("overlay", "merged", layers + (",userxattr" if users else ""))
        work(place / "merged")

    for name in ("upper", "work", "merged"):
        (place / name).mkdir(exist_ok=True)
    return in_child(inside)


def perform(root: Path, operations: list[Operation]) -> None:
    """Each as far as it can be done."""
    for name, *words in operations:
        with suppress(OSError, shutil.Error):
            _OPERATIONS[str(name)](root, *words)


def _write(root: Path, path: str, text: str) -> None:
    _put_text(root / path, text, os.O_TRUNC)


def _append(root: Path, path: str, text: str) -> None:
    _put_text(root / path, text, os.O_APPEND)


def _put_text(path: Path, text: str, flags: int) -> None:
    flags |= os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK  # a pipe that has no reader is an error
    with os.fdopen(os.open(path, flags, 0o666), "w") as file:
        file.write(text)


def _rename(root: Path, old: str, new: str) -> None:
    try:
        (root / old).rename(root / new)
    except OSError as error:
        if error.errno != errno.EXDEV:  # a directory of the lower layer: as mv does it
            raise
        with suppress(OSError):
            (root / new).rmdir()
        if os.path.lexists(root / new) or f"{new}/".startswith(f"{old}/"):
            raise
        shutil.copytree(root / old, root / new, symlinks=True, copy_function=_copy_any)
        shutil.rmtree(root / old)


def _copy_any(old: str, new: str) -> None:
    if stat.S_ISFIFO(os.lstat(old).st_mode):
        os.mkfifo(new)
        shutil.copystat(old, new)
    else:
        shutil.copy2(old, new)


def _delete(root: Path, path: str) -> None:
    if (root / path).is_dir() and not (root / path).is_symlink():
        shutil.rmtree(root / path)
    else:
        (root / path).unlink()


def _chmod(root: Path, path: str, mode: int) -> None:
    if not (root / path).is_symlink():
        (root / path).chmod(mode)


_OPERATIONS: dict[str, Callable[..., None]] = {
    "write": _write,
    "append": _append,
    "rename": _rename,
    "delete": _delete,
    "mkdir": lambda root, path: (root / path).mkdir(),
    "chmod": _chmod,
    "symlink": lambda root, target, path: (root / path).symlink_to(target),
    "link": lambda root, old, new: os.link(root / old, root / new, follow_symlinks=False),
    "fifo": lambda root, path: os.mkfifo(root / path),
    "touch": lambda root, path: os.utime(root / path, (1, 1), follow_symlinks=False),
}


def seen(root: Path, *, users: bool) -> object:
    """A snapshot by a process that may read everything, as the root of a user namespace may."""

    def look() -> None:
        enter_namespaces(own_users=users)
        file.write_text(json.dumps(snapshot(root)))

    file = root.parent / "snapshot.json"
    problem = in_child(look)
    assert not problem, problem
    return json.loads(file.read_text())


def snapshot(root: Path) -> dict[str, object]:
    """Everything below a directory: kinds, modes, contents, and which names are one file."""
    found, names = dict[str, object](), dict[int, list[str]]()
    for directory, directories, files in os.walk(root):
        for name in [*directories, *files]:
            path = Path(directory) / name
            relative, status = str(path.relative_to(root)), path.lstat()
            row: list[object] = [oct(status.st_mode), status.st_uid]
            if stat.S_ISREG(status.st_mode):
                row.append(path.read_bytes().decode("latin-1"))
                row.append([name for name in os.listxattr(path) if "overlay" in name])
                names.setdefault(status.st_ino, []).append(relative)
            elif stat.S_ISLNK(status.st_mode):
                row.append(str(path.readlink()))
            elif stat.S_ISDIR(status.st_mode):
                row.append([name for name in os.listxattr(path) if "overlay" in name])
            found[relative] = row
    links = sorted(sorted(group) for group in names.values() if len(group) > 1)
    return {"entries": dict(sorted(found.items())), "links": links}


def story(
    place: Path, tree: list[Operation], operations: list[Operation], *, users: bool
) -> object:
    """The same operations outside and on trial; then apply, and undo."""
    for name in ("outside", "workspace"):
        (place / name).mkdir()
        perform(place / name, tree)
    before = seen(place / "workspace", users=users)
    started = file_clock(place)
    problem = on_trial(place, lambda root: perform(root, operations), users=users)
    if problem:
        return {"problem": problem}
    in_child(lambda: _outside(place / "outside", operations, users=users))
    untouched = seen(place / "workspace", users=users)
    changes = read_change_set(
        place / "workspace", place / "upper", started_ns=started, userxattr=users
    )
    (place / "undo").mkdir()
    applied = apply_changes(changes, undo_dir=place / "undo")
    after = seen(place / "workspace", users=users)
    undo(place / "undo")
    return {
        "before": before,
        "untouched": untouched,
        "outside": seen(place / "outside", users=users),
        "after": after,
        "undone": seen(place / "workspace", users=users),
        "left": sorted(path.name for path in (place / "undo").iterdir() if path.name != "lock"),
        "summary": changes.summary(),
        "paths": list(applied.paths),
    }


def _outside(root: Path, operations: list[Operation], *, users: bool) -> None:
    enter_namespaces(own_users=users)
    perform(root, operations)


def main() -> None:
    """Answer stories until the input ends."""
    folder, uid, users = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "users"
    become(uid)
    os.umask(0o022)
    for line in sys.stdin:
        asked = json.loads(line)
        place = Path(tempfile.mkdtemp(dir=folder))
        try:
            answer = story(place, asked["tree"], asked["operations"], users=users)
        except (TrialError, OSError) as error:
            answer = {"problem": repr(error)}
        remove_tree(place)
        print(json.dumps(answer), flush=True)  # noqa: T201  the answer


if __name__ == "__main__":
    main()
