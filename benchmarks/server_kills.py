"""Kills a server 50 times while 12 sessions that stay print 20,000 lines each: none may be lost.

python -m benchmarks.server_kills [--kills 50] [--sessions 12] [--lines 20000] [--server mcp]
    [--keeper c]

The server is `shelltie mcp`, whose client starts it again; or with `--server holder` a program that
does nothing but hold them, with one keeper or the other.
"""

import argparse
import tempfile
import time
from pathlib import Path

import anyio

from tests import server_kills


def main() -> None:
    """Print how it went; whatever is missing, double or out of order is an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--sessions", type=int, default=12)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--server", choices=("mcp", "holder"), default="mcp")
    parser.add_argument("--keeper", choices=("c", "python"), default="c")
    parser.add_argument("--burst", type=int, default=4, help="lines between two pauses")
    parser.add_argument("--pause", type=float, default=0.01, help="seconds of each pause")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, began = Path(name), time.monotonic()
        if asked.server == "mcp":
            killed = server_kills.kill_mcp_servers(
                folder,
                asked.kills,
                (0.1, 1.0),
                sessions=asked.sessions,
                lines=asked.lines,
                burst=asked.burst,
                pause=asked.pause,
            )
        else:
            how_much = asked.sessions, asked.lines, asked.burst, asked.pause
            names = anyio.run(server_kills.start, folder, asked.keeper, *how_much)
            killed = server_kills.kill_servers(folder, names, asked.kills, (0.6, 1.4))
            server_kills.check(folder, names, asked.lines)
        took = time.monotonic() - began
    print(
        f"{asked.server}: {asked.sessions} sessions, {asked.lines} lines each: complete, once, in"
        f" order, exit status right; server killed {killed} of {asked.kills} times while something"
        f" still ran; {took:.0f} s"
    )


if __name__ == "__main__":
    main()
