"""What scripts/release decides before it gives a wheel its tags."""

import os
import struct
from pathlib import Path

import pytest

from scripts.release import MACHINES, Elf, Machine, problems, read_elf
from shelltie.keeper.binaries import BINARY

X86, ARM = MACHINES


def program(machine: int, segments: tuple[int, ...], sections: tuple[int, ...]) -> bytes:
    """An ELF program that has nothing but headers."""
    at = 64
    sections_at = at + 56 * len(segments)
    header = b"\x7fELF\x02\x01" + bytes(10)
    counts = (len(segments), 64, len(sections), 0)
    header += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, at, sections_at, 0, 64, 56, *counts)
    header += b"".join(struct.pack("<I", kind) + bytes(52) for kind in segments)
    return header + b"".join(struct.pack("<II", 0, kind) + bytes(56) for kind in sections)


def test_one_wheel_is_for_glibc_and_for_musl() -> None:
    assert X86.platforms == "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64"
    assert ARM.platforms == "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64"


@pytest.mark.parametrize(
    ("data", "machine", "says"),
    [
        (program(62, (1,), (1, 3)), X86, []),
        (program(183, (1,), (1, 3)), ARM, []),
        (program(62, (1, 3), (1,)), X86, ["link it statically"]),
        (program(62, (1,), (1, 2)), X86, ["symbols"]),
        (program(183, (1, 3), (2,)), X86, ["not for x86_64", "link it statically", "symbols"]),
    ],
)
def test_a_keeper_that_is_not_what_the_tags_say_is_refused(
    data: bytes, machine: Machine, says: list[str]
) -> None:
    found = [*problems(read_elf(data), machine)]

    assert len(found) == len(says)
    assert all(part in problem for part, problem in zip(says, found, strict=True))


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(ValueError, match="ELF"):
        read_elf(b"#!/bin/sh\n" + bytes(100))


def test_the_header_of_a_real_program_is_understood() -> None:
    if not BINARY.exists():
        pytest.skip("there is no C compiler, so there is no keeper in C")
    if os.uname().machine != X86.name:
        pytest.skip("another kind of machine")

    keeper = read_elf(BINARY.read_bytes())
    python = read_elf(Path("/proc/self/exe").read_bytes())

    assert keeper == Elf(X86.elf, is_static=True, is_stripped=False)  # strip is the release's
    assert (python.machine, python.is_static) == (X86.elf, False)
