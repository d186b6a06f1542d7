"""Child process of the ACP agent, on a leash: it ends, with all it started, when the proxy does."""

import os
import select
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import anyio

from shelltie.environment import child
from shelltie.errors import CannotStart
from shelltie.frontends.fd_io import read
from shelltie.keeper.protocol import Exited, Failed, Gone, LeashWord, Lost, Started
from shelltie.model import Command, ExitStatus, Resources
from shelltie.providers.local import LocalProvider
from shelltie.providers.provider import Prepared
from shelltie.providers.spawn import LeashedProcess
from shelltie.running import messages
from shelltie.running.options import new_run_id

_GRACE = 2.0
_GONE = 3.0
_STDERR = 2
_PIECE = 4096  # a pipe that is writable takes so much without blocking
_FULL = 1.0  # seconds until what nobody reads is dropped


class AgentProcess:
    """An agent that speaks ACP on its stdin and stdout. Use it as `async with`.

    It has our whole environment: it is the user's program, and needs the user's keys. When its
    input has ended it has `grace` seconds to leave by itself.
    """

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], keeper: str | None, *, grace: float
    ) -> None:
        self.ended = anyio.Event()
        self.status = ExitStatus()
        # As every command of ours has one: who carries the mark may not say yes for a person.
        self.mark = new_run_id()
        self._argv = tuple(argv)
        self._env = {**env, child.RUN_MARK: self.mark}
        # Not the place where commands run: that one may be a sandbox, or far away.
        self._provider = LocalProvider(keeper)
        self._process: LeashedProcess | None = None
        self._grace = grace
        self._begun = anyio.Event()
        self._gone = anyio.Event()
        self._failure: Failed | None = None

    async def __aenter__(self) -> Self:
        cwd = str(Path.cwd())
        prepared = Prepared(self._argv, self._env, cwd, None, None, Resources(), stays_open=True)
        self._process = self._provider.spawn(prepared, self._hear)
        for fd in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(fd, False)
        try:
            await self._begun.wait()
            self._check()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    def _check(self) -> None:
        if self._failure is not None:
            command = Command(self._argv[0], self._argv)
            step, errno, reason = self._failure.step, self._failure.errno, self._failure.reason
            message, exit_code, _ = messages.start_failure(step, errno, command, reason)
            raise CannotStart(message, exit_code)

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        with anyio.CancelScope(shield=True):
            self._process.signal(signal.SIGKILL)
            with anyio.move_on_after(_GONE):
                await self._gone.wait()
            self._close_input()
            for fd in (self.stdout, self.stderr):
                os.close(fd)
            await self._provider.close()

    @property
    def stdin(self) -> int:
        """Where it reads."""
        assert self._process is not None
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> int:
        """Where it speaks."""
        assert self._process is not None
        return self._process.stdout

    @property
    def stderr(self) -> int:
        """Where it complains."""
        assert self._process is not None
        assert self._process.stderr is not None
        return self._process.stderr

    async def copy_errors(self) -> None:
        """Hand on what it complains about; where nobody reads that, it is dropped, not waited for.

        An agent whose stderr is not read stops in the middle of a word, and its session with it.
        """
        dropped = 0
        while chunk := await read(self.stderr):
            for start in range(0, len(chunk), _PIECE):
                piece = chunk[start : start + _PIECE]
                if _writable() or (not dropped and await _becomes_writable()):
                    if dropped:
                        note = f"\n⟨{dropped} bytes of the agent's errors were not read⟩\n"
                        piece, dropped = note.encode() + piece, 0
                    with suppress(OSError):
                        os.write(_STDERR, piece[:_PIECE])
                else:
                    dropped += len(piece)

    async def say_goodbye(self) -> None:
        """Its input has ended; give it a moment to leave by itself, then end it."""
        self._close_input()
        for number, grace in ((None, self._grace), (signal.SIGTERM, _GRACE)):
            if number is not None and self._process is not None:
                self._process.signal(number)
            with anyio.move_on_after(grace):
                await self.ended.wait()
                return

    def _hear(self, word: LeashWord) -> None:
        match word:
            case Started():
                self._begun.set()
            case Failed():
                self._failure = word
                self._begun.set()
            case Exited():
                code = os.waitstatus_to_exitcode(word.wait_status)
                self.status = ExitStatus(code) if code >= 0 else ExitStatus(signal=-code)
                self.ended.set()
            case Gone() | Lost():
                self._begun.set()
                self.ended.set()
                self._gone.set()
            case _:
                pass

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            anyio.notify_closing(self._process.stdin)
            os.close(self._process.stdin)
            self._process.stdin = None


def _writable() -> bool:
    """Whether our stderr takes something now."""
    with suppress(OSError):
        return bool(select.select([], [_STDERR], [], 0)[1])
    return True  # there is none: what is written is gone


async def _becomes_writable() -> bool:
    with anyio.move_on_after(_FULL), suppress(OSError):
        await anyio.wait_writable(_STDERR)
        return True
    return False
