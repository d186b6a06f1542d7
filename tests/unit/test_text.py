import pytest

from shelltie.output.text import (
    Cleaner,
    clean,
    crop,
    cut_head,
    cut_tail,
    decode,
    decoder,
    excerpt,
    last_line,
    whole_end,
    whole_start,
)


@pytest.mark.proves("T0-30", "C-51")
def test_bytes_that_are_no_text_become_replacement_characters() -> None:
    assert decode(b"a\xff\xfeb\x00") == "a��b\x00"


@pytest.mark.proves("C-51")
def test_a_character_may_arrive_in_pieces() -> None:
    incremental = decoder()

    text = "".join(incremental.decode(bytes([byte])) for byte in "ä€😀".encode())

    assert text == "ä€😀"


@pytest.mark.parametrize("character", ["a", "ä", "€", "😀"])
@pytest.mark.parametrize("limit", range(10))
def test_a_cut_never_splits_a_character(character: str, limit: int) -> None:
    data = character.encode() * 40
    whole = limit // len(character.encode())

    assert cut_head(data, limit).decode() == character * whole
    assert cut_tail(data, limit).decode() == character * whole


def test_what_fits_is_not_cut() -> None:
    assert cut_head("€€".encode(), 6) == cut_tail("€€".encode(), 6) == "€€".encode()
    assert cut_head(b"a\xe2\x82", 3) == b"a\xe2\x82"
    assert cut_tail(b"\x82\xaca", 3) == b"\x82\xaca"
    assert cut_head(b"\x82", 1) == cut_tail(b"\x82", 1) == b"\x82"
    assert cut_head(b"abc", -1) == cut_tail(b"abc", -1) == b""


def test_bytes_that_are_no_text_are_cut_where_the_limit_is() -> None:
    data = b"\x80" * 100

    assert len(cut_head(data, 50)) == len(cut_tail(data, 50)) == 50
    assert whole_end(b"ab\xc3\xa9\x80\x80\x80") == b"ab\xc3\xa9\x80\x80\x80"
    assert whole_start(b"") == whole_end(b"") == b""


def test_a_crop_counts_characters_and_marks_only_what_it_cut() -> None:
    assert crop("ä" * 10_000, 10_000, "[cut]") == "ä" * 10_000
    assert crop("ä" * 10_001, 10_000, "[cut]") == "ä" * 10_000 + "[cut]"


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        (b"plain\ttext\n", "plain\ttext\n"),
        (b"one\r\ntwo\r\n", "one\ntwo\n"),
        (b"a\x00b\x07c\x7f\xc2\x9b", "abc"),
        (b"\x1b[1;31mred\x1b[0m\x1b(B", "red"),
        (b"\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "textlink"),
        (b"\x1b]0;never closed\nnext line", "\nnext line"),
        (b"\x1b[?25l\x1b[>4;1m\x1b[ q\x1b=x\x1b[?25h", "x"),
        (b"10%\r50%\r100%\ndone", "100%\ndone"),
        (b"longer\rab", "abnger"),
        (b"longer\r\x1b[Kab", "ab"),
        (b"abc\x1b[2Kd", "   d"),
        (b"abcdef\x1b[3D\x1b[1KX", "   Xef"),
        (b"pass\b\b\b\bword", "word"),
        (b"\b\bx", "x"),
        (b"a\x1b[5Cb\x1b[2Gc", "ac    b"),
        (b"abcdef\r\x1b[2Px\x1b[X", "x ef"),
        (b"bar 1\nbar 2\n\x1b[2A\x1b[KBAR 1\n\x1b[KBAR 2\n", "BAR 1\nBAR 2\n"),
        (b"one\ntwo\nthree\x1b[2F\x1b[JONE", "ONE"),
        (b"one\x1b[2Btwo", "one\n\n   two"),
        (b"one\x1b[2Etwo\x1b[99A!", "one!\n\ntwo"),
        (b"\x1b[31", ""),
        (b"a\x1b", "a"),
        (b"a\x1b\nb", "a\nb"),
        (b"a\x1b[\xe2\x82\xacb", "a€b"),
        (b"a\xe2\x82", "a�"),
    ],
)
def test_only_what_stays_visible_is_text(printed: bytes, seen: str) -> None:
    cleaner = Cleaner()

    in_pieces = "".join(cleaner.feed(bytes([byte])) for byte in printed) + cleaner.flush()

    assert clean(printed) == in_pieces == seen


def test_a_hundred_progress_lines_become_one() -> None:
    bar = b"".join(b"\r%3d%%|%-50s|" % (n, b"#" * (n // 2)) for n in range(101))

    assert clean(b"start\n" + bar + b"\nend\n") == f"start\n100%|{'#' * 50}|\nend\n"


def test_rows_are_final_once_the_cursor_cannot_reach_them() -> None:
    cleaner = Cleaner()

    final = cleaner.feed(b"".join(b"line %d\n" % n for n in range(100)))
    rest = cleaner.feed(b"\x1b[200A\x1b[Kchanged\r") + cleaner.flush()

    assert final == "".join(f"line {n}\n" for n in range(41))
    assert rest.startswith("changed\nline 42\n")


def test_a_line_without_end_is_passed_on_whole() -> None:
    line = "é" * 1_000_000

    assert clean(line.encode() + b"\rx") == line[: 1_000_000 // 4096 * 4096] + "x" + "é" * 575


@pytest.mark.parametrize(
    ("printed", "fullscreen"),
    [
        (b"\x1b[?1049h", True),
        (b"\x1b[H\x1b[2J", True),
        (b"\x1b[3;4H", True),
        (b"\x1b[31mred\x1b[2A", False),
    ],
)
def test_a_program_that_paints_a_screen_is_noticed(printed: bytes, fullscreen: bool) -> None:
    cleaner = Cleaner()

    cleaner.feed(printed)

    assert cleaner.fullscreen is fullscreen


def test_painted_text_stays_readable() -> None:
    assert clean(b"\x1b[H\x1b[2Jtop\x1b[2;1Hmiddle\x1b[24;1Hbottom") == "top\nmiddle\nbottom"


@pytest.mark.parametrize(
    "piece",
    [
        b"\x1b[9999B",
        b"\x1b[9999Bx\n",
        b"\x1b[99999999C.",
        b"\x1b[4096Gx\x1b[X\x1b[P",
        b"\x1b]",
        b"\x1b[1",
        b"x\b",
        b"\x1b[A\n\n",
        b"\x1b[H.",
        b"\r" + b"y" * 4000,
    ],
)
def test_hostile_output_stays_bounded(piece: bytes) -> None:
    cleaner = Cleaner()

    for _ in range(200_000 // len(piece)):
        cleaner.feed(piece)

    assert len(cleaner._rows) <= 60
    assert all(len(row) <= 4096 for row in cleaner._rows)
    assert len(cleaner._pending) <= 100


def test_an_excerpt_cuts_at_lines_and_says_how_much_is_missing() -> None:
    text = excerpt(b"one\ntwo\nthr", b"ve\nsix\n", 1000)

    assert text == "one\ntwo\n[… 1006 bytes left out … ]\nsix\n"


def test_an_excerpt_without_lines_cuts_at_characters() -> None:
    head, tail = "a€".encode()[:-1], "€b".encode()[1:]

    text = excerpt(head, tail, 10, how_to_read="terminal_output from=3")

    assert text == "a\n[… 14 bytes left out: terminal_output from=3 … ]\nb"


def test_an_excerpt_that_is_complete_joins_its_ends_first() -> None:
    euro = "€".encode()

    assert excerpt(euro[:1], euro[1:], 0) == "€"


def test_an_excerpt_of_the_end_alone_begins_with_the_mark() -> None:
    assert excerpt(b"", b"x\nend", 5) == "[… 7 bytes left out … ]\nend"


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        (b"", ""),
        (b"one\ntwo\n\n  \n", "two"),
        (b"10%\r 20%\x1b[0m", "20%"),
        (b"Password: ", "Password:"),
        ("ä".encode() * 300, "ä" * 200),
        (b"\n" * 100_000, ""),
    ],
)
def test_the_last_line_is_the_last_one_that_shows_anything(printed: bytes, line: str) -> None:
    assert last_line(printed) == line
