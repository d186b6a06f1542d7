"""The filter of system calls, run here as the kernel runs it."""

import struct

import pytest

from shelltie.providers.bubblewrap.seccomp import barred

X86_64, I386, ARM64, X32 = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000000
O_CREAT, O_TMPFILE = 0o100, 0o20200000
ALLOW = 0x7FFF0000
AF_UNIX, AF_INET = 1, 2


def verdict(machine: str, arch: int, call: int, *arguments: int, sockets: bool = False) -> int:
    """What the kernel would be told about this call: ALLOW, or an errno."""
    program = barred(machine, sockets=sockets)
    assert program is not None
    six = (*arguments, *(0,) * (6 - len(arguments)))
    data = struct.pack("=IIQ6Q", call, arch, 0, *six)
    loaded, at = 0, 0
    instructions = list(struct.iter_unpack("=HBBI", program))
    while True:
        code, yes, no, value = instructions[at]
        at += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("=I", data, value)
            case 0x15:
                at += yes if loaded == value else no
            case 0x35:
                at += yes if loaded >= value else no
            case 0x45:
                at += yes if loaded & value else no
            case 0x06:
                return ALLOW if value == ALLOW else value & 0xFFFF
            case _:
                raise AssertionError(code)


@pytest.mark.parametrize(
    ("machine", "arch", "call", "place"),
    [
        *(("x86_64", X86_64, call, 1) for call in (90, 91, 85, 133)),  # chmod, fchmod, creat, mknod
        *(("x86_64", X86_64, call, 2) for call in (268, 452, 259)),  # fchmodat, fchmodat2, mknodat
        *(("x86_64", I386, call, 1) for call in (15, 94, 8, 14)),
        *(("x86_64", I386, call, 2) for call in (306, 452, 297)),
        *(("aarch64", ARM64, call, place) for call, place in ((52, 1), (53, 2), (452, 2), (33, 2))),
    ],
)
def test_no_mode_has_set_uid_or_set_gid(machine: str, arch: int, call: int, place: int) -> None:
    def with_mode(mode: int) -> int:
        return verdict(machine, arch, call, *(0,) * place, mode)

    assert [with_mode(mode) for mode in (0o4755, 0o2755, 0o6000)] == [1, 1, 1]
    assert with_mode(0o1777) == ALLOW


@pytest.mark.parametrize(
    ("machine", "arch", "call", "place"),
    [
        *(("x86_64", X86_64, 2, 2), ("x86_64", X86_64, 257, 3), ("x86_64", I386, 5, 2)),
        *(("x86_64", I386, 295, 3), ("aarch64", ARM64, 56, 3)),
    ],
)
@pytest.mark.parametrize("flags", [O_CREAT, O_TMPFILE])
def test_what_is_made_by_opening_it_has_neither(
    machine: str, arch: int, call: int, place: int, flags: int
) -> None:
    before = (0,) * (place - 1)

    assert verdict(machine, arch, call, *before, flags, 0o4755) == 1
    assert verdict(machine, arch, call, *before, flags, 0o755) == ALLOW
    assert verdict(machine, arch, call, *before, 0, 0o4755) == ALLOW  # there it means nothing


@pytest.mark.parametrize(
    ("machine", "arch"), [("x86_64", X86_64), ("x86_64", I386), ("aarch64", ARM64)]
)
@pytest.mark.parametrize("call", [437, 425])
def test_calls_whose_mode_is_in_memory_are_not_there(machine: str, arch: int, call: int) -> None:
    """openat2(2), and io_uring_setup(2), by which anything can be asked for."""
    assert verdict(machine, arch, call) == 38


@pytest.mark.parametrize("call", [0, 90, 257, 512])
def test_the_second_set_of_calls_of_x86_64_is_not_there(call: int) -> None:
    assert verdict("x86_64", X86_64, X32 + call, 0, 0o4755) == 38


@pytest.mark.parametrize(
    ("machine", "arch"), [("x86_64", ARM64), ("aarch64", X86_64), ("aarch64", I386)]
)
def test_calls_of_a_foreign_architecture_are_not_there(machine: str, arch: int) -> None:
    assert verdict(machine, arch, 0) == 38


@pytest.mark.parametrize(
    ("machine", "arch", "call"), [("x86_64", X86_64, 41), ("aarch64", ARM64, 198)]
)
def test_only_where_it_is_wanted_there_is_no_way_to_the_network(
    machine: str, arch: int, call: int
) -> None:
    assert verdict(machine, arch, call, AF_INET, sockets=True) == 13
    assert verdict(machine, arch, call, AF_UNIX, sockets=True) == ALLOW
    assert verdict(machine, arch, call, AF_INET, sockets=False) == ALLOW


_VSOCK, _ALG, _NETLINK, _INET6 = 40, 38, 16, 10


@pytest.mark.parametrize(
    ("machine", "arch", "call"),
    [("x86_64", X86_64, 41), ("x86_64", I386, 359), ("aarch64", ARM64, 198)],
)
def test_only_ordinary_sockets_can_be_made(machine: str, arch: int, call: int) -> None:
    allowed = [verdict(machine, arch, call, one) for one in (AF_UNIX, AF_INET, _INET6, _NETLINK)]

    assert allowed == [ALLOW] * 4
    assert [verdict(machine, arch, call, one) for one in (_VSOCK, _ALG, 0, 17)] == [97] * 4


def test_the_second_name_of_socket_whose_family_cannot_be_seen_is_not_there() -> None:
    assert verdict("x86_64", I386, 102, 1) == 38
    assert verdict("x86_64", I386, 102, 3) == ALLOW


@pytest.mark.parametrize(
    ("machine", "arch", "keyrings", "kernel"),
    [
        ("x86_64", X86_64, (248, 249, 250), (298, 321, 323)),
        ("x86_64", I386, (286, 287, 288), (336, 357, 374)),
        ("aarch64", ARM64, (217, 218, 219), (241, 280, 282)),
    ],
)
def test_keyrings_are_not_there_nor_what_looks_into_the_kernel(
    machine: str, arch: int, keyrings: tuple[int, ...], kernel: tuple[int, ...]
) -> None:
    assert [verdict(machine, arch, call) for call in keyrings] == [38] * 3
    assert [verdict(machine, arch, call) for call in kernel] == [1] * 3


def test_a_machine_we_do_not_know_has_no_filter() -> None:
    assert barred("vax", sockets=True) is None
