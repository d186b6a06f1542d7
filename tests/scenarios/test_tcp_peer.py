"""Which process is at the other end of a connection: TCP itself does not tell."""

import os
import socket
import subprocess
import sys

from shelltie.frontends.web.tcp_peer import holders, other_end

CLIENT = """\
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.recv(1)
"""


def test_the_process_that_connected_is_found_by_its_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = subprocess.Popen([sys.executable, "-c", CLIENT, str(port)])
        connection, peer = server.accept()
        with connection:
            end = other_end(peer, connection.getsockname())

            assert end is not None
            assert end.uid == os.geteuid()
            assert holders(end) == [client.pid]
        client.wait(50)

    assert holders(end) == []


def test_a_connection_that_there_is_not_has_no_other_end() -> None:
    assert other_end(("127.0.0.1", 1), ("127.0.0.1", 2)) is None
