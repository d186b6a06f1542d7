"""Mounts overlayfs in a mount namespace of its own, then execs a program: a process of its own.

    overlay_mount.py [LOWER DEVICE:INODE UPPER WORK TARGET]… -- PROGRAM…

Linux lets an ordinary user do this since 5.11, in a user namespace. What it says on stderr begins
with `overlay: `.
"""

import ctypes
import errno
import os
import sys

_NEW_MOUNTS, _NEW_USERS = 0x00020000, 0x10000000
_NO_SET_UID, _NO_DEVICES = 0x2, 0x4
_PRIVATE_BELOW = 0x40000 | 0x4000
_WORDS = 5  # for each overlay
_libc = ctypes.CDLL(None, use_errno=True)


def main(words: list[str]) -> None:
    """Mount everything, then become the program."""
    end = words.index("--")
    enter_namespaces()
    for at in range(0, end, _WORDS):
        mount_overlay(*words[at : at + _WORDS])
    program = words[end + 1 :]
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


def mount_overlay(lower: str, identity: str, upper: str, work: str, target: str) -> None:
    """Mount one, if the lower directory is still the one that was looked at.

    By descriptors: no character in a name means anything to the kernel then. They are opened here,
    as those of another mount namespace are refused.
    """
    opened = [os.open(path, os.O_PATH | os.O_NOFOLLOW) for path in (lower, upper, work)]
    seen = os.fstat(opened[0])
    if f"{seen.st_dev}:{seen.st_ino}" != identity:
        sys.exit(f"overlay: {lower} is not the directory any more that was looked at")
    places = [f"/proc/self/fd/{one}" for one in opened]
    # userxattr: what it notes can be read by the user whose files they are. volatile: nothing is
    # mounted again, so that the end of it need not wait for the disk.
    options = "lowerdir={},upperdir={},workdir={},userxattr,volatile".format(*places).encode()
    flags = _NO_SET_UID | _NO_DEVICES
    _check(_libc.mount(b"overlay", os.fsencode(target), b"overlay", flags, options), "mount")
    for one in opened:
        os.close(one)


def _write(name: str, content: str) -> None:
    try:
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123  no package
            file.write(content)
    except OSError as error:
        sys.exit(f"overlay: setting up uid map: {error.strerror}")


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
