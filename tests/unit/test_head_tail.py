import pytest

from shelltie.output.head_tail import Window
from shelltie.output.text import cut_tail, whole_start


def test_everything_is_held_while_it_fits() -> None:
    window = Window(head=4, tail=4)

    window.append(b"abc")
    window.append(b"defgh")

    assert (window.total, window.dropped) == (8, 0)
    assert window.read(2, 7) == b"cdefg"
    assert window.head_bytes() + window.tail_bytes() == b"abcdefgh"


def test_the_middle_is_dropped_and_counted() -> None:
    window = Window(head=4, tail=4)

    window.append(b"abcdefghij")
    window.append(b"klm")

    assert (window.head_bytes(), window.tail_bytes()) == (b"abcd", b"jklm")
    assert (window.total, window.dropped) == (13, 5)
    assert window.holds(0, 4)
    assert window.holds(9, 13)
    assert not window.holds(3, 5)
    assert not window.holds(8, 13)
    assert not window.holds(12, 14)
    assert window.read(10, 12) == b"kl"


def test_every_piece_that_is_held_is_read_exactly() -> None:
    text, window = b"abcdefghijklm", Window(head=4, tail=4)

    window.append(text)

    places = [(start, end) for end in range(14) for start in range(end + 1)]
    held = [(start, end) for start, end in places if window.holds(start, end)]
    assert all(window.read(start, end) == text[start:end] for start, end in held)
    assert {(at, at) for at in range(14)} <= set(held)  # nothing can always be read
    assert not window.holds(-1, 0)
    assert not window.holds(2, 1)


def test_the_ring_reads_across_its_seam() -> None:
    window = Window(head=0, tail=5)

    for letter in b"abcdefgh":
        window.append(bytes([letter]))

    assert window.tail_bytes() == b"defgh"
    assert window.read(4, 7) == b"efg"
    assert window.read(6, 8) == b"gh"


def test_a_window_without_tail_counts_what_it_does_not_keep() -> None:
    window = Window(head=2, tail=0)

    window.append(b"abcdef")

    assert (window.head_bytes(), window.tail_bytes(), window.dropped) == (b"ab", b"", 4)


def test_a_copy_goes_its_own_way() -> None:
    window = Window(head=2, tail=3)
    window.append(b"abcdefg")

    copy = window.copy()
    copy.append(b"h")

    assert window.tail_bytes() == b"efg"
    assert (copy.head_bytes(), copy.tail_bytes(), copy.total) == (b"ab", b"fgh", 8)


@pytest.mark.proves("T3-10", "S3-32")
@pytest.mark.parametrize("size", [1, 1_000_003])
def test_the_tail_is_the_last_64_kib_on_a_character_boundary(size: int) -> None:
    text = ("täil €uro 😀 " * 70_000).encode()[: 1_000_002 if size > 1 else 200_002]
    window = Window(head=0, tail=65536)

    for start in range(0, len(text), size):
        window.append(text[start : start + size])

    tail = whole_start(window.tail_bytes())
    assert tail == cut_tail(text, 65536)
    assert 65536 - 3 <= len(tail) <= 65536
    assert tail[:4].decode("utf-8", "ignore")
