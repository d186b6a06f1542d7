"""seccomp BPF filter: no set-uid files, keyrings or unusual sockets. Pure.

What root's commands leave in a workspace belongs to root, so a set-uid file there would be a way
out. The mode is a number in a register, and the kernel can look at it. No namespace holds the
keyrings of a user, nor sockets to a hypervisor (AF_VSOCK).
"""

import struct
from collections.abc import Iterator
from functools import cache

from shelltie.basics.frozen import frozen

_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_EPERM, _EACCES, _ENOSYS, _EAFNOSUPPORT = 1, 13, 38, 97
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # where seccomp_data has them
_UNIX = 1
_ORDINARY = (_UNIX, 2, 10, 16)  # with AF_INET, AF_INET6 and AF_NETLINK
_SET_ID = 0o6000
_CREATES = 0o100 | 0o20000000  # O_CREAT, and O_TMPFILE without the bit of O_DIRECTORY
_X32 = 0x40000000

_Instruction = tuple[int, int, int, int]


@frozen
class _Machine:
    """An architecture: its number, those of its calls, and which argument of each is the mode."""

    number: int
    socket: int
    modes: dict[int, int]
    opens: dict[int, int]  # the flags stand before the mode, which counts only with some of them
    unseen: tuple[int, ...]  # a mode in memory cannot be looked at
    keyrings: tuple[int, ...]  # add_key, request_key, keyctl
    kernel: tuple[
        int, ...
    ]  # perf_event_open, bpf, userfaultfd: not for programs that are not trusted
    sockets: int | None = None  # socketcall, whose first argument is 1 for socket
    other: int | None = None  # from this number on, another set of calls


_X86_64 = _Machine(
    0xC000003E,
    41,
    modes={90: 1, 91: 1, 268: 2, 452: 2, 85: 1, 133: 1, 259: 2},
    opens={2: 2, 257: 3},
    unseen=(437, 425),
    keyrings=(248, 249, 250),
    kernel=(298, 321, 323),
    other=_X32,
)
_ARM64 = _Machine(
    0xC00000B7,
    198,
    modes={52: 1, 53: 2, 452: 2, 33: 2},
    opens={56: 3},
    unseen=(437, 425),
    keyrings=(217, 218, 219),
    kernel=(241, 280, 282),
)
_I386 = _Machine(
    0x40000003,
    359,
    modes={15: 1, 94: 1, 306: 2, 452: 2, 8: 1, 14: 1, 297: 2},
    opens={5: 2, 295: 3},
    unseen=(437, 425),
    keyrings=(286, 287, 288),
    kernel=(336, 357, 374),
    sockets=102,
)
_MACHINES = {"x86_64": (_X86_64, _I386), "aarch64": (_ARM64,)}


@cache
def barred(machine: str, *, sockets: bool) -> bytes | None:
    """The program; with `sockets`, socket(2) is refused but for AF_UNIX.

    `None` for a machine we do not know. Calls of an architecture that is foreign to it are refused.
    For 32-bit programs socket(2) has a second name, whose arguments are in memory: that is refused.
    """
    if machine not in _MACHINES:
        return None
    program: list[_Instruction] = [(_LOAD, 0, 0, _ARCH)]
    for one in _MACHINES[machine]:
        rules = [*_rules(one, sockets=sockets), (_RETURN, 0, 0, _ALLOW)]
        # A jump is one byte, so the rules are reached by one and left by a return.
        program += [(_EQUAL, 0, len(rules), one.number), *rules]
    program.append((_RETURN, 0, 0, _REFUSE | _ENOSYS))
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)


def _rules(machine: _Machine, *, sockets: bool) -> Iterator[_Instruction]:
    yield (_LOAD, 0, 0, _NUMBER)
    if machine.other is not None:
        yield (_AT_LEAST, 0, 1, machine.other)
        yield (_RETURN, 0, 0, _REFUSE | _ENOSYS)
    for call in (*machine.unseen, *machine.keyrings):
        yield from ((_EQUAL, 0, 1, call), (_RETURN, 0, 0, _REFUSE | _ENOSYS))
    for call in machine.kernel:
        yield from ((_EQUAL, 0, 1, call), (_RETURN, 0, 0, _REFUSE | _EPERM))
    for call, place in machine.modes.items():
        yield from _when(call, (*_any_bit(place, _SET_ID, _EPERM),))
    for call, place in machine.opens.items():
        creates = ((_LOAD, 0, 0, _argument(place - 1)), (_ANY_BIT, 1, 0, _CREATES))
        allowed = (_RETURN, 0, 0, _ALLOW)
        yield from _when(call, (*creates, allowed, *_any_bit(place, _SET_ID, _EPERM)))
    families, error = ((_UNIX,), _EACCES) if sockets else (_ORDINARY, _EAFNOSUPPORT)
    yield from _when(machine.socket, (*_first_is(families, _ALLOW, _REFUSE | error),))
    if machine.sockets is not None:
        yield from _when(machine.sockets, (*_first_is((1,), _REFUSE | _ENOSYS, _ALLOW),))


def _first_is(values: tuple[int, ...], then: int, otherwise: int) -> Iterator[_Instruction]:
    """By the first argument: one end if it is among these values, another if not."""
    yield (_LOAD, 0, 0, _argument(0))
    for left, value in enumerate(reversed(values)):
        yield (_EQUAL, len(values) - left, 0, value)
    yield (_RETURN, 0, 0, otherwise)
    yield (_RETURN, 0, 0, then)


def _any_bit(place: int, bits: int, error: int) -> Iterator[_Instruction]:
    yield (_LOAD, 0, 0, _argument(place))
    yield (_ANY_BIT, 0, 1, bits)
    yield (_RETURN, 0, 0, _REFUSE | error)
    yield (_RETURN, 0, 0, _ALLOW)


def _when(call: int, then: tuple[_Instruction, ...]) -> Iterator[_Instruction]:
    """For this call alone; `then` ends with a return, so the number is still loaded after it."""
    yield (_EQUAL, 0, len(then), call)
    yield from then


def _argument(place: int) -> int:
    return _ARGUMENTS + 8 * place
