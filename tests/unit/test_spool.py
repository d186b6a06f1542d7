import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shelltie.model import Stream
from shelltie.output.spool import Spool
from shelltie.output.store import Excerpt, Piece, Store


def add(store: Store, text: bytes, stream: Stream = Stream.STDOUT) -> None:
    store.add(stream, memoryview(text))


@contextmanager
def files_of_100_bytes() -> Iterator[None]:
    """Not a fixture: pytest itself writes to a file while those hold."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_there_is_no_file_until_it_is_needed(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "runs" / "one.out", threshold=10)
    store = Store(head=5, tail=5, spool=spool)

    add(store, b"0123456789")
    existed = spool.path.exists()
    add(store, b"!")

    assert not existed
    assert spool.path.read_bytes() == b"0123456789!"


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "runs" / "one.out", threshold=1)

    add(Store(head=1, tail=1, spool=spool), b"secret")

    assert stat.S_IMODE(spool.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(spool.path.parent.stat().st_mode) == 0o700


def test_it_stops_at_its_cap_and_says_so(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "one.out", cap=15, threshold=4)
    store = Store(head=2, tail=2, spool=spool)

    add(store, b"0123456789")
    before = spool.full
    add(store, b"abcdefghij")
    add(store, b"klm")

    assert (before, spool.full, spool.stored, spool.problem) == (False, True, 15, None)
    assert spool.path.read_bytes() == b"0123456789abcde"


def test_exactly_the_cap_is_not_too_much(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "one.out", cap=10, threshold=4)

    add(Store(head=2, tail=2, spool=spool), b"0123456789")

    assert not spool.full
    assert spool.stored == 10


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_that_is_already_there_is_left_alone(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "one.out", tmp_path / "precious"
    other.write_text("precious", encoding="utf-8")
    path.symlink_to(other) if kind == "link" else path.hardlink_to(other)
    spool = Spool(path, threshold=1)
    store = Store(head=2, tail=2, spool=spool)

    add(store, b"0123456789")
    spool.close()

    assert "File exists" in str(spool.problem)
    assert other.read_text(encoding="utf-8") == path.read_text(encoding="utf-8") == "precious"
    assert store.view(None, 9, 9) == Excerpt(b"01", b"89", 6, 10)


def test_a_place_that_cannot_be_written_turns_it_off(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spool = Spool(tmp_path / "file" / "one.out", threshold=1)
    store = Store(head=2, tail=2, spool=spool)

    add(store, b"0123456789")
    add(store, b"abc")

    assert spool.problem
    assert store.total == 13
    assert store.read(2, 13) == Piece(11, b"bc", 9)


def test_a_full_disk_keeps_what_fitted_and_the_run_goes_on(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "one.out", threshold=4)
    store = Store(head=2, tail=2, spool=spool)

    with files_of_100_bytes():
        for _ in range(40):
            add(store, b"0123456")

    assert spool.stored == spool.path.stat().st_size == 100
    assert "File too large" in str(spool.problem)
    assert not spool.full
    assert store.read(0, 280) == Piece(0, (b"0123456" * 15)[:100], 0)
    assert store.read(100, 280) == Piece(278, b"56", 178)


def test_when_the_index_is_full_the_streams_are_read_up_to_there(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "one.out", threshold=2)
    store = Store(head=1, tail=1, spool=spool)
    turns = 8 * 1024  # of each stream

    for _ in range(turns + 5):
        add(store, b"oo", Stream.STDOUT)
        add(store, b"e", Stream.STDERR)

    assert spool.stored_of(Stream.STDOUT) == 2 * turns
    assert spool.stored_of(Stream.STDERR) == turns
    assert store.view(Stream.STDERR, 99_999, 99_999) == Excerpt(b"e" * turns, b"e", 4, turns + 5)
    assert store.read(0, store.total).data == b"ooe" * (turns + 5)


def test_it_can_be_read_after_it_was_closed_but_not_after_it_has_left_the_disk(
    tmp_path: Path,
) -> None:
    spool = Spool(tmp_path / "one.out", threshold=4)
    store = Store(head=2, tail=2, spool=spool)
    add(store, b"0123456789")

    spool.close()
    closed = store.read(0, 10)
    spool.path.unlink()

    assert closed.data == b"0123456789"
    assert store.read(2, 10) == Piece(8, b"89", 6)
    assert "No such file" in str(spool.problem)


def test_a_file_that_was_shortened_is_not_believed(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "one.out", threshold=4)
    store = Store(head=2, tail=2, spool=spool)
    add(store, b"0123456789")

    spool.path.write_bytes(b"012")

    assert store.read(0, 10) == Piece(0, b"01", 0)
    assert "shortened" in str(spool.problem)
