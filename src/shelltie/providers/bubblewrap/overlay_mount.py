"""Mounts overlayfs in a mount namespace of its own, then execs a program: a process of its own.

    overlay_mount.py [LOWER DEVICE:INODE UPPER WORK TARGET]… -- PROGRAM…
    overlay_mount.py enter BWRAP FILTER LOWER DEVICE:INODE UPPER WORK TARGET -- PROGRAM…

The first form is for a sandbox that is yet to be made. The second enters the living one of the
process BWRAP (setns), where its program alone sees the overlay, and is as confined as all others
there. Linux lets an ordinary user do this since 5.11, in a user namespace. What it says on stderr
begins with `overlay: `. Where the keeper is the program in C, that enters (keeper/enter.c).
"""

import ctypes
import errno
import fcntl
import os
import struct
import sys

_NEW_MOUNTS, _NEW_USERS, _NEW_PIDS = 0x00020000, 0x10000000, 0x20000000
_SHARED_BY_ALL = (("net", 0x40000000), ("ipc", 0x08000000), ("uts", 0x04000000))
_OWNER = 0xB701  # NS_GET_USERNS
_PRIVATE_BELOW = 0x40000 | 0x4000
_FSOPEN, _FSCONFIG, _FSMOUNT, _MOVE_MOUNT = 430, 431, 432, 429  # the same on every machine
_FLAG, _TEXT, _CREATE = 0, 1, 6
_CLOSE_ON_EXEC = 1
_NO_SET_UID, _NO_DEVICES = 0x2, 0x4
_BY_DESCRIPTORS = 0x4 | 0x40
_AT_DEATH_OF_PARENT, _FILTER_CALLS, _DROP_RIGHT, _NO_NEW_RIGHTS, _AMBIENT = 1, 22, 24, 38, 47
_RIGHTS = struct.pack("=II", 0x20080522, 0), bytes(24)  # none, of this process
_SIGKILL = 9
_WORDS = 5  # for each overlay
_libc = ctypes.CDLL(None, use_errno=True)


def main(words: list[str]) -> None:
    """Mount everything, then become the program."""
    end = words.index("--")
    program = words[end + 1 :]
    if words[0] == "enter":
        enter(words[1], int(words[2]), words[3:end], program)
        return
    enter_namespaces()
    for at in range(0, end, _WORDS):
        *what, target = words[at : at + _WORDS]
        put(detached_overlay(*what), os.open(target, os.O_PATH | os.O_NOFOLLOW))
    os.execv(program[0], program)  # noqa: S606  that is what it is for


def enter_namespaces() -> None:
    """Mounts that nobody else sees. Root needs no user namespace, unless it is a tame one."""
    user, group = os.geteuid(), os.getegid()
    if user != 0 or _libc.unshare(_NEW_MOUNTS) != 0:
        _check(_libc.unshare(_NEW_MOUNTS | _NEW_USERS), "unshare")
        _write("setgroups", "deny")
        _write("uid_map", f"{user} {user} 1")
        _write("gid_map", f"{group} {group} 1")
    _check(_libc.mount(b"none", b"/", None, _PRIVATE_BELOW, None), "mounts of one's own")


def detached_overlay(lower: str, identity: str, upper: str, work: str) -> int:
    """A mount that is nowhere yet, if the lower directory is still the one that was looked at.

    By descriptors: no character in a name means anything to the kernel then. They are opened here,
    as those of another mount namespace are refused.
    """
    opened = [os.open(path, os.O_PATH | os.O_NOFOLLOW) for path in (lower, upper, work)]
    if _identity(opened[0]) != identity:
        sys.exit(f"overlay: {lower} is not the directory any more that was looked at")
    made = _call(_FSOPEN, b"overlay", _CLOSE_ON_EXEC)
    for name, one in zip((b"lowerdir", b"upperdir", b"workdir"), opened, strict=True):
        _call(_FSCONFIG, made, _TEXT, name, b"/proc/self/fd/%d" % one, 0)
    # userxattr: what it notes can be read by the user whose files they are. volatile: nothing is
    # mounted again, so that the end of it need not wait for the disk.
    for flag in (b"userxattr", b"volatile"):
        _call(_FSCONFIG, made, _FLAG, flag, None, 0)
    _call(_FSCONFIG, made, _CREATE, None, None, 0)
    mount = _call(_FSMOUNT, made, _CLOSE_ON_EXEC, _NO_SET_UID | _NO_DEVICES)
    for one in (made, *opened):
        os.close(one)
    return mount


def put(mount: int, place: int) -> None:
    """Have a detached mount at a directory that is open."""
    _call(_MOVE_MOUNT, mount, b"", place, b"", _BY_DESCRIPTORS)
    os.close(mount)
    os.close(place)


def enter(bwrap: str, filtered: int, overlay: list[str], program: list[str]) -> None:
    """Run a program in the sandbox of that bwrap, in a mount namespace with the overlay, without
    any right; wait for its end.

    Who is already in there sees nothing of us before all rights are gone: until the fork at the end
    this process is in no pid namespace of theirs, and from setns() to exec the kernel lets nobody
    look into it.
    """
    spaces = _namespaces_of(bwrap)
    own = os.open("/proc/self", os.O_PATH)  # there it is another's /proc
    owner = fcntl.ioctl(spaces["mnt"], _OWNER)
    is_root = os.geteuid() == 0
    if not is_root:  # in the namespace that owns the others one has the rights to join them
        _join(owner, _NEW_USERS)
    _check(_libc.unshare(_NEW_MOUNTS), "unshare")
    _check(_libc.mount(b"none", b"/", None, _PRIVATE_BELOW, None), "mounts of one's own")
    *what, target = overlay
    mount = detached_overlay(*what)
    for name, kind in (*_SHARED_BY_ALL, ("cgroup", 0x02000000), ("pid", _NEW_PIDS)):
        _join(spaces[name], kind)
    _join(spaces["mnt"], _NEW_MOUNTS)
    _check(_libc.unshare(_NEW_MOUNTS), "unshare")
    _check(_libc.mount(b"none", b"/", None, _PRIVATE_BELOW, None), "mounts of one's own")
    place = os.open(target, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY)
    if _identity(place) != what[1]:
        sys.exit(f"overlay: {target} is another directory in its sandbox")
    put(mount, place)
    name = os.readlink("ns/mnt", dir_fd=own)
    if is_root or os.fstat(owner).st_ino != os.fstat(spaces["user"]).st_ino:
        _join(spaces["user"], _NEW_USERS)
    for one in (own, owner, *spaces.values()):
        os.close(one)
    _give_up_rights()
    _become(filtered, name, program)


def _namespaces_of(bwrap: str) -> dict[str, int]:
    """Those of the first process of a sandbox, all open."""
    names = ("mnt", "user", "net", "ipc", "uts", "cgroup", "pid")
    try:
        first = _child_of(bwrap)
        opened = {name: os.open(f"/proc/{first}/ns/{name}", os.O_RDONLY) for name in names}
        user = _user_of(first)
        still = _child_of(bwrap)
    except (FileNotFoundError, ProcessLookupError):
        sys.exit("overlay: its sandbox has just ended")
    if still != first:  # the number may be another's by now
        sys.exit("overlay: its sandbox has just ended")
    if user != _user_of("self"):  # a bwrap of somebody's may have become another
        sys.exit("overlay: its sandbox is another user's")
    return opened


def _user_of(pid: str) -> list[str]:
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:  # noqa: PTH123  as below
        return [line for line in file if line.startswith(("Uid:", "Gid:"))]


def _child_of(pid: str) -> str:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:  # noqa: PTH123  no package
        return file.read().strip()


def _give_up_rights() -> None:
    """As `bwrap --cap-drop ALL` does, for root, too."""
    for number in range(64):
        if _libc.prctl(_DROP_RIGHT, number, 0, 0, 0) != 0:
            break
    _check(_libc.prctl(_AMBIENT, 4, 0, 0, 0), "ambient rights")
    _check(_libc.capset(*_RIGHTS), "rights")
    _check(_libc.prctl(_NO_NEW_RIGHTS, 1, 0, 0, 0), "no new rights")


def _become(filtered: int, name: str, program: list[str]) -> None:
    """Start the program, in the pid namespace that was joined; this process only waits for it. Who
    waits for us may send its command as soon as it has read the name of our mount namespace.
    """
    child = os.fork()
    if child == 0:
        _check(_libc.prctl(_AT_DEATH_OF_PARENT, _SIGKILL, 0, 0, 0), "parent")
        os.chdir("/")
        _filter_calls(filtered)
        sys.stderr.write(f"{name}\n")
        sys.stderr.flush()
        os.execv(program[0], program)  # noqa: S606  that is what it is for
    os.closerange(3, 1 << 16)
    os.waitpid(child, 0)


def _filter_calls(descriptor: int) -> None:
    """Load a seccomp filter; with -1 there is none for this machine."""
    if descriptor < 0:
        return
    content = os.pread(descriptor, 1 << 16, 0)
    os.close(descriptor)
    instructions = ctypes.create_string_buffer(content, len(content))
    program = struct.pack("@HP", len(content) // 8, ctypes.addressof(instructions))
    _check(_libc.prctl(_FILTER_CALLS, 2, program, 0, 0), "filter of system calls")


def _identity(descriptor: int) -> str:
    found = os.fstat(descriptor)
    return f"{found.st_dev}:{found.st_ino}"


def _join(space: int, kind: int) -> None:
    _check(_libc.setns(space, kind), "setns")


def _write(name: str, content: str) -> None:
    try:
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123  no package
            file.write(content)
    except OSError as error:
        sys.exit(f"overlay: setting up uid map: {error.strerror}")


def _call(number: int, *arguments: object) -> int:
    """A system call about mounts, which the library of C need not know."""
    answer = int(_libc.syscall(number, *arguments))
    _check(min(answer, 0), "mount")
    return answer


def _check(answer: int, what: str) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        name = errno.errorcode.get(number, number)
        sys.exit(f"overlay: {what}: {name}: {os.strerror(number)}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.exit(f"overlay: {error}")
