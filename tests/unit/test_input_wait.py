import pytest

from shelltie.running.input_wait import shows_no_prompt


@pytest.mark.parametrize(
    ("printed", "none"),
    [
        (b"", False),
        (b"> ", False),
        (b"await work()\r\r\n", True),
        (b"done\r\n\x1b[0m\x1b[?2004l\r", True),
        (b"\r\n\x1b[1G\x1b[0J> \x1b[3G", False),
        (b"\x1b[6n\x1b[?2004hIn [1]: \x1b[8D\x1b[8C\x1b[?25h", True),
        (b"menu\r\n\r\n\x1b[23A\x1b[8C\x1b[?25h", False),
    ],
)
def test_what_ends_a_line_or_asks_the_terminal_is_no_prompt(printed: bytes, none: bool) -> None:
    assert shows_no_prompt(printed) is none
