import json
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from shelltie.agents.jsonl_events import EventLines
from shelltie.model import Stream
from shelltie.output.head_tail import Window
from shelltie.output.spool import Spool
from shelltie.output.store import Store
from shelltie.output.text import (
    Cleaner,
    clean,
    cut_head,
    cut_tail,
    decode,
    excerpt,
    last_line,
)

chunks = st.lists(st.binary(max_size=40), max_size=20)
sizes = st.integers(0, 30)
spoken = st.lists(st.tuples(st.sampled_from(Stream), st.binary(max_size=30)), max_size=30)
terminal = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\r", b"\n", b"\r\n", b"\b", b"\x1b", b"\x1b[", b"\x1b]0;", b"\x07", b"\x1b\\", b"\t"]
        ),
        st.sampled_from([b"\xe2", b"\x82", b"\xac", b"\xff", b"word", b"\n" * 70, b"w" * 5000]),
        st.builds(
            lambda number, move: b"\x1b[%d%s" % (number, move),
            st.integers(0, 5000),
            st.sampled_from([bytes([letter]) for letter in b"ABCDEFGHJKPXm@dfh"]),
        ),
        st.binary(max_size=5),
    ),
    max_size=60,
).map(b"".join)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(chunks, sizes, sizes)
def test_a_window_is_both_ends_of_what_was_written(
    written: list[bytes], head: int, tail: int
) -> None:
    window = Window(head, tail)

    for chunk in written:
        window.append(chunk)

    text = b"".join(written)
    rest = text[head:]
    assert window.total == len(text)
    assert window.head_bytes() == text[:head]
    assert window.tail_bytes() == rest[max(0, len(rest) - tail) :]
    assert window.dropped == max(0, len(rest) - tail)
    for start in range(len(text) + 1):
        for end in range(start, len(text) + 1, 7):
            if window.holds(start, end):
                assert window.read(start, end) == text[start:end]


@given(spoken, sizes, sizes, sizes, st.booleans(), st.integers(1, 50))
def test_every_byte_is_read_or_counted_as_skipped(
    written: list[tuple[Stream, bytes]], head: int, tail: int, cap: int, spools: bool, step: int
) -> None:
    with TemporaryDirectory() as folder:
        threshold = (head + tail) // 2
        spool = Spool(Path(folder) / "out", cap=cap * 20, threshold=threshold) if spools else None
        store = Store(head=head, tail=tail, spool=spool)
        for stream, chunk in written:
            store.add(stream, memoryview(chunk))
        if spool:
            spool.close()

        text = b"".join(chunk for _, chunk in written)
        position = 0
        while position < store.total:
            piece = store.read(position, position + step)
            assert piece.start == position + piece.skipped
            assert piece.data == text[piece.start : piece.end]
            assert piece.end > position
            position = piece.end

        check_views(store, written)


def check_views(store: Store, written: list[tuple[Stream, bytes]]) -> None:
    for stream in (None, *Stream):
        text = b"".join(chunk for speaker, chunk in written if stream in (None, speaker))
        for limits in ((0, 10), (10, 0), (7, 9), (10_000, 10_000)):
            view = store.view(stream, *limits)
            assert text.startswith(view.head)
            assert text.endswith(view.tail)
            assert len(view.head) + view.omitted + len(view.tail) == view.total == len(text)
            assert len(view.head) <= limits[0]
            assert len(view.tail) <= limits[1]


@given(spoken, st.integers(1, 20))
def test_with_room_on_disk_nothing_is_lost(
    written: list[tuple[Stream, bytes]], memory: int
) -> None:
    with TemporaryDirectory() as folder:
        spool = Spool(Path(folder) / "out", threshold=memory)
        store = Store(head=memory, tail=memory, spool=spool)
        for stream, chunk in written:
            store.add(stream, memoryview(chunk))
        spool.close()

        assert store.read(0, store.total).data == b"".join(chunk for _, chunk in written)
        for stream in Stream:
            view = store.view(stream, 5, 10_000)
            expected = b"".join(chunk for speaker, chunk in written if speaker is stream)
            assert (view.head + view.tail, view.omitted) == (expected, 0)


@given(st.binary(max_size=200), st.integers(-1, 200))
def test_any_bytes_are_cut_within_the_limit_and_close_to_it(data: bytes, limit: int) -> None:
    for part in (cut_head(data, limit), cut_tail(data, limit)):
        assert min(len(data), max(0, limit)) - 3 <= len(part) <= max(0, limit)
    assert data.startswith(cut_head(data, limit))
    assert data.endswith(cut_tail(data, limit))


@given(st.text(max_size=100), st.integers(0, 200))
def test_text_that_is_cut_is_still_text(text: str, limit: int) -> None:
    data = text.encode("utf-8", "replace")

    assert data.decode().startswith(cut_head(data, limit).decode())
    assert data.decode().endswith(cut_tail(data, limit).decode())


@given(st.one_of(st.binary(max_size=500), terminal), st.integers(0, 3))
def test_any_bytes_become_text_without_controls(data: bytes, omitted: int) -> None:
    decode(data)
    texts = [clean(data), last_line(data), excerpt(data, data, omitted)]

    for text in texts:
        text.encode("utf-8")
        assert all(character >= " " or character in "\t\n" for character in text)


@given(st.one_of(st.binary(max_size=500), terminal), st.lists(st.integers(0, 100_000), max_size=9))
def test_cleaning_does_not_depend_on_the_chunks(data: bytes, cuts: list[int]) -> None:
    cleaner = Cleaner()

    text = "".join(cleaner.feed(chunk) for chunk in split(data, cuts)) + cleaner.flush()

    assert text == clean(data)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"], include_characters="\n\t")))
def test_plain_text_is_left_as_it_is(text: str) -> None:
    cleaner = Cleaner()

    assert clean(text.encode()) == text
    assert cleaner.feed(text.encode()) + cleaner.flush() == text


@given(
    st.lists(
        st.one_of(
            st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
            st.binary(max_size=10).map(lambda line: line.replace(b"\n", b"").replace(b"{", b"")),
        ),
        max_size=20,
    ),
    st.lists(st.integers(0, 100_000), max_size=9),
)
def test_events_are_found_whatever_is_between_them(
    printed: list[dict[str, object] | bytes], cuts: list[int]
) -> None:
    events = [line for line in printed if isinstance(line, dict)]
    data = b"\n".join(
        line if isinstance(line, bytes) else json.dumps(line).encode() for line in printed
    )
    lines = EventLines(keep=5)

    for chunk in split(data, cuts):
        lines.feed(chunk)
    lines.flush()

    assert lines.count == len(events)
    assert lines.events == events[-5:]
