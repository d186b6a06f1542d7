"""What both keepers that stay promise on their byte stream: authentication, offsets, lease."""

import os
import random
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shelltie.keeper.stream_protocol import (
    HEADER,
    INPUT_MAX,
    VERSION,
    WINDOW,
    FrameReader,
    SaidFrame,
    StreamAsk,
    StreamSay,
    asked,
)
from tests.streams import BOUND, StreamPlace, inner_keeper, stream_place
from tests.tree import new_tag, nobody_left, tagged, until

# It hides in a session of its own, ignores what it can and has lost its parent.
_HIDES = (
    "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM; sleep {0} & sleep {0}' & ) ; sleep {0}"
)


def hiding(tag: str) -> tuple[str, str, str]:
    """A command of whom it is hard to get rid."""
    return "sh", "-c", _HIDES.format(f"300.{tag}")


@pytest.fixture(params=["c", "python"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StreamPlace]:
    """Both keepers that stay."""
    if request.param == "c":
        request.getfixturevalue("current_binary")
    with stream_place(tmp_path / "stay", request.param) as place:
        yield place


def pid_of(place: StreamPlace) -> int:
    return place.connect().hello().said(StreamSay.WELCOME).number(1)


def test_it_outlives_who_started_it_and_says_what_it_holds(place: StreamPlace) -> None:
    first = place.launch().hello()
    first.start("a", "sh", "-c", "echo one; sleep 300")
    first.word("a", "started")
    first.close()

    second = place.connect().hello("free")
    welcome, row = second.said(StreamSay.WELCOME), second.said(StreamSay.ROW)

    assert welcome.number(0) == VERSION
    assert psutil.Process(welcome.number(1)).ppid() != os.getpid()
    assert row.fields[0] == "a"
    assert second.word("a", "started")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (asked(StreamAsk.HELLO, "shelltie-stream", 2, "x", "take"), "version"),
        (asked(StreamAsk.HELLO, "shelltie-stream", 0, "x", "take"), "version"),
        (asked(StreamAsk.HELLO, "shelltie-stream", 1, "x", "take"), "token"),
        (asked(StreamAsk.HELLO, "shelltie-stream", 1, "", "take"), "token"),
        (asked(StreamAsk.HELLO, "another", 1, "x", "take"), "garbage"),
        (asked(StreamAsk.HELLO, "shelltie-stream", 1, "x"), "garbage"),
        (asked(StreamAsk.HELLO), "garbage"),
        (asked(StreamAsk.HELLO, data=b"no end"), "garbage"),
        (asked(StreamAsk.PING, "x"), "garbage"),
        (asked(StreamAsk.FINISH), "garbage"),
        (HEADER.pack(5000, StreamAsk.HELLO), "oversize"),
        (HEADER.pack(2**32 - 1, 2**32 - 1), "oversize"),
        (b"GET / HTTP/1.1\r\n\r\n", "oversize"),
    ],
)
def test_who_does_not_greet_as_it_should_is_told_and_holds_nothing(
    place: StreamPlace, frame: bytes, code: str
) -> None:
    holder = place.launch().hello()
    holder.said(StreamSay.WELCOME)
    stranger = place.connect()

    stranger.send(frame)

    assert stranger.error() == code
    holder.ask(StreamAsk.PING, "still")
    assert holder.said(StreamSay.PONG).fields == ("still",)


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (asked(StreamAsk.HELLO, "shelltie-stream", 1, "x", "take"), "garbage"),
        (HEADER.pack(0, 0), "garbage"),
        (HEADER.pack(0, 99), "garbage"),
        (HEADER.pack(129 * 1024, StreamAsk.INPUT), "oversize"),
        (HEADER.pack(9 * 1024 * 1024, StreamAsk.START), "oversize"),
        (asked(StreamAsk.START, "a"), "garbage"),
        (
            asked(StreamAsk.START, "../x", 0, 0, BOUND, "", 1, 1, data=b"\0\0\0001\0true\0"),
            "garbage",
        ),
        (asked(StreamAsk.START, "b", 0, 0, 1, "", 1, 1, data=b"\0\0\0001\0true\0"), "garbage"),
        (asked(StreamAsk.START, "b", 0, 0, BOUND, "", 1, 1, data=b"no end"), "garbage"),
        (asked(StreamAsk.START, "b", "x", 0, BOUND, "", 1, 1, data=b"\0"), "garbage"),
        (asked(StreamAsk.FOLLOW, "a", 1, 10**17), "garbage"),
        (asked(StreamAsk.FOLLOW, "a", 3, 0), "garbage"),
        (asked(StreamAsk.FOLLOW, "a", 1, "-1"), "garbage"),
        (asked(StreamAsk.ACK, "a", 1, 10**17), "garbage"),
        (asked(StreamAsk.INPUT, "a", 7, data=b"x"), "garbage"),
        (asked(StreamAsk.INPUT, "a", 0, data=b"x" * (INPUT_MAX + 1)), "window"),
        (asked(StreamAsk.SIGNAL, "a", 0), "garbage"),
        (asked(StreamAsk.SIGNAL, "a", 999), "garbage"),
        (asked(StreamAsk.RESIZE, "a", 1, 70000), "garbage"),
        (asked(StreamAsk.FORGET, "a"), "garbage"),
        (asked(StreamAsk.PING, "x" * 65), "garbage"),
        (asked(StreamAsk.PING), "garbage"),
        (asked(StreamAsk.FOLLOW), "garbage"),
    ],
)
def test_garbage_ends_its_connection_alone(place: StreamPlace, frame: bytes, code: str) -> None:
    bad = place.launch().hello()
    bad.start("a", "cat", streams="oi")
    bad.word("a", "started")

    bad.send(frame)

    assert bad.error() == code
    good = place.connect().hello("free")
    assert good.said(StreamSay.WELCOME).number(3) == 1
    good.ask(StreamAsk.SIGNAL, "a", 9)
    assert good.word("a", "gone")


def test_half_a_frame_harms_nobody(place: StreamPlace) -> None:
    holder = place.launch().hello()
    halves = [place.connect() for _ in range(3)]
    for half in halves:
        half.send(asked(StreamAsk.HELLO, "shelltie-stream", 1, half.token, "take")[:-3])
    holder.said(StreamSay.WELCOME)
    frame = asked(StreamAsk.PING, "slowly")
    for byte in frame:
        holder.send(bytes([byte]))

    assert holder.said(StreamSay.PONG).fields == ("slowly",)

    halves[0].close()
    halves[1].send(b"ke\0")  # the rest of its greeting
    assert halves[1].said(StreamSay.WELCOME)


def test_random_bytes_end_their_connection_alone(place: StreamPlace) -> None:
    place.launch().hello().said(StreamSay.WELCOME)
    chance = random.Random(19)
    for number in range(150):
        peer = place.connect()
        if number % 2:
            peer.hello()
        kind = chance.randrange(18)
        body = chance.randbytes(chance.randrange(60))
        if number % 3:
            words = (
                chance.choice((b"a", b"1", b"", b"\xff", b"99999999999999999999")) for _ in "123"
            )
            body = b"\0".join(words) + b"\0" * chance.randrange(2) + body[:3]
        if kind == StreamAsk.FINISH:
            continue
        with suppress(BrokenPipeError, ConnectionResetError):  # if it was refused before
            peer.send(HEADER.pack(len(body), kind) + body + chance.randbytes(chance.randrange(30)))
        peer.close()

    last = place.connect().hello()

    assert last.said(StreamSay.WELCOME).number(3) == 0


def test_a_start_that_is_repeated_starts_nothing_twice(place: StreamPlace, tmp_path: Path) -> None:
    first = place.launch().hello()
    command = ("sh", "-c", f"echo here >> {tmp_path}/count; echo; sleep 300")
    first.start("a", *command)
    first.start("a", *command)
    first.word("a", "started")
    first.close()
    second = place.connect().hello()
    second.start("a", *command)
    second.ask(StreamAsk.FOLLOW, "a", 1, 0)
    second.said(StreamSay.OUTPUT)
    second.ask(StreamAsk.SIGNAL, "a", 9)

    second.word("a", "gone")

    assert (tmp_path / "count").read_text() == "here\n"
    assert second.said(StreamSay.WELCOME).number(3) == 1


def test_every_byte_is_read_once_by_whoever_comes_back(place: StreamPlace) -> None:
    count = 4000
    script = f"i=0; while [ $i -lt {count} ]; do echo line $i; i=$((i+1)); done"
    expected = b"".join(b"line %d\n" % i for i in range(count))
    peer = place.launch().hello()
    peer.start("a", "sh", "-c", script, bound=1024 * 1024)
    got = b""

    while len(got) < len(expected):
        peer.ask(StreamAsk.FOLLOW, "a", 1, len(got))
        frame = peer.said(StreamSay.OUTPUT)
        assert frame.number(2) == len(got)
        got += frame.data[:3000]  # the rest was on its way when the link broke
        peer.close()
        peer = place.connect().hello()
        peer.said(StreamSay.ROW)

    assert got == expected
    assert peer.word("a", "exited") == "exited 0 0"
    assert peer.read_all("a", len(got)) == (len(got), b"")


def test_what_fell_out_of_the_bound_is_counted(place: StreamPlace) -> None:
    peer = place.launch().hello()
    script = "i=0; while [ $i -lt 30000 ]; do echo $i; i=$((i+1)); done"
    whole = b"".join(b"%d\n" % i for i in range(30000))
    peer.start("a", "sh", "-c", script)
    peer.word("a", "gone")

    first, got = peer.read_all("a")

    assert first == len(whole) - BOUND
    assert got == whole[-BOUND:]
    assert (place.folder.place / "k" / "a.1").stat().st_size == BOUND


def test_who_follows_a_flood_loses_nothing_and_holds_up_nobody(place: StreamPlace) -> None:
    peer = place.launch().hello()
    memory = psutil.Process(peer.said(StreamSay.WELCOME).number(1)).memory_info().rss
    peer.start("flood", "sh", "-c", "yes | head -c 5000000")
    peer.ask(StreamAsk.FOLLOW, "flood", 1, 0)
    peer.said(StreamSay.OUTPUT, "flood")
    peer.start("quick", "echo", "hello")
    peer.ask(StreamAsk.FOLLOW, "quick", 1, 0)

    assert peer.said(StreamSay.OUTPUT, "quick").data == b"hello\n"

    sent = sum(len(one.data) for one in peer.frames if one.fields[0] == "flood")
    assert sent <= WINDOW
    pid = peer.said(StreamSay.WELCOME).number(1)
    assert psutil.Process(pid).memory_info().rss < memory + 8 * 1024 * 1024
    first, got = peer.read_all("flood")
    assert (first, len(got)) == (0, 5000000)


def test_who_asks_and_does_not_read_is_dropped(place: StreamPlace) -> None:
    peer = place.launch().hello()
    pid = peer.said(StreamSay.WELCOME).number(1)
    frame = asked(StreamAsk.PING, "x" * 60) * 500
    peer.channel.settimeout(1)

    with suppress(OSError):  # dropped, or nothing more is taken
        for _ in range(2000):
            peer.send(frame)

    assert place.connect().hello().said(StreamSay.WELCOME).number(1) == pid
    assert psutil.Process(pid).memory_info().rss < 64 * 1024 * 1024


def test_the_newer_takes_over_and_the_older_is_told(place: StreamPlace) -> None:
    older = place.launch().hello()
    older.said(StreamSay.WELCOME)

    refused = place.connect().hello("free")
    newer = place.connect().hello("take")

    assert refused.error() == "held"
    assert newer.said(StreamSay.WELCOME)
    assert older.error() == "taken"
    newer.ask(StreamAsk.PING, "x")
    assert newer.said(StreamSay.PONG)


async def test_without_a_word_for_its_length_the_lease_ends_everything(place: StreamPlace) -> None:
    tag = new_tag()
    peer = place.launch(lease=2).hello()
    peer.start("a", *hiding(tag))
    peer.start("b", *hiding(tag), streams="p")

    def all_run() -> bool:
        peer.ask(StreamAsk.PING, "x")  # on a busy machine they take longer than the lease
        return len(tagged(tag, "sleep")) == 6

    await until(all_run)
    peer.close()

    await nobody_left(tag)

    place.gone()


async def test_a_word_renews_the_lease(place: StreamPlace) -> None:
    tag = new_tag()
    peer = place.launch(lease=4).hello()
    peer.start("a", "sleep", f"300.{tag}")
    peer.word("a", "started")

    end = time.monotonic() + 5
    while time.monotonic() < end:
        peer.ask(StreamAsk.PING, "x")
        peer.frames.clear()
        peer.said(StreamSay.PONG)
        time.sleep(0.1)

    assert tagged(tag)


def test_who_comes_when_the_lease_ends_is_let_in_or_told(place: StreamPlace) -> None:
    for delay in (0.25, 0.28, 0.3, 0.31, 0.35):
        peer = place.launch(lease=0.3)
        late = None
        with suppress(OSError):  # if it has ended, and its socket with it
            peer.hello().start("a", "sleep", "300")
            time.sleep(delay)
            late = place.connect().hello()
            while late.receive() and not late.frames:
                pass
        peer.close()
        if late is not None:
            kinds = {one.kind for one in late.frames}
            assert not kinds or kinds & {StreamSay.WELCOME, StreamSay.ERROR}
            late.close()
        place.gone()


async def test_the_total_limit_holds_without_us(place: StreamPlace) -> None:
    tag = new_tag()
    peer = place.launch().hello()
    peer.start("a", *hiding(tag), total=300, grace=200)
    peer.word("a", "started")
    peer.close()

    await nobody_left(tag)

    later = place.connect().hello()
    later.word("a", "gone")
    assert {*later.words("a")} == {"started", "expired", "exited", "gone"}


async def test_a_leash_that_is_killed_leaves_nobody(place: StreamPlace) -> None:
    tag = new_tag()
    peer = place.launch().hello()
    peer.start("a", *hiding(tag))
    leash = int(peer.word("a", "started").split()[2])
    await until(lambda: len(tagged(tag, "sleep")) == 3)

    os.kill(leash, signal.SIGKILL)

    peer.word("a", "gone")
    await nobody_left(tag)
    peer.start("b", "echo", "still")
    assert peer.read_all("b") == (0, b"still\n")


async def test_a_keeper_that_is_killed_leaves_nobody(place: StreamPlace) -> None:
    tag = new_tag()
    peer = place.launch().hello()
    peer.start("a", *hiding(tag))
    await until(lambda: len(tagged(tag, "sleep")) == 3)

    os.kill(peer.said(StreamSay.WELCOME).number(1), signal.SIGKILL)

    await nobody_left(tag)
    with pytest.raises(ConnectionRefusedError):
        place.connect()
    assert place.folder.sweep() == ["k"]
    assert place.folder.names() == []


async def test_the_keeper_below_that_is_killed_leaves_nobody(place: StreamPlace) -> None:
    tag = new_tag()
    peer = place.launch().hello()
    peer.start("a", *hiding(tag))
    await until(lambda: len(tagged(tag, "sleep")) == 3)

    inner_keeper(peer.said(StreamSay.WELCOME).number(1)).kill()

    peer.word("a", "gone")
    assert peer.said(StreamSay.BYE)
    await nobody_left(tag)
    place.gone()


async def test_it_is_told_to_finish_and_proves_it(place: StreamPlace) -> None:
    tag = new_tag()
    peer = place.launch().hello()
    peer.start("a", *hiding(tag), streams="p")
    peer.start("b", "sh", "-c", "echo last words; exec sleep 300")
    peer.ask(StreamAsk.FOLLOW, "b", 1, 0)
    peer.said(StreamSay.OUTPUT, "b")
    await until(lambda: len(tagged(tag, "sleep")) == 3)

    peer.ask(StreamAsk.FINISH)

    assert peer.word("a", "gone")
    assert peer.word("b", "gone")
    assert peer.said(StreamSay.BYE)
    assert not tagged(tag)
    place.gone()


def test_input_comes_once_and_as_fast_as_it_is_read(place: StreamPlace) -> None:
    peer = place.launch().hello()
    peer.start("a", "cat", streams="oi")
    peer.ask(StreamAsk.FOLLOW, "a", 1, 0)
    peer.ask(StreamAsk.INPUT, "a", 0, data=b"hello ")
    peer.said(StreamSay.TAKEN)
    peer.close()
    peer = place.connect().hello()
    assert peer.said(StreamSay.ROW).number(1) == 6

    peer.ask(StreamAsk.INPUT, "a", 0, data=b"hello world\n")  # said again, and more
    peer.ask(StreamAsk.CLOSE, "a", 12)

    assert peer.read_all("a") == (0, b"hello world\n")
    assert peer.word("a", "exited") == "exited 0 0"


def test_a_terminal_is_one_and_can_be_looked_at(place: StreamPlace) -> None:
    peer = place.launch().hello()
    peer.start("a", "sh", "-c", "stty size; stty -echo; echo quiet; read x; stty size", streams="p")
    peer.ask(StreamAsk.FOLLOW, "a", 1, 0)

    def output() -> bytes:
        return b"".join(one.data for one in peer.frames if one.kind is StreamSay.OUTPUT)

    while b"quiet" not in output():
        assert peer.receive()
    peer.ask(StreamAsk.TERMINAL, "a")
    data, descriptors, _, _ = socket.recv_fds(peer.channel, 65536, 4)
    peer.frames += peer._reader.feed(data)
    peer.said(StreamSay.TTY)
    assert len(descriptors) == 1
    assert os.isatty(descriptors[0])
    os.close(descriptors[0])

    peer.ask(StreamAsk.RESIZE, "a", 33, 99)
    peer.ask(StreamAsk.INPUT, "a", 0, data=b"\n")
    peer.word("a", "exited")

    assert b"24 80" in output()
    assert b"33 99" in output()


def test_without_room_for_the_spool_nothing_is_started(place: StreamPlace, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * 1024, before[1]))
    try:
        peer = place.launch().hello()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    peer.start("a", "touch", str(tmp_path / "ran"), bound=2 * 1024 * 1024)

    assert peer.word("a", "failed").startswith("failed spool ")
    assert peer.word("a", "gone")
    assert not {"a.1", "a.2"} & place.files
    peer.start("b", "echo", "fits")
    assert peer.read_all("b") == (0, b"fits\n")
    assert not (tmp_path / "ran").exists()


def test_what_it_holds_may_not_hold_it(place: StreamPlace) -> None:
    code = (
        "import socket, sys, pathlib\n"
        "d = sys.argv[1]; s = socket.socket(socket.AF_UNIX)\n"
        "import os; f = os.open(d, os.O_RDONLY); s.connect(f'/proc/self/fd/{f}/socket')\n"
        "t = (pathlib.Path(d) / 'token').read_bytes()\n"
        "import struct; b = b'shelltie-stream\\0001\\0' + t + b'\\0take\\0'\n"
        "import contextlib\n"
        "with contextlib.suppress(OSError): s.sendall(struct.pack('<II', len(b), 1) + b)\n"
        "print(s.recv(4096))\n"
    )
    peer = place.launch().hello()
    peer.start("a", sys.executable, "-c", code, str(place.folder.place / "k"))

    _, printed = peer.read_all("a")

    assert b"leash" in printed
    assert b"WELCOME" not in printed


@pytest.mark.parametrize("mode", [0o755, 0o710])
def test_a_directory_that_others_may_enter_is_refused(
    place: StreamPlace, mode: int, capfd: pytest.CaptureFixture[str]
) -> None:
    peer = place.launch().hello()
    peer.said(StreamSay.WELCOME)
    (place.folder.place / "k").chmod(mode)
    try:
        with pytest.raises(PermissionError):
            place.connect()
    finally:
        (place.folder.place / "k").chmod(0o700)
    del capfd


@given(st.lists(st.binary(max_size=200), max_size=10))
def test_the_parser_takes_any_bytes_or_says_what_is_wrong(chunks: list[bytes]) -> None:
    reader = FrameReader()
    try:
        for chunk in chunks:
            for frame in reader.feed(chunk):
                assert isinstance(frame, SaidFrame)
    except ValueError:
        return


@given(st.binary(max_size=500), st.lists(st.integers(1, 40), max_size=30))
def test_the_parser_finds_the_same_frames_however_they_arrive(data: bytes, cuts: list[int]) -> None:
    def said(kind: StreamSay, *fields: str, more: bytes = b"") -> bytes:
        body = b"".join(field.encode() + b"\0" for field in fields) + more
        return HEADER.pack(len(body), kind) + body

    whole = (
        said(StreamSay.OUTPUT, "a", "1", "7", more=data)
        + said(StreamSay.PONG, "x")
        + said(StreamSay.BYE)
    )
    expected = list(FrameReader().feed(whole))
    reader, found = FrameReader(), list[SaidFrame]()
    for cut in [*cuts, len(whole)]:
        found += reader.feed(whole[:cut])
        whole = whole[cut:]

    assert found == expected
    assert found[0].data == data
