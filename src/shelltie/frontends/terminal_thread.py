"""Terminal in a thread: an event loop of its own, for callers without one or with ever other ones.

Frameworks call from programs without an event loop, from several threads, and from a new loop for
each call (`asyncio.run`), while a terminal belongs to one loop and takes 26 ms to open. So it stays
open from call to call, where no caller's loop can end it.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Generic, TypeVar

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal

from shelltie.basics.frozen import frozen
from shelltie.errors import InvalidParameters

# Nothing forks while a terminal opens: what it was just importing would be imported by half in the
# child, for ever.
_FORKS = threading.RLock()
os.register_at_fork(
    before=_FORKS.acquire, after_in_parent=_FORKS.release, after_in_child=_FORKS.release
)

TerminalT = TypeVar("TerminalT")
ResultT = TypeVar("ResultT")


class TerminalThread(Generic[TerminalT]):
    """A terminal, or what has one, that the first call opens in a thread.

    `close` ends it, and so does the end of this object and of the program. A call after that opens
    it anew, and so does one in a forked process.
    """

    def __init__(self, terminal: AbstractAsyncContextManager[TerminalT]) -> None:
        self._terminal = terminal
        self._locks: dict[int, threading.Lock] = {}
        self._last: _Opened[TerminalT] | None = None
        self._finalizer: weakref.finalize[[], Any] | None = None

    def call(self, work: Callable[[TerminalT], Awaitable[ResultT]]) -> ResultT:
        """Have the terminal do this, from any thread. Ctrl-C here ends what it runs there.

        Raises: InvalidParameters in its own thread, which would wait for itself.
        """
        if self._is_here:
            raise InvalidParameters(
                "this thread is the terminal's own, and would wait for itself: call it elsewhere"
            )
        ended = Future[None]()

        async def task(terminal: TerminalT) -> ResultT:
            try:
                return await work(terminal)
            finally:
                ended.set_result(None)

        result = self._start(task)
        try:
            return result.result()
        except BaseException:
            if not result.done():  # it was raised here, as by Ctrl-C or an alarm
                result.cancel()
                ended.result()
            raise

    def _start(self, task: Callable[[TerminalT], Awaitable[ResultT]]) -> Future[ResultT]:
        while True:
            opened = self._open()
            try:
                return opened.portal.start_task_soon(task, opened.terminal)
            except RuntimeError:  # another thread has just closed it
                opened.left.set()

    async def call_async(self, work: Callable[[TerminalT], Awaitable[ResultT]]) -> ResultT:
        """The same from any event loop. Who is cancelled here has ended all that it runs there."""
        begun = False
        if self._is_here:
            assert self._last is not None
            return await work(self._last.terminal)

        async def task(terminal: TerminalT) -> ResultT:
            nonlocal begun
            begun = True
            return await work(terminal)

        while True:
            opened = self._current
            if opened is None:
                opened = await anyio.to_thread.run_sync(self._open)
            try:
                return await opened.portal.call_async(task, opened.terminal)
            except RuntimeError:
                if begun:
                    raise
                opened.left.set()  # another thread has just closed it

    def close(self) -> None:
        """End whatever still runs, and the thread. Calls that wait are cancelled."""
        if self._is_here:
            assert self._last is not None
            self._last.leave()
            return
        with self._lock:
            opened = self._of_this_process
        if opened is not None:
            opened.leave()
            opened.thread.join()

    @property
    def _lock(self) -> threading.Lock:
        # A thread that is not in the forked child may have held it when that was forked.
        return self._locks.setdefault(os.getpid(), threading.Lock())

    @property
    def _of_this_process(self) -> "_Opened[TerminalT] | None":
        # The threads of a process are not in its forked child.
        opened = self._last
        return opened if opened is not None and opened.pid == os.getpid() else None

    @property
    def _is_here(self) -> bool:
        """Whether this is its thread, as in `approve`."""
        opened = self._last
        return opened is not None and opened.thread is threading.current_thread()

    @property
    def _current(self) -> "_Opened[TerminalT] | None":
        opened = self._of_this_process
        return None if opened is None or opened.left.is_set() else opened

    def _open(self) -> "_Opened[TerminalT]":
        with self._lock:
            opened = self._current
            if opened is None:
                if (leaving := self._of_this_process) is not None:
                    leaving.thread.join()  # one terminal is not open twice
                self._last = opened = _open_thread(self._terminal)
                if self._finalizer is not None:
                    self._finalizer.detach()
                self._finalizer = weakref.finalize(self, opened.leave)
            return opened


@frozen
class _Opened(Generic[TerminalT]):
    """What the thread has, for other threads."""

    terminal: TerminalT
    portal: BlockingPortal
    loop: asyncio.AbstractEventLoop
    leaving: anyio.Event
    left: threading.Event
    thread: threading.Thread
    pid: int

    def leave(self) -> None:
        """Have the thread end, and do not wait: whoever collects garbage may hold any lock."""
        if self.pid == os.getpid():
            self.left.set()
            with suppress(RuntimeError):  # its loop has ended already
                self.loop.call_soon_threadsafe(self.leaving.set)


def _open_thread(terminal: AbstractAsyncContextManager[TerminalT]) -> _Opened[TerminalT]:
    ready, left = Future[_Opened[TerminalT]](), threading.Event()

    async def hold() -> None:
        async with terminal as opened, BlockingPortal() as portal:
            leaving, loop = anyio.Event(), asyncio.get_running_loop()
            ready.set_result(_Opened(opened, portal, loop, leaving, left, thread, os.getpid()))
            await leaving.wait()
            await portal.stop(cancel_remaining=True)

    def run() -> None:
        try:
            anyio.run(hold)
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)
        finally:
            left.set()

    # A program that ends does not wait for it: the keeper then ends whatever it has started.
    thread = threading.Thread(target=run, name="shelltie-terminal", daemon=True)
    with _FORKS:
        thread.start()
        try:
            return ready.result()
        except KeyboardInterrupt:
            ready.add_done_callback(_leave)
            thread.join()
            raise


def _leave(opening: "Future[_Opened[TerminalT]]") -> None:
    if opening.exception() is None:
        opening.result().leave()
