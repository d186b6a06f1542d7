import pytest

from shelltie.running.input_wait import on_empty_line


@pytest.mark.parametrize(
    ("printed", "empty"),
    [
        (b"", False),
        (b"> ", False),
        (b"await work()\r\r\n", True),
        (b"done\r\n\x1b[0m\x1b[?2004l\r", True),
        (b"\r\n\x1b[1G\x1b[0J> \x1b[3G", False),
        (b"menu\r\n\r\n\x1b[23A\x1b[8C\x1b[?25h", False),
    ],
)
def test_only_what_ends_a_line_leaves_an_empty_one(printed: bytes, empty: bool) -> None:
    assert on_empty_line(printed) is empty
