"""A filter for the kernel that leaves a program no way to the network, not even to itself. Pure."""

import struct

_INSTRUCTION = struct.Struct("=HBBI")
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_EACCES = 13
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # where seccomp_data has them
_UNIX = 1
# The kernel's name of the machine, and the number of socket(2) there.
_MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}


def no_sockets(machine: str) -> bytes | None:
    """The program: socket(2) is refused but for AF_UNIX. `None` for a machine we do not know.

    Calls of another architecture pass. They find an empty network namespace, as without a filter.
    """
    if machine not in _MACHINES:
        return None
    arch, number = _MACHINES[machine]
    program = (
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 0, 5, arch),
        (_LOAD, 0, 0, _NUMBER),
        (_EQUAL, 0, 3, number),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 1, 0, _UNIX),
        (_RETURN, 0, 0, _REFUSE | _EACCES),
        (_RETURN, 0, 0, _ALLOW),
    )
    return b"".join(_INSTRUCTION.pack(*instruction) for instruction in program)
