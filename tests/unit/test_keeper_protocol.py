from pathlib import Path

import pytest

from shelltie.keeper import protocol, pykeeper
from shelltie.keeper.protocol import (
    BODY_MAX,
    HEADER,
    RUN,
    SHOOT,
    SOCKET,
    Exited,
    Failed,
    Gone,
    LeashWord,
    Noted,
    Signalled,
    Started,
    Stuck,
    parse_swept,
    parse_word,
    run_frame,
    shoot_frame,
)
from shelltie.model import Resources


def test_a_run_frame_has_a_header_and_fields_ended_by_nul() -> None:
    frame = run_frame(
        7, ["ls", "-l"], {"A": "1"}, "/tmp", tty=True, resources=Resources(open_files=64, core=0)
    )

    length, kind = HEADER.unpack_from(frame)
    assert kind == RUN
    assert length == len(frame) - HEADER.size
    assert frame[HEADER.size :] == b"7\0t\0/tmp\0n64 c0\x002\0ls\0-l\0A=1\0"


def test_without_a_terminal_and_limits_these_fields_are_empty() -> None:
    frame = run_frame(1, ["true"], {}, "/", tty=False, resources=Resources())

    assert frame[HEADER.size :] == b"1\0\0/\0\x001\0true\0"


def test_the_directory_that_is_meant_stands_with_the_flags() -> None:
    frame = run_frame(
        1, ["true"], {}, "/", tty=True, resources=Resources(), directory=(66306, 131074)
    )

    assert frame[HEADER.size :].startswith(b"1\0td66306.131074\0/\0")


def test_bytes_that_are_no_text_pass_unchanged() -> None:
    frame = run_frame(1, ["\udcff\udc80", "ü"], {}, "/", tty=False, resources=Resources())

    assert frame.endswith(b"\xff\x80\0\xc3\xbc\0")


def test_every_resource_has_its_letter() -> None:
    resources = Resources(1, 2, 3, 4, 5)

    frame = run_frame(1, ["true"], {}, "/", tty=False, resources=resources)

    assert frame.split(b"\0")[-4] == b"n1 c2 u3 v4 t5"


def test_a_shoot_frame_names_its_leash() -> None:
    assert shoot_frame(12) == HEADER.pack(3, SHOOT) + b"12\0"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b"started 12 11", Started(12, 11)),
        (b"failed exec 2", Failed("exec", 2)),
        (b"signalled 15 3 1", Signalled(15, 3, 1)),
        (b"exited 256 0", Exited(256, 0)),
        (b"stuck 4 5 6", Stuck((4, 5, 6))),
        (b"stuck", Stuck(())),
        (b"gone 2 1500", Gone(2, 1.5)),
    ],
)
def test_every_word_of_a_leash_is_understood(line: bytes, word: LeashWord) -> None:
    assert parse_word(line) == word


@pytest.mark.parametrize(
    "line", [b"", b"hello", b"started 12", b"started x y", b"gone", b"exited 1 2 3", b"\xff"]
)
def test_anything_else_is_no_word(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_word(line)


def test_the_keeper_names_the_leash_it_swept_after() -> None:
    assert parse_swept(b"swept 42") == 42


@pytest.mark.parametrize("line", [b"", b"swept", b"swept x", b"kept 3", b"swept 1 2"])
def test_anything_else_is_nothing_a_keeper_says(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_swept(line)


def test_server_and_keepers_mean_the_same_by_their_numbers() -> None:
    source = Path(protocol.__file__).with_name("keeper.c").read_text(encoding="utf-8")

    numbers = f"RUN = {RUN}, SHOOT = {SHOOT}, SOCKET = {SOCKET}, BODY_MAX = 8 * 1024 * 1024"
    assert (RUN, SHOOT, SOCKET) == (pykeeper.RUN, pykeeper.SHOOT, pykeeper.SOCKET)
    assert f"enum {{ {numbers} }};" in source
    assert BODY_MAX == pykeeper.BODY_MAX
    assert BODY_MAX == 8 * 1024 * 1024


def test_a_note_is_about_nothing_in_particular_unless_it_says_so() -> None:
    assert Noted("careful") == Noted("careful", exhausted="", undone=False)
