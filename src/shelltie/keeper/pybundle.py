"""Entry point of the Python keepers in one file (zipapp), for a machine that has only Python 3.9.

    python3 -I -S FILE --stay DIRECTORY LISTENER LEASE     pystay.py
    python3 -I -S FILE FD                                  pykeeper.py
    python3 -I -S FILE --bridge DIRECTORY                  stdin and stdout to DIRECTORY/socket
    python3 -I -S FILE --version                           whether it runs here

In the file this is `__main__.py`; providers/places/payload.py puts it together.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

PIPE = 64 * 1024


def bridge(directory: str) -> None:
    """Pump until one side ends. It holds nothing: the keeper waits for whoever comes next."""
    channel = socket.socket(socket.AF_UNIX)
    try:
        os.chdir(directory)
        channel.connect("socket")  # a relative name: the address of a socket has 107 bytes
    except OSError as error:
        sys.exit(f"{directory}: {error.strerror or error}")
    threading.Thread(target=pump_up, args=(channel,), daemon=True).start()
    try:
        while arrived := channel.recv(PIPE):
            rest = memoryview(arrived)
            while rest:
                rest = rest[os.write(1, rest) :]
    except OSError:  # whoever talked to it has gone, or the keeper has
        pass


def pump_up(channel: socket.socket) -> None:
    try:
        while arrived := os.read(0, PIPE):
            channel.sendall(arrived)
    finally:
        os._exit(0)


def main(words: list[str]) -> None:
    """Be what the words say."""
    if words[1:] == ["--version"]:
        print("shelltie-keeper in Python")  # noqa: T201  who copied it asks
    elif len(words) == 3 and words[1] == "--bridge":
        bridge(words[2])
    elif words[1:2] == ["--stay"]:
        import pystay  # type: ignore[import-not-found]

        pystay.main(words)
    else:
        import pykeeper  # type: ignore[import-not-found]

        pykeeper.main(words)


if __name__ == "__main__":
    main(sys.argv)
    sys.stdout.flush()
    os._exit(0)
