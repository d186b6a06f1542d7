"""An agent without a will: what comes on a socket it says, and what it is told goes there.

Usage: puppet_agent.py SOCKET
"""

import os
import socket
import sys
import threading


def copy(source: int, sink: int) -> None:
    while chunk := os.read(source, 65536):
        view = memoryview(chunk)
        while view:
            view = view[os.write(sink, view) :]


def main() -> None:
    with socket.socket(socket.AF_UNIX) as strings:
        strings.connect(sys.argv[1])
        pulled = threading.Thread(target=copy, args=(strings.fileno(), 1), daemon=True)
        pulled.start()
        copy(0, strings.fileno())
        strings.shutdown(socket.SHUT_WR)


main()
