"""SyncTerminal: a terminal for programs without an event loop, and for any thread.

>>> with SyncTerminal() as terminal:
...     result = terminal.run("echo hello", timeout=60)
...     terminal.files.write("notes/today", "nothing yet")
...     print(result.exit_code, terminal.files.read("notes/today").decode())
0 nothing yet

A command that is started goes on while its caller does something else:

>>> with SyncTerminal() as terminal:
...     server = terminal.start("echo ready; sleep 600", silence=0)
...     tests = terminal.run("sleep 1; echo all tests pass")
...     print(tests.stdout + server.kill("no longer needed").stdout)
all tests pass
ready
<BLANKLINE>
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self, TypeVar, Unpack

import anyio

from shelltie.approval.broker import Callback
from shelltie.frontends.api import Options, Terminal
from shelltie.frontends.files import ENTRIES_LIMIT, READ_LIMIT, TREE_LIMIT, Files
from shelltie.frontends.reports.run_report import Result, report
from shelltie.frontends.terminal_thread import TerminalThread
from shelltie.model import Caller
from shelltie.providers.files.place_files import FileEntry, FilePath, TreeCopied
from shelltie.providers.provider import Provider
from shelltie.running.run import Run
from shelltie.running.staying_note import StayingNote
from shelltie.settings.config import Config

_Value = TypeVar("_Value")


class SyncTerminal:
    """`Terminal`, with calls that wait: use it as `with`; nothing it started outlives it.

    It runs in a thread of its own, so that any number of threads may call it, also where an event
    loop runs, which waits meanwhile. It opens with the first call, and after `close` or in a forked
    process it opens anew. `approve` is called in that thread. Ctrl-C ends the command; `close` ends
    those of other threads, whose calls raise `concurrent.futures.CancelledError`.
    """

    def __init__(
        self,
        config: Config | None = None,
        approve: Callback | None = None,
        caller: Caller | None = None,
        providers: Sequence[Provider] = (),
    ) -> None:
        terminal = Terminal(config, approve=approve, caller=caller, providers=providers)
        self._thread = TerminalThread(terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End whatever still runs, and the thread."""
        self._thread.close()

    def run(self, command: str | Sequence[str], **options: Unpack[Options]) -> Result:
        """See `Terminal.run`.

        Raises: as that.
        """
        return self._thread.call(lambda terminal: terminal.run(command, **options))

    def start(
        self, command: str | Sequence[str], *, stays: bool = False, **options: Unpack[Options]
    ) -> "SyncRun":
        """See `Terminal.start`.

        Raises: as that.
        """
        run = self._thread.call(lambda terminal: terminal.start(command, stays=stays, **options))
        return SyncRun(self._thread, run)

    def staying(self) -> tuple[StayingNote, ...]:
        """See `Terminal.staying`."""

        async def look(terminal: Terminal) -> tuple[StayingNote, ...]:
            return terminal.staying()

        return self._thread.call(look)

    def adopt(self, run: str, *, take: bool = False) -> "SyncRun":
        """See `Terminal.adopt`.

        Raises: as that.
        """
        held = self._thread.call(lambda terminal: terminal.adopt(run, take=take))
        return SyncRun(self._thread, held)

    @property
    def files(self) -> "SyncFiles":
        """See `Terminal.files`."""
        return SyncFiles(self._thread, lambda files: files)


class SyncRun:
    """A command that runs in a `SyncTerminal`, which ends it when it is closed."""

    def __init__(self, thread: TerminalThread[Terminal], run: Run) -> None:
        self._thread = thread
        self._run = run

    @property
    def id(self) -> str:
        """By which `shelltie ps`, `logs` and `kill` know it."""
        return self._run.id

    def wait(self, timeout: float | None = None) -> Result:
        """What became of it, when it has ended.

        Raises: TimeoutError if it has not after so many seconds; it goes on. RunOver if it stays,
        and is not ours any more.
        """

        async def wait(_: Terminal) -> None:
            with anyio.fail_after(timeout):
                await self._run.wait()

        return self._result_after(wait)

    def kill(self, reason: str) -> Result:
        """End it with everything it started.

        Raises: KillFailed, SignalFailed when some are left; RunOver as `wait`.
        """

        async def kill(_: Terminal) -> None:
            await self._run.kill(reason)

        return self._result_after(kill)

    def read(self, start: int = 0) -> bytes:
        """What it has printed so far from this byte on, as far as that is kept without a gap."""

        async def read(_: Terminal) -> bytes:
            return self._run.output.read(start, self._run.output.total).data

        return self._thread.call(read)

    def write(self, data: bytes | str) -> None:
        """Type it into a command that `stays`.

        Raises: RunOver if it has ended or takes no input, InputFull.
        """

        async def write(_: Terminal) -> None:
            self._run.input.write(data.encode() if isinstance(data, str) else data)

        self._thread.call(write)

    def _result_after(self, act: Callable[[Terminal], Awaitable[None]]) -> Result:
        if self._run.outcome is None:
            self._thread.call(act)
        return report(self._run)


class SyncFiles:
    """`Files`, with calls that wait. Raises: as those."""

    def __init__(self, thread: TerminalThread[Terminal], find: Callable[[Files], Files]) -> None:
        self._thread = thread
        self._find = find

    def _call(self, act: Callable[[Files], Awaitable[_Value]]) -> _Value:
        return self._thread.call(lambda terminal: act(self._find(terminal.files)))

    def at(self, workspace: FilePath, **where: Any) -> "SyncFiles":  # noqa: ANN401  as `Files.at`
        """Those of another workspace: see `Files.at`, with the same arguments."""
        return SyncFiles(self._thread, lambda files: files.at(workspace, **where))

    def read(self, path: FilePath, limit: int = READ_LIMIT) -> bytes:
        """This and the following: see `Files`."""
        return self._call(lambda files: files.read(path, limit))

    def write(self, path: FilePath, data: bytes | str, mode: int | None = None) -> None:
        self._call(lambda files: files.write(path, data, mode))

    def list(self, path: FilePath = ".", limit: int = ENTRIES_LIMIT) -> tuple[FileEntry, ...]:
        return self._call(lambda files: files.list(path, limit))

    def stat(self, path: FilePath) -> FileEntry:
        return self._call(lambda files: files.stat(path))

    def make_directory(self, path: FilePath) -> None:
        self._call(lambda files: files.make_directory(path))

    def remove(self, path: FilePath, *, tree: bool = False) -> None:
        self._call(lambda files: files.remove(path, tree=tree))

    def upload(
        self,
        source: FilePath,
        path: FilePath,
        limit: int = TREE_LIMIT,
        entries: int = ENTRIES_LIMIT,
    ) -> TreeCopied:
        return self._call(lambda files: files.upload(source, path, limit, entries))

    def download(
        self,
        path: FilePath,
        target: FilePath,
        limit: int = TREE_LIMIT,
        entries: int = ENTRIES_LIMIT,
    ) -> TreeCopied:
        return self._call(lambda files: files.download(path, target, limit, entries))
