"""What a client hears of its call before the answer: how far it is, and what it is warned of."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup
from mcp.server.lowlevel import Server
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import (
    EmptyResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    SetLevelRequestParams,
)

from shelltie.events import Event, LimitNear, LimitReached, SilentButWorking
from shelltie.frontends.mcp.call import Context, Subject, owner_of
from shelltie.frontends.mcp.progress import NOT_STARTED, Pace, Status, line
from shelltie.frontends.mcp.told import Levels, Told, Wanted, data_of, level_of, on_stderr
from shelltie.running.bus import Bus
from shelltie.running.timeout_watchdog import LOGGER_NAME

_log = logging.getLogger(__name__)

_UNSAID_MAX = 32
_LAST_WORDS = 1.0  # seconds for what was said just before the answer
_Say = Callable[[], Awaitable[None]]


class Voice:
    """Speaks while inside `async with`, and never after. A client that does not listen delays
    nothing: what cannot be said is dropped.
    """

    def __init__(self, context: Context, bus: Bus, hears: Levels, pace: Pace) -> None:
        self._context = context
        self._bus = bus
        self._hears = hears
        self._pace = pace
        self._wants_progress = progress_token_from_params(context.params) is not None
        self._began = anyio.current_time()
        self._reported = -1
        self._subject: Subject | None = None
        self._tasks: TaskGroup = anyio.create_task_group()
        self._unsaid: deque[_Say] = deque(maxlen=_UNSAID_MAX)
        self._said: anyio.Event | None = None  # set when a speaker has nothing left to say
        self._leave: Callable[[], None] | None = None
        self._open = True

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        if self._wants_progress:
            self._tasks.start_soon(self._report_on)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open = False  # what a call does beyond its answer is told nobody
        self._listen(None)
        try:
            if kind is None and self._said is not None:
                with anyio.move_on_after(_LAST_WORDS):
                    await self._said.wait()
        finally:
            if self._wants_progress or self._said is not None:  # or nobody is to be cancelled
                self._tasks.cancel_scope.cancel()
            # Not told about the error: it would be wrapped, and callers want it as it is.
            await self._tasks.__aexit__(None, None, None)

    def follow(self, subject: Subject) -> None:
        """From now on the call is about this run."""
        if self._open:
            self._listen(subject)

    # What happens

    def _listen(self, subject: Subject | None) -> None:
        if self._leave is not None:
            self._leave()
        self._subject = subject
        self._leave = None if subject is None else self._bus.subscribe(self._hear)

    def _hear(self, event: Event) -> None:
        if not isinstance(event, LimitNear | SilentButWorking | LimitReached):
            return
        if self._subject is None or event.run != self._subject.run.id:
            return
        if level_of(event) in self._hears:
            self._say(partial(self._log_message, event, self._subject))
        if self._wants_progress:
            self._report(event.message)

    async def _report_on(self) -> None:
        await anyio.sleep(self._pace.first)
        while True:
            if self._said is None or self._said.is_set():  # else it has not heard the last one yet
                self._report(self._line())
            await anyio.sleep(self._pace.interval)

    # Saying it

    def _say(self, say: _Say) -> None:
        self._unsaid.append(say)
        if self._said is None or self._said.is_set():
            self._said = anyio.Event()
            self._tasks.start_soon(self._speak, self._said)

    async def _speak(self, said: anyio.Event) -> None:
        while self._unsaid:
            try:
                await self._unsaid.popleft()()
            except Exception:  # noqa: BLE001  whatever the wire does, the run goes on
                _log.debug("a client could not be told", exc_info=True)
        said.set()

    def _report(self, message: str) -> None:
        elapsed = anyio.current_time() - self._began
        self._reported = max(round(elapsed * 1000), self._reported + 1)
        report = self._context.session.report_progress
        self._say(partial(report, self._reported, self._total(elapsed), message))

    def _line(self) -> str:
        if self._subject is None:
            return NOT_STARTED
        run, activity = self._subject.run, self._subject.activity()
        limits = run.rules.limits
        return line(Status(run.elapsed, run.idle, run.output.total, limits, activity))

    def _total(self, elapsed: float) -> int | None:
        """Milliseconds from the call to the run's last moment."""
        run = None if self._subject is None else self._subject.run
        if run is None or run.rules.limits.total is None:
            return None
        return round((elapsed - run.elapsed + run.rules.limits.total) * 1000)

    async def _log_message(self, event: Told, subject: Subject) -> None:
        message = LoggingMessageNotificationParams(
            level=level_of(event),
            logger=LOGGER_NAME,
            data=data_of(event, subject.task or subject.run.id, subject.run.elapsed),
        )
        notification = LoggingMessageNotification(params=message)
        await self._context.session.send_notification(notification, self._context.request_id)


class Voices:
    """Of all calls of a server; who wants to hear which log messages."""

    def __init__(self, bus: Bus, pace: Pace) -> None:
        self._bus = bus
        self._pace = pace
        self._wanted = Wanted()
        bus.subscribe(on_stderr)

    def of(self, context: Context) -> Voice:
        """For one call."""
        hears = self._wanted.by(owner_of(context), context.protocol_version, context.meta)
        return Voice(context, self._bus, hears, self._pace)

    def add_to(self, server: Server[Any]) -> None:
        """Have clients with a handshake say what they want to hear.

        Not by the server's constructor, which warns that the newest protocol has this no longer.
        """
        server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)

    async def _set_level(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        self._wanted.set(owner_of(context), params.level)
        return EmptyResult()
