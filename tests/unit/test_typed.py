"""Keys, as whoever reads the line will have them."""

import pytest

from shelltie.running.typed import as_read


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("ls\n", "ls\n"),
        ("ls\r", "ls\n"),
        ("rm -rX\x7ff x\n", "rm -rf x\n"),
        ("rm -rX\bf x\n", "rm -rf x\n"),
        ("\x7f\x7frm\n", "rm\n"),
        ("echo\n\x7frm\n", "echo\nrm\n"),
        ("echo\x15rm\n", "rm\n"),
        ("echo\x03rm\n", "rm\n"),
        ("\x1b[200~rm -rf x\x1b[201~\r", "rm -rf x\n"),
        ("r\x1b[Cm\x1bOA x\n", "rm x\n"),
        ("a\tb\x00\x01\n", "a\tb\n"),
        ("\x1b", ""),
    ],
)
def test_keys_are_read_as_the_line_they_leave(typed: str, read: str) -> None:
    assert as_read(typed) == read
