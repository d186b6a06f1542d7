"""A fork server: what it forks has shelltie imported already, and is a child of whoever started it.

A forked process has the words, variables, descriptors, directory, umask and session it was ordered
with, and /proc shows them.
"""

import atexit
import ctypes
import errno
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path

import shelltie
from shelltie.approval import question
from shelltie.basics.ids import ShortIds

HEADER = struct.Struct("=I")  # how long an order is; and the answer: a pid
MOST_FDS = 64
_ABOVE_ALL = 500  # nobody passes a descriptor with such a number
_PR_SET_MM, _PR_SET_MM_MAP, _PR_SET_MM_MAP_SIZE, _PR_GET_TID_ADDRESS = 35, 14, 15, 40
_CLONE_PARENT, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
_SYS_CLONE3 = 435
# Each needs a package that is optional.
_OPTIONAL = (
    "shelltie.adapters.",
    "shelltie.providers.places.kubernetes.",
    "shelltie.providers.places.ray.",
)
# It runs when it is imported; and no program of ours imports the SDK of ACP.
_NOT_IMPORTED = ("shelltie.__main__", "shelltie.frontends.acp.sdk_client")
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.sbrk.restype = ctypes.c_void_p


@dataclass
class Order:
    """What is to be started, and how."""

    words: list[str]
    env: dict[str, str]
    cwd: str
    umask: int
    new_session: bool
    fds: list[int]  # the numbers that those which come along shall have


def is_supported() -> bool:
    """Whether this kernel has what it takes; a sandbox may refuse it."""
    if sys.platform != "linux":
        return False
    where, size = ctypes.c_void_p(), ctypes.c_uint()
    _libc.syscall(_SYS_CLONE3, None, ctypes.c_size_t(0))
    return (
        ctypes.get_errno() == errno.EINVAL
        and _libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(where), 0, 0, 0) == 0
        and _libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP_SIZE, ctypes.byref(size), 0, 0) == 0
    )


def main() -> None:
    link = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for those who are forked
    _import_all()
    ordered = _serve(link)
    if ordered is not None:
        _become(*ordered)


def _import_all() -> None:
    for module in pkgutil.walk_packages(shelltie.__path__, "shelltie."):
        if module.name not in _NOT_IMPORTED and not module.name.startswith(_OPTIONAL):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def _serve(link: socket.socket) -> tuple[Order, list[int]] | None:
    """Fork until nobody orders any more; in what was forked: its order and its descriptors."""
    while True:
        head, fds, _, _ = socket.recv_fds(link, HEADER.size, MOST_FDS)
        if not head:
            return None
        (size,) = HEADER.unpack(head)
        order = Order(**json.loads(_read(link, size)))
        pid = _fork_sibling()
        if pid == 0:
            link.close()
            return order, list(fds)
        for fd in fds:
            os.close(fd)
        link.sendall(HEADER.pack(pid))


def _read(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += link.recv(size - len(data))
    return data


def _fork_sibling() -> int:
    """As os.fork(), but the parent is ours. The C library remembers the thread's id, too."""
    remembered = ctypes.c_void_p()
    if _libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(remembered), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_GET_TID_ADDRESS")
    flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID
    arguments = struct.pack("=8Q", flags, 0, remembered.value, 0, 0, 0, 0, 0)
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = int(_libc.syscall(_SYS_CLONE3, arguments, ctypes.c_size_t(len(arguments))))
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone3")
    return pid


def _become(order: Order, fds: Sequence[int]) -> None:
    if order.new_session:
        os.setsid()
    high = [fcntl(fd, F_DUPFD_CLOEXEC, _ABOVE_ALL) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(high, order.fds, strict=True):
        os.dup2(fd, number)
        os.close(fd)
    os.chdir(order.cwd)
    os.umask(order.umask)
    os.environ.clear()
    os.environ.update(order.env)
    time.tzset()
    vars(question._IDS).update(vars(ShortIds()))  # by chance when it is imported: once for all
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _open_streams()
    run(order.words)


def _open_streams() -> None:
    """As Python does when it starts: whether a line is written at once depends on a terminal."""
    encoding = sys.stdout.encoding
    sys.stdin = sys.__stdin__ = open(0, encoding=encoding, newline="\n", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding=encoding, newline="\n", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(  # type: ignore[misc]  # noqa: SIM115
        2, "w", 1, encoding, "backslashreplace", "\n", closefd=False
    )


def run(words: Sequence[str]) -> None:
    """Be `python -m MODULE …`, from here on."""
    _show_in_proc(words)
    _, _, module, *arguments = sys.orig_argv = list(words)
    sys.argv = [module, *arguments]
    sys.path[0] = str(Path.cwd())
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as leaving:
        if isinstance(leaving.code, int):
            _leave(leaving.code)
        raise


def _leave(code: int) -> None:
    """As Python ends, but nobody takes apart every module of shelltie, which takes 70 ms."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _show_in_proc(words: Sequence[str]) -> None:
    """/proc has the words and variables of an execve; they are wherever the kernel is told."""
    cmdline = b"".join(os.fsencode(word) + b"\0" for word in words)
    environ = b"".join(b"%b=%b\0" % one for one in os.environb.items())
    shown = ctypes.create_string_buffer(cmdline + environ)
    fields = [
        int(one) for one in Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[1:]
    ]
    start_code, end_code, start_stack = fields[22:25]
    start_data, end_data, start_brk = fields[41:44]
    at = ctypes.addressof(shown)
    middle, end = at + len(cmdline), at + len(cmdline) + len(environ)
    code = (start_code, end_code, start_data, end_data, start_brk, _libc.sbrk(0), start_stack)
    layout = struct.pack("=12QIi", *code, at, middle, middle, end, 0, 0, -1)
    if _libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, layout, ctypes.c_size_t(len(layout)), 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_MM_MAP")
    _kept.append(shown)


_kept: "list[ctypes.Array[ctypes.c_char]]" = []

if __name__ == "__main__":
    main()
