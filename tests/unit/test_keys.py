import pytest

from shelltie.errors import InvalidParameters
from shelltie.sessions.keys import bytes_of, line, pasted


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("ctrl-c", b"\x03"),
        ("CTRL-D", b"\x04"),
        ("ctrl-z", b"\x1a"),
        ("enter", b"\r"),
        ("up", b"\x1b[A"),
        ("f1", b"\x1bOP"),
        ("f12", b"\x1b[24~"),
        ("alt-x", b"\x1bx"),
        ("alt-ü", b"\x1b\xc3\xbc"),
        ("ctrl-space", b"\0"),
        (" tab ", b"\t"),
    ],
)
def test_a_key_has_the_bytes_of_a_terminal(key: str, sent: bytes) -> None:
    assert bytes_of(key) == sent


@pytest.mark.parametrize("key", ["", "ctrl-", "ctrl-cc", "entr", "no such key", "\0"])
def test_an_unknown_key_is_refused_with_advice(key: str) -> None:
    with pytest.raises(InvalidParameters, match=r"did you mean|try enter"):
        bytes_of(key)


@pytest.mark.proves("C-73")
def test_a_line_has_exactly_one_newline() -> None:
    assert line("y") == line("y\n") == b"y\n"
    assert line("") == b"\n"
    assert line("a\nb") == b"a\nb\n"


def test_pasted_text_cannot_end_its_own_paste() -> None:
    sent = pasted("one\x1b[201~rm\ntwo")

    assert sent.startswith(b"\x1b[200~")
    assert sent.count(b"\x1b[201~") == 1
    assert sent.endswith(b"\x1b[201~")
