"""execute_with_timeout: an agent runs a command in its client's terminal, with its own timeout.

Works over any ACP connection (the one the SDK gives an agent), and directly on a `TerminalHost`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import anyio

from shelltie.basics.frozen import frozen
from shelltie.basics.times import seconds
from shelltie.errors import InvalidParameters, KillFailed, SignalFailed, WaitFailed
from shelltie.frontends.acp.protocol import TerminalExit

_CLEAN_UP = 10.0  # seconds for a client to answer when we leave


class _Made(Protocol):
    @property
    def terminal_id(self) -> str: ...


class _Ended(Protocol):
    @property
    def exit_code(self) -> int | None: ...

    @property
    def signal(self) -> str | None: ...


class _Seen(Protocol):
    @property
    def output(self) -> str: ...

    @property
    def truncated(self) -> bool: ...


class Terminals(Protocol):
    """Whoever has ACP's five terminal methods, by the names of the Python SDK."""

    @property
    def create_terminal(self) -> Callable[..., Awaitable[_Made]]: ...

    @property
    def terminal_output(self) -> Callable[..., Awaitable[_Seen]]: ...

    @property
    def wait_for_terminal_exit(self) -> Callable[..., Awaitable[_Ended]]: ...

    @property
    def kill_terminal(self) -> Callable[..., Awaitable[object]]: ...

    @property
    def release_terminal(self) -> Callable[..., Awaitable[object]]: ...


@frozen
class Completed:
    """It ended by itself in time; what it printed is there as well."""

    exit_status: TerminalExit
    output: str = ""
    truncated: bool = False


@frozen
class TimedOut:
    """It took too long and was ended; `output` is all that it had printed."""

    output: str
    truncated: bool


TerminalTimeoutResult = Completed | TimedOut


@frozen
class TerminalTimeout:
    """A terminal that was created, and the seconds it may take from now on."""

    terminal_id: str
    timeout_duration: float
    session_id: str

    async def execute_with_timeout(self, terminals: Terminals) -> TerminalTimeoutResult:
        """Wait for its end or for the timer, whichever comes first; then it is released, always.

        Raises: WaitFailed, KillFailed, SignalFailed; even then the release was tried.
        """
        ids = (self.session_id, self.terminal_id)
        try:
            ended = await self._race(terminals)
            if ended is None:
                await _kill(terminals, ids)
            seen = await _read(terminals, ids)
        finally:
            with anyio.move_on_after(_CLEAN_UP, shield=True), suppress(Exception):
                await terminals.release_terminal(*ids)
        if ended is None:
            return TimedOut(seen.output, seen.truncated)
        status = TerminalExit(ended.exit_code, ended.signal, getattr(ended, "field_meta", None))
        return Completed(status, seen.output, seen.truncated)

    async def _race(self, terminals: Terminals) -> _Ended | None:
        """How it ended; `None` if the timer was faster."""
        with anyio.move_on_after(self.timeout_duration):
            try:
                return await terminals.wait_for_terminal_exit(self.session_id, self.terminal_id)
            except Exception as error:
                raise WaitFailed(f"the end of {self.terminal_id} was not told: {error}") from error
        return None


async def execute_with_timeout(
    terminals: Terminals,
    session_id: str,
    command: str,
    args: Sequence[str] = (),
    *,
    timeout: float,  # noqa: ASYNC109  it ends the command, and the result says so
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    output_byte_limit: int | None = None,
) -> TerminalTimeoutResult:
    """All five steps: create, race the timer and the exit, kill if the timer wins, read, release.

    Raises: InvalidParameters; WaitFailed, KillFailed, SignalFailed; and whatever the connection
    raises when the terminal cannot be created.
    """
    try:
        span = seconds(timeout, "timeout")
    except ValueError as error:
        raise InvalidParameters(str(error)) from error
    if span is None:
        raise InvalidParameters("timeout must be more than 0 seconds")
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    terminal = await terminals.create_terminal(
        session_id=session_id,
        command=command,
        args=list(args),
        env=variables,
        cwd=cwd,
        output_byte_limit=output_byte_limit,
    )
    waiting = TerminalTimeout(terminal.terminal_id, span, session_id)
    return await waiting.execute_with_timeout(terminals)


async def _kill(terminals: Terminals, ids: tuple[str, str]) -> None:
    try:
        await terminals.kill_terminal(*ids, timedOut=True)
    except (SignalFailed, KillFailed):
        raise
    except Exception as error:
        data = getattr(error, "data", None)
        named = data.get("error") if isinstance(data, dict) else None
        failure = SignalFailed if named == "SignalFailed" else KillFailed
        raise failure(f"{ids[1]} could not be ended: {error}") from error


async def _read(terminals: Terminals, ids: tuple[str, str]) -> _Seen:
    try:
        return await terminals.terminal_output(*ids)
    except Exception as error:
        raise WaitFailed(f"what {ids[1]} printed could not be read: {error}") from error
