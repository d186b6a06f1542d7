"""`shelltie replay`: what a run of the past printed, at the speed at which it did."""

import select
import sys
from argparse import Namespace
from collections.abc import Iterator

from shelltie.frontends.cli.recording import load
from shelltie.frontends.cli.replayed import Modes, without_questions

_SEQUENCE_MAX = 4200  # of those that a terminal answers to


def main(args: Namespace) -> int:
    """Play it."""
    recording, modes, now = load(args.id), Modes(), 0.0
    out = sys.stdout.buffer
    try:
        for at, data in whole(recording.chunks()):
            pause = min(at - now, args.idle) / args.speed
            select.select([], [], [], max(0.0, pause))  # nothing else is to be done meanwhile
            now = at
            played = without_questions(data)
            modes.see(played)
            out.write(played)
            out.flush()
    finally:
        if sys.stdout.isatty():
            out.write(modes.undo())
            out.flush()
    return 0


def whole(chunks: list[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """The same, but with no escape sequence cut in two."""
    rest, last = b"", 0.0
    for at, chunk in chunks:
        data = rest + chunk
        starts = [data.rfind(start, -_SEQUENCE_MAX) for start in (b"\x1b", b"\x1bP", b"\x1b]")]
        cut = min((start for start in starts if start >= 0), default=len(data))
        rest, last = data[cut:], at
        yield at, data[:cut]
    if rest:
        yield last, rest
