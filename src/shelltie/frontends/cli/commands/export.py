"""`shelltie export`: recorded output as text, HTML or an asciinema cast."""

import codecs
import json
import sys
from argparse import Namespace
from collections.abc import Iterator

from shelltie.basics import visible_text
from shelltie.frontends.cli import html
from shelltie.frontends.cli.past_output import load
from shelltie.output.text import clean
from shelltie.record.recording import Recording


def main(args: Namespace) -> int:
    """Print it."""
    recording = load(args.id)
    if args.cast:
        lines = cast(recording, args.columns, args.rows)
        sys.stdout.writelines(f"{line}\n" for line in lines)
    elif args.html:
        print(html.of_run(recording.run, clean(recording.data)), end="")
    else:
        print(clean(recording.data), end="")
    return 0


def cast(recording: Recording, columns: int, rows: int) -> Iterator[str]:
    """A recording that asciinema plays (version 2)."""
    run = recording.run
    head = {"version": 2, "width": columns, "height": rows, "timestamp": int(run.began)}
    yield json.dumps({**head, "title": visible_text.inline(run.command[:200])})
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for at, data in recording.chunks():
        if text := decoder.decode(data):
            # A pipe has bare ends of lines, which a terminal would show as stairs.
            played = text.replace("\r\n", "\n").replace("\n", "\r\n")
            yield json.dumps([round(at, 3), "o", played])
    end = max(run.duration or 0.0, 0.0, *(at for at, _ in recording.times))
    yield json.dumps([round(end, 3), "o", decoder.decode(b"", final=True)])
