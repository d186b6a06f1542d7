import sys

import pytest

from shelltie.providers.listening_ports import ListeningSocket, parse

pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="the rows are of such a machine")

_REST = "00000000:00000000 00:00000000 00000000     0        0 {} 1 0000000000000000 100 0 0 10 0"


def row(local: str, state: str, inode: int) -> str:
    return f"   0: {local} 00000000:0000 {state} {_REST.format(inode)}"


@pytest.mark.proves("D16")
@pytest.mark.parametrize(
    ("local", "version", "shown", "reached"),
    [
        ("0100007F:1FBB", 4, "127.0.0.1:8123", ("127.0.0.1", 8123)),
        ("00000000:0050", 4, "0.0.0.0:80", ("127.0.0.1", 80)),
        ("0500580A:0050", 4, "10.88.0.5:80", ("10.88.0.5", 80)),
        ("00000000000000000000000001000000:1FBB", 6, "[::1]:8123", ("::1", 8123)),
        ("00000000000000000000000000000000:1FBB", 6, "[::]:8123", ("::1", 8123)),
        (
            "0000000000000000FFFF00000100007F:1FBB",
            6,
            "[::ffff:127.0.0.1]:8123",
            ("::ffff:127.0.0.1", 8123),
        ),
    ],
)
def test_a_listening_socket_is_read_as_the_kernel_writes_it(
    local: str, version: int, shown: str, reached: tuple[str, int]
) -> None:
    (listener,) = parse([row(local, "0A", 77)], version)

    assert str(listener) == shown
    assert listener.reached_at == reached
    assert listener.inode == "77"


def test_connections_and_rows_that_are_none_are_left_out() -> None:
    rows = [row("0100007F:1FBB", "01", 1), "", "nonsense", row("0100007F:1FBC", "0A", 2)]

    assert list(parse(rows, 4)) == [ListeningSocket("127.0.0.1", 8124, 4, "2")]
