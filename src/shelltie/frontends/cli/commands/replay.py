"""`shelltie replay`: plays recorded output at its original speed."""

import select
import sys
from argparse import Namespace

from shelltie.frontends.cli.past_output import load
from shelltie.frontends.cli.safe_replay import DrawingFilter, TerminalModes


def main(args: Namespace) -> int:
    """Play it."""
    recording, drawing, modes, now = load(args.id), DrawingFilter(), TerminalModes(), 0.0
    out = sys.stdout.buffer

    def play(data: bytes) -> None:
        modes.see(data)
        out.write(data)
        out.flush()

    try:
        for at, data in recording.chunks():
            pause = min(at - now, args.idle) / args.speed
            select.select([], [], [], max(0.0, pause))  # nothing else is to be done meanwhile
            now = at
            play(drawing.feed(data))
        play(drawing.feed(b"", final=True))
    finally:
        if sys.stdout.isatty():
            out.write(modes.undo())
            out.flush()
    return 0
