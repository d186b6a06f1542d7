"""`shelltie attach`: connects this terminal (raw mode) to a session, until the person detaches."""

import os
import signal
import sys
import termios
import tty
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from shelltie.errors import NoServerAnswer
from shelltie.frontends.cli.console import print_error
from shelltie.frontends.cli.find_run import (
    FoundRun,
    describe_exit,
    failed,
    read,
    write,
)
from shelltie.frontends.cli.hold_staying import found_or_held
from shelltie.frontends.cli.main import NOT_DONE, WRONG_USAGE
from shelltie.frontends.cli.safe_replay import (
    DETACH,
    TerminalModes,
    until_detached,
    without_questions,
)
from shelltie.frontends.control import client

_REPLAYED = 64 * 1024  # bytes of earlier output, so that there is something to see
_TYPED_MAX = 4096
_WAIT = 0.5  # seconds for more output; whoever detaches waits for the end of it
_BELL = b"\a"
T = TypeVar("T")


def main(args: Namespace) -> int:
    """Attach; what the session printed shortly before is shown first."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        print_error("attach needs a terminal; without one use shelltie logs -f, send and kill")
        return WRONG_USAGE
    with found_or_held(args.id, "shelltie attach") as found:
        if not found.listed.pty:
            print_error(f"{found.id} has no terminal: follow it with shelltie logs -f {args.id}")
            return NOT_DONE
        return _attach(found, writes=args.write)


def _attach(found: FoundRun, *, writes: bool) -> int:
    attached = _Attached(found, writes=writes)
    how_far = "what you type goes to it" if writes else "read-only; --write to type"
    greeting = f"attached to {found.id} ({how_far}): {DETACH} detaches"
    try:
        if writes:
            _resize(found)  # before anything changes here: whoever may not is told so
        with _raw(0), attached.restored():
            print(greeting, end="\r\n", file=sys.stderr, flush=True)
            anyio.run(attached.run)
    except NoServerAnswer as error:
        return failed(found, error)
    if attached.error is not None:
        return failed(found, attached.error)
    print(attached.farewell, file=sys.stderr)
    return attached.code


def _resize(found: FoundRun) -> None:
    size = os.get_terminal_size(1)  # not $COLUMNS, which is as old as the shell
    if not size.lines or not size.columns:
        return  # nobody has told this terminal how large it is
    fields = {"id": found.listed.run_id, "rows": size.lines, "columns": size.columns}
    client.ask(found.server.path, "resize", **fields)


@contextmanager
def _raw(fd: int) -> Iterator[None]:
    """Every key as it is pressed, and nothing echoed."""
    before = termios.tcgetattr(fd)
    tty.setraw(fd)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal may be gone
            # What was typed but not read is not for the shell that comes next.
            termios.tcflush(fd, termios.TCIFLUSH)
            termios.tcsetattr(fd, termios.TCSANOW, before)


class _Attached:
    """Three tasks, until one of them knows that it is over."""

    def __init__(self, found: FoundRun, *, writes: bool) -> None:
        self.farewell = ""
        self.code = 0
        self.error: NoServerAnswer | None = None
        self._found = found
        self._writes = writes
        self._detached = f"detached from {found.id}; it runs on."
        self._modes = TerminalModes()
        self._tasks: TaskGroup

    async def run(self) -> None:
        """Until the session ends, the person detaches or a signal comes."""
        async with anyio.create_task_group() as self._tasks:
            for task in (self._obey, self._show, self._type):
                self._tasks.start_soon(self._until_refused, task)

    async def _until_refused(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            await task()
        except NoServerAnswer as error:
            self.error = error
            self._tasks.cancel_scope.cancel()

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Undo what the session's program did to this terminal."""
        try:
            yield
        finally:
            with suppress(OSError):
                os.write(1, self._modes.undo() + b"\r\n")

    def _leave(self, farewell: str, code: int = 0) -> None:
        self.farewell, self.code = farewell, code
        self._tasks.cancel_scope.cancel()

    async def _show(self) -> None:
        total = (await _aside(partial(read, self._found, 0, 0))).total
        piece = await _aside(partial(read, self._found, max(0, total - _REPLAYED)))
        replayed = piece.data.partition(b"\n")[2] if piece.start else piece.data
        await self._print(without_questions(replayed))
        while not piece.last:
            piece = await _aside(partial(read, self._found, piece.end, wait=_WAIT))
            if piece.skipped:
                await self._print(f"\r\n[{piece.skipped} bytes are no longer kept]\r\n".encode())
            await self._print(piece.data)
        self._leave(f"{self._found.id} has ended: {describe_exit(piece.exit)}.")

    async def _print(self, data: bytes) -> None:
        self._modes.see(data)
        await _aside(partial(_write_all, data))

    async def _type(self) -> None:
        while True:
            await anyio.wait_readable(0)
            data = os.read(0, _TYPED_MAX)
            typed, detached = until_detached(data, ctrl_c=not self._writes)
            await self._pass_on(typed)
            if detached or not data:
                self._leave(self._detached)
                return

    async def _pass_on(self, typed: bytes) -> None:
        if not typed:
            return
        if not self._writes:
            await self._print(_BELL)
            return
        try:
            await _aside(partial(write, self._found, typed))
        except NoServerAnswer as error:
            if error.reply != "EXECUTION_ERROR":
                raise
            await self._print(_BELL)  # it reads nothing, or has just ended

    async def _obey(self) -> None:
        heard = (signal.SIGWINCH, signal.SIGTERM, signal.SIGHUP)
        with anyio.open_signal_receiver(*heard) as signals:
            async for number in signals:
                if number != signal.SIGWINCH:
                    self._leave(self._detached, 128 + number)
                elif self._writes:
                    with suppress(NoServerAnswer):  # others learn soon enough that it has ended
                        await _aside(partial(_resize, self._found))


async def _aside(call: Callable[[], T]) -> T:
    """In a thread that nobody waits for when it is over."""
    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
