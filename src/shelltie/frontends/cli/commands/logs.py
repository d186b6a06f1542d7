"""`shelltie logs [-f]`: output of a run or session, and what follows until it ends."""

import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol

from shelltie.errors import (
    AmbiguousRun,
    CannotStart,
    JournalUnusable,
    NoLiveRun,
    NoRecordedRun,
    NoServerAnswer,
    TerminalError,
    UnknownRun,
)
from shelltie.frontends.cli import past_output
from shelltie.frontends.cli.console import print_error
from shelltie.frontends.cli.find_run import (
    FoundRun,
    OutputPiece,
    describe_exit,
    failed,
    read,
)
from shelltie.frontends.cli.hold_staying import found_or_held
from shelltie.frontends.control.run_row import CHUNK, WAIT_MAX
from shelltie.model import ExitStatus
from shelltie.output.text import Cleaner, clean, decode, whole_end

_QUIET = 0.3  # seconds after which the beginning of a line is shown, as a prompt has no end
_LINE_MAX = 64 * 1024
_FOUND_WITHIN = 10.0  # seconds, what goes from one server to another
_TICK = 0.1
_CLIENT = "shelltie logs"


class _Printer(Protocol):
    """Where output goes, piece by piece."""

    @property
    def wait(self) -> float:
        """For how long it wants no word if nothing comes."""

    def take(self, piece: OutputPiece) -> None:
        """Print what can be printed now; an empty piece says that it was quiet."""

    def end(self) -> None:
        """Print the rest."""


def main(args: Namespace) -> int:
    """Print it."""
    with ExitStack() as holding:
        try:
            found = holding.enter_context(found_or_held(args.id, _CLIENT))
        except NoLiveRun as error:
            return _print_past(args, error)
        printer = _printer(args)
        try:
            start = 0 if args.tail is None else _last_lines(found, args.tail)
            last = _print(found, start, printer, holding, follow=args.follow)
        except NoServerAnswer as error:
            printer.end()
            return failed(found, error)
        printer.end()
        _conclude(args, found, last)
        return 0


def _print_past(args: Namespace, missing: NoLiveRun) -> int:
    """Print what a run that is over had printed.

    Raises: NoLiveRun if there is none of that id either; OutputNotKept.
    """
    if isinstance(missing, AmbiguousRun):
        raise missing
    try:
        recording = past_output.load(args.id)
    except (NoRecordedRun, JournalUnusable):
        raise missing from None
    run, data = recording.run, recording.data
    if args.tail is not None:
        data = b"".join(data.splitlines(keepends=True)[-args.tail :] if args.tail else [])
    if args.json:
        text = decode(data) if args.raw else clean(data)
        end = {"id": run.id, "runId": run.id, "state": run.state, "exitCode": run.exit_code}
        print(json.dumps({**end, "bytes": len(data), "text": text}))
    elif args.raw:
        sys.stdout.buffer.write(data)
    else:
        print(clean(data), end="")
    if not recording.data:
        print_error(f"{run.id} is over ({run.ending}) and printed nothing")
    return 0


def _conclude(args: Namespace, found: FoundRun, last: OutputPiece) -> None:
    if args.json:
        end = {"ended": last.ended, "exitCode": last.exit.number, "signal": last.exit.signal_name}
        print(json.dumps({"id": found.id, "runId": found.listed.run_id, **end}))
    elif args.follow:
        sys.stdout.flush()
        print(f"{found.id} has ended: {describe_exit(last.exit)}.", file=sys.stderr)


def _print(
    found: FoundRun, start: int, printer: _Printer, holding: ExitStack, *, follow: bool
) -> OutputPiece:
    piece = None
    for piece in _pieces(found, start, printer, holding, follow=follow):
        if piece.skipped:
            told = f"{piece.skipped} bytes before {piece.start} are no longer kept"
            print(f"[{told}]", file=sys.stderr)
        printer.take(piece)
        sys.stdout.flush()
    assert piece is not None
    return piece


def _pieces(
    found: FoundRun, start: int, printer: _Printer, holding: ExitStack, *, follow: bool
) -> Iterator[OutputPiece]:
    """At least one. Without `follow` no more than there is when it begins."""
    piece = read(found, start, wait=0)
    until = piece.total
    yield piece
    while not piece.last and (follow or piece.end < until):
        try:
            piece = read(found, piece.end, wait=printer.wait if follow else 0)
        except NoServerAnswer as error:
            if (other := _found_again(found, holding)) is not None:
                found = other
                continue
            piece = _recorded(found, piece.end, error)
        yield piece


def _found_again(found: FoundRun, holding: ExitStack) -> FoundRun | None:
    """What stays, in the server that holds it now; if none does, we do."""
    if not found.listed.stays:
        return None
    holding.close()
    deadline = time.monotonic() + _FOUND_WITHIN
    while time.monotonic() < deadline:
        try:
            return holding.enter_context(found_or_held(found.listed.run_id, _CLIENT))
        except (NoLiveRun, UnknownRun):  # it has ended
            return None
        except CannotStart:  # who takes it is not in the list yet
            time.sleep(_TICK)  # noqa: TID251  nothing else is to be done here
    return None


def _recorded(found: FoundRun, start: int, gone: NoServerAnswer) -> OutputPiece:
    """The rest of what a run printed whose process has ended with it, as `shelltie run` does."""
    if gone.reply:
        raise gone
    try:
        recording = past_output.load(found.listed.run_id)
    except TerminalError:
        raise gone from None
    if recording.run.cut:  # nobody knows whether this is all
        raise gone
    data, code = recording.data, recording.run.exit_code
    return OutputPiece(
        start=start, data=data[start:], skipped=0, total=max(start, len(data)), ended=True,
        exit=ExitStatus(code=code),
    )  # fmt: skip


def _last_lines(found: FoundRun, count: int) -> int:
    """Where the last lines begin: looks for their ends from the end of the output backwards."""
    end = total = read(found, 0, 0).total
    missing = count
    while end > 0:
        low = max(0, end - CHUNK)
        piece = read(found, low, end)
        if piece.end < end:  # what is between is lost
            return end
        place = len(piece.data)
        if end == total and piece.data.endswith(b"\n"):
            place -= 1  # it ends the last line, and begins none
        while missing and (place := piece.data.rfind(b"\n", 0, place)) >= 0:
            missing -= 1
        if not missing:
            return piece.start + place + 1 if count else total
        if piece.skipped:
            return piece.start
        end = low
    return 0


def _printer(args: Namespace) -> _Printer:
    if args.json:
        return _Json(raw=args.raw)
    if args.raw:
        return _Raw()
    return _Lines() if args.follow else _Whole()


class _Raw:
    """Byte by byte."""

    wait = WAIT_MAX

    def take(self, piece: OutputPiece) -> None:
        sys.stdout.buffer.write(piece.data)

    def end(self) -> None:
        sys.stdout.flush()


class _Json:
    """An object for each piece, with a character never cut in two."""

    wait = WAIT_MAX

    def __init__(self, *, raw: bool) -> None:
        self._text = decode if raw else clean
        self._held = b""
        self._start = 0
        self._skipped = 0

    def take(self, piece: OutputPiece) -> None:
        if piece.skipped or not self._held:
            self._start = piece.start
        data = self._held + piece.data
        self._skipped += piece.skipped
        ready = data if piece.last else whole_end(data)
        self._held = data[len(ready) :]
        if ready:
            self._show(ready)

    def end(self) -> None:
        if self._held:
            self._show(self._held)
            self._held = b""

    def _show(self, data: bytes) -> None:
        fields = {"position": self._start, "bytes": len(data), "skipped": self._skipped}
        print(json.dumps({**fields, "text": self._text(data)}), flush=True)
        self._start += len(data)
        self._skipped = 0


class _Whole:
    """As a terminal shows it in the end."""

    wait = 0.0

    def __init__(self) -> None:
        self._cleaner = Cleaner()

    def take(self, piece: OutputPiece) -> None:
        print(self._cleaner.feed(piece.data), end="")

    def end(self) -> None:
        print(self._cleaner.flush(), end="")


class _Lines:
    """Line by line, as they come; what has no end yet is shown when nothing follows for a while."""

    def __init__(self) -> None:
        self._held = b""

    @property
    def wait(self) -> float:
        """Not long if something is held back."""
        return _QUIET if self._held else WAIT_MAX

    def take(self, piece: OutputPiece) -> None:
        whole, newline, rest = (self._held + piece.data).rpartition(b"\n")
        self._held = rest
        print(clean(whole + newline), end="")
        if len(rest) > _LINE_MAX or not piece.data:
            self.end()

    def end(self) -> None:
        print(clean(self._held), end="", flush=True)
        self._held = b""
