from pathlib import Path

import pytest

from shelltie.model import Stream
from shelltie.output.spool import Spool
from shelltie.output.store import Excerpt, Piece, Store
from shelltie.output.text import cut_head, cut_tail


def add(store: Store, text: bytes, stream: Stream = Stream.STDOUT) -> None:
    store.add(stream, memoryview(text))


def test_the_only_stream_is_the_merged_one() -> None:
    store = Store(head=8, tail=8)

    add(store, b"hello")

    assert store.view(None, 10, 10) == Excerpt(b"hello", b"", 0, 5)
    assert store.view(Stream.STDOUT, 10, 10) == Excerpt(b"hello", b"", 0, 5)
    assert store.view(Stream.STDERR, 10, 10) == Excerpt(b"", b"", 0, 0)
    assert not store._separate


@pytest.mark.proves("C-52", "C-49")
def test_both_streams_can_be_read_alone_and_in_order_of_arrival() -> None:
    store = Store(head=16, tail=16)

    add(store, b"out1 ")
    add(store, b"err1 ", Stream.STDERR)
    add(store, b"out2", Stream.STDOUT)

    assert store.view(None, 99, 0).head == b"out1 err1 out2"
    assert store.view(Stream.STDOUT, 99, 0).head == b"out1 out2"
    assert store.view(Stream.STDERR, 99, 0).head == b"err1 "
    assert (store.total, store.total_of(Stream.STDOUT), store.total_of(Stream.STDERR)) == (14, 9, 5)


def test_a_view_takes_both_ends_and_counts_what_is_between() -> None:
    store = Store(head=8, tail=8)

    add(store, b"0123456789")

    assert store.view(None, 2, 3) == Excerpt(b"01", b"789", 5, 10)
    assert store.view(None, 6, 4) == Excerpt(b"012345", b"6789", 0, 10)
    assert store.view(None, 9, 9) == Excerpt(b"012345678", b"9", 0, 10)
    assert store.view(None, 0, 0) == Excerpt(b"", b"", 10, 10)


@pytest.mark.proves("C-53")
def test_a_reader_that_fell_behind_learns_how_much_it_missed() -> None:
    store = Store(head=4, tail=4)

    add(store, b"0123456789abcdef")

    assert store.read(0, 16) == Piece(0, b"0123", 0)
    assert store.read(2, 3) == Piece(2, b"2", 0)
    assert store.read(4, 16) == Piece(12, b"cdef", 8)
    assert store.read(5, 9) == Piece(9, b"", 4)
    assert store.read(14, 99) == Piece(14, b"ef", 0)
    assert store.read(16, 16) == Piece(16, b"", 0)


def test_readers_with_their_own_positions_see_every_byte_while_it_arrives() -> None:
    store = Store(head=64, tail=64)
    slow, fast = 0, 0
    heard_slow, heard_fast = b"", b""

    for number in range(20):
        add(store, b"%d," % number)
        piece = store.read(fast, store.total)
        fast, heard_fast = piece.end, heard_fast + piece.data
        piece = store.read(slow, slow + 2)
        slow, heard_slow = piece.end, heard_slow + piece.data

    everything = b"".join(b"%d," % number for number in range(20))
    assert heard_fast == everything
    assert heard_slow == everything[: len(heard_slow)]
    assert len(heard_slow) == 40


def test_what_memory_lost_is_read_from_disk(tmp_path: Path) -> None:
    store = Store(head=4, tail=4, spool=Spool(tmp_path / "run.out", cap=100, threshold=8))
    text = bytes(range(40, 90))

    for start in range(0, 50, 7):
        add(store, text[start : start + 7])

    assert store.read(0, 99) == Piece(0, text, 0)
    assert store.read(5, 48) == Piece(5, text[5:48], 0)
    assert store.view(None, 10, 20) == Excerpt(text[:10], text[30:], 20, 50)


def test_beyond_the_cap_only_the_tail_is_left(tmp_path: Path) -> None:
    store = Store(head=4, tail=4, spool=Spool(tmp_path / "run.out", cap=20, threshold=8))
    text = bytes(range(40, 90))

    for start in range(0, 50, 7):
        add(store, text[start : start + 7])

    assert store.read(10, 50) == Piece(10, text[10:20], 0)
    assert store.read(20, 50) == Piece(46, text[46:], 26)
    assert store.view(None, 30, 30) == Excerpt(text[:20], text[46:], 26, 50)


def test_one_stream_is_read_back_from_disk(tmp_path: Path) -> None:
    store = Store(head=4, tail=4, spool=Spool(tmp_path / "run.out", cap=1000, threshold=8))
    written = {Stream.STDOUT: b"", Stream.STDERR: b""}

    for number in range(30):
        stream = Stream.STDERR if number % 3 == 0 else Stream.STDOUT
        add(store, b"%d;" % number, stream)
        written[stream] += b"%d;" % number

    for stream, text in written.items():
        assert store.view(stream, 1000, 0) == Excerpt(text, b"", 0, len(text))
        assert store.view(stream, 6, 9) == Excerpt(text[:6], text[-9:], len(text) - 15, len(text))


def test_a_stream_that_spoke_after_the_cap_is_not_on_disk(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "run.out", cap=10, threshold=8)
    store = Store(head=4, tail=4, spool=spool)

    add(store, b"0123456789")
    add(store, b"late words", Stream.STDERR)

    assert (spool.stored_of(Stream.STDOUT), spool.stored_of(Stream.STDERR)) == (10, 0)
    assert store.view(Stream.STDERR, 99, 99) == Excerpt(b"late", b"ords", 2, 10)


def test_a_spool_file_that_vanished_is_a_gap_and_no_error(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "run.out", cap=1000, threshold=8)
    store = Store(head=4, tail=4, spool=spool)
    add(store, b"0123456789abcdef")

    spool.path.unlink()

    assert store.view(None, 16, 2) == Excerpt(b"0123", b"ef", 10, 16)
    assert store.read(2, 16) == Piece(2, b"23", 0)
    assert "No such file" in str(spool.problem)


@pytest.mark.parametrize(
    ("printed", "limit", "kept", "truncated"),
    [(150, 100, 100, True), (100, 100, 100, False), (101, 100, 100, True), (1, 0, 0, True)],
)
def test_the_tail_up_to_a_limit_tells_whether_it_is_all(
    printed: int, limit: int, kept: int, truncated: bool
) -> None:
    store = Store()

    add(store, b"a" * printed)

    view = store.view(None, 0, limit)
    assert view.tail == b"a" * kept
    assert (view.omitted > 0) is truncated


def test_the_first_mebibyte_of_a_stream_is_kept_with_a_spool(tmp_path: Path) -> None:
    mebibyte = 1024 * 1024
    store = Store(spool=Spool(tmp_path / "run.out"))
    add(store, b"x" * mebibyte)
    exactly = store.view(Stream.STDOUT, mebibyte, 0)

    add(store, b"y" * mebibyte)

    more = store.view(Stream.STDOUT, mebibyte, 0)
    assert (exactly.head, exactly.omitted) == (b"x" * mebibyte, 0)
    assert (more.head, more.omitted) == (b"x" * mebibyte, mebibyte)


def test_a_character_that_arrives_in_two_pieces_stays_whole() -> None:
    store = Store()
    euro = "€".encode()

    add(store, b"a" + euro[:1])
    add(store, euro[1:] + b"b")

    data = store.read(0, store.total).data
    assert data.decode() == "a€b"
    assert (cut_head(data, 3), cut_tail(data, 3)) == (b"a", b"b")
