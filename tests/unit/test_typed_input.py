"""A line of keys, as each who may read it will have it."""

import pytest

from shelltie.sessions.line_readings import LINE_MAX, may_run, readings, unfinished_after

REMOVES = b"rm -rf x"


@pytest.mark.parametrize(
    "typed",
    [
        b"rm -rf x\n",
        b"rm -rf x\r",
        b"rm -rX\x7ff x\n",
        b"rm -rX\bf x\n",
        b"\x7f\x7frm -rf x\n",
        b"echo\n\x7frm -rf x\n",
        b"echo\x15rm -rf x\n",
        b"echo\x03rm -rf x\n",
        b"rm -rf y\x17x\n",
        b"echo y\x17\x17rm -rf x\n",
        b"rm -rf a-b,\x17\x17x\n",
        b"\x1b[200~rm -rf x\x1b[201~\r",
        b"r\x1b[Cm\x1bOA -rf x\n",
        b"\x1b[2rm -rf x\n",
        b"r\x00m\x01 -rf\x05 x\n",
        b"rm -rX\x7ff x\x03\n",
        b"r\x03mX\x7f -rf x\n",
        b"rmX\x7f -rf x\n#" + b"\x16\x7f" * 60,
        b"\x16rm -rf x\n",
    ],
)
def test_what_keys_may_leave_of_a_line_is_among_its_readings(typed: bytes) -> None:
    found = readings((typed,))

    assert any(REMOVES in reading.splitlines() for reading in found)
    assert found[0] == typed.replace(b"\r", b"\n")


@pytest.mark.parametrize(
    "typed",
    [
        b"rm -rf x #\x15echo hi\n",
        b"rm -rf x #" + b"\b" * 60 + b"echo hi\n",
        b"rm -rf x #" + b"\x7f" * 60 + b"echo hi\n",
        b"rm -rf x #\x03echo hi\n",
        b"rmX\x7f -rf x #" + b"\b" * 60 + b"echo hi\n",
        b"rmX\x7f -rf x #" + b"\x16\x7f" * 60 + b"echo hi\n",
    ],
)
def test_what_keys_erase_is_there_for_who_does_not_obey_them(typed: bytes) -> None:
    assert any(reading.startswith(b"rm -rf x #") for reading in readings((typed,)))


@pytest.mark.parametrize("erased", [b"", b"X\x7f"])
def test_an_escape_may_leave_the_quote_behind_it(erased: bytes) -> None:
    found = readings((b"echo '\x1b' ; rm" + erased + b" -rf x #'\n",))

    assert b"echo '' ; rm -rf x #'\n" in found


def test_a_plain_line_has_one_reading() -> None:
    assert readings((b"echo \xc3\xa9 \xff\t.\n",)) == [b"echo \xc3\xa9 \xff\t.\n"]


def test_a_piece_may_have_been_for_another_program() -> None:
    assert readings((b"q", b"rm -rf x\n")) == [b"qrm -rf x\n", b"q\nrm -rf x\n"]


@pytest.mark.parametrize(
    "key", [bytes([code]) for code in (*range(32), 0x7F) if code not in b"\r\n"]
)
def test_no_key_but_enter_finishes_a_line(key: bytes) -> None:
    assert unfinished_after((b"a",), b"r" + key, terminal=True) == (b"a", b"r" + key)


@pytest.mark.parametrize(
    ("data", "terminal", "left"),
    [
        (b"m\n", True, ()),
        (b"m\r", True, ()),
        (b"m\nls", True, (b"ls",)),
        (b"m\r", False, (b"r", b"m\r")),
        (b"m\n\r", False, (b"\r",)),
        (b"m \\\n", True, (b"r", b"m \\\n")),
        (b"m \\\r", True, (b"r", b"m \\\r")),
        (b"m\n \\\n-", True, (b" \\\n-",)),
        (b"", True, (b"r",)),
    ],
)
def test_enter_finishes_a_line(data: bytes, terminal: bool, left: tuple[bytes, ...]) -> None:
    assert unfinished_after((b"r",), data, terminal=terminal) == left


def test_a_backslash_may_stand_in_an_input_of_its_own() -> None:
    left = unfinished_after((b"rm ", b"\\"), b"\n", terminal=True)

    assert left == (b"rm ", b"\\", b"\n")
    assert unfinished_after(left, b"-rf", terminal=True) == (*left, b"-rf")
    assert unfinished_after(left, b"-rf x\n", terminal=True) == ()


def test_a_line_without_end_keeps_its_beginning_and_its_end() -> None:
    left = unfinished_after((b"rm ",), b" " * 2 * LINE_MAX + b"-rf x", terminal=True)

    assert sum(map(len, left)) == LINE_MAX
    assert left[0].startswith(b"rm ")
    assert left[-1].endswith(b"-rf x")


@pytest.mark.parametrize(
    ("data", "may"),
    [(b"ls", False), (b"\x7f\t\x1b[A\x03", False)]
    + [(b"ls" + key, True) for key in (b"\n", b"\r", b"\x04", b"\x0f", b"\x18\x05")],
)
def test_a_line_is_judged_when_a_key_may_run_it(data: bytes, may: bool) -> None:
    assert may_run(data) is may
