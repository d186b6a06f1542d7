"""MCP notifications during and after a call: bounded outgoing queue, the oldest is dropped."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup
from mcp.server.lowlevel import Server
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import EmptyResult, SetLevelRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from shelltie.basics.frozen import mutable
from shelltie.events import Event, RunEnded
from shelltie.frontends.mcp.log_messages import (
    NOTICES,
    LevelSet,
    LogLevels,
    Notices,
    RunNotice,
    level_of,
    on_stderr,
)
from shelltie.frontends.mcp.progress import NOT_STARTED, Status, line
from shelltie.frontends.mcp.request import FollowedRun, RequestContext, owner_of
from shelltie.model import RunId
from shelltie.running.interfaces import Bus
from shelltie.sessions.registry import Sessions
from shelltie.settings.all_settings import Pace

_log = logging.getLogger(__name__)

_UNSAID_MAX = 32
SendMessage = Callable[[], Awaitable[None]]


class OutgoingQueue:
    """What cannot be said is dropped, the oldest first."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._unsaid: deque[SendMessage] = deque(maxlen=_UNSAID_MAX)
        self._said: anyio.Event | None = None  # set when there is nothing left to say

    @property
    def sent(self) -> bool:
        """Whether anything was to be said at all."""
        return self._said is not None

    @property
    def busy(self) -> bool:
        """Whether the client has not heard everything yet."""
        return self._said is not None and not self._said.is_set()

    def put(self, say: SendMessage) -> None:
        """After what is said now."""
        self._unsaid.append(say)
        if not self.busy:
            self._said = anyio.Event()
            self._tasks.start_soon(self._speak, self._said)

    async def finish(self, most: float) -> None:
        """Wait until everything is said, but no longer than so many seconds."""
        if self._said is not None:
            with anyio.move_on_after(most):
                await self._said.wait()

    async def _speak(self, said: anyio.Event) -> None:
        while self._unsaid:
            try:
                await self._unsaid.popleft()()
            except Exception:  # noqa: BLE001  whatever the wire does, the run goes on
                _log.debug("a client could not be told", exc_info=True)
        said.set()


@mutable
class _QueuedNotice:
    """A run that goes on, and how its client can be reached; `calls` follow it themselves."""

    calls: int = 0
    subject: FollowedRun | None = None
    context: RequestContext | None = None
    speaker: OutgoingQueue | None = None


class LateNotifier:
    """Tells log messages only: progress ends with its call. What a call follows, the call tells."""

    def __init__(self, notices: Notices, wanted: LogLevels) -> None:
        self._notices = notices
        self._wanted = wanted
        self._runs: dict[RunId, _QueuedNotice] = {}

    def leave(self, subject: FollowedRun) -> None:
        """A call follows this run itself."""
        if subject.run.outcome is None:
            self._runs.setdefault(subject.run.id, _QueuedNotice()).calls += 1

    def take(self, subject: FollowedRun, context: RequestContext) -> None:
        """A call follows this run no longer; whoever made it still may want to know."""
        kept = self._runs.get(subject.run.id)
        if kept is None:
            return
        kept.calls -= 1
        kept.subject, kept.context = subject, context

    def hear(self, event: Event) -> None:
        """A listener of the bus."""
        if isinstance(event, RunEnded):
            self._runs.pop(event.run, None)
        elif isinstance(event, RunNotice) and (kept := self._runs.get(event.run)) is not None:
            self._tell(event, kept)

    def _tell(self, event: RunNotice, kept: _QueuedNotice) -> None:
        if kept.calls or kept.subject is None or kept.context is None:
            return
        context = kept.context
        if level_of(event) not in self._wanted.by(owner_of(context), context.protocol_version, {}):
            return
        tasks: TaskGroup = context.lifespan_context
        kept.speaker = kept.speaker or OutgoingQueue(tasks)
        notice = self._notices.about(event, kept.subject)
        kept.speaker.put(partial(context.session.send_notification, notice))


_LAST_WORDS = 1.0  # seconds for what was said just before the answer


class CallNotifier:
    """Speaks while inside `async with`, and never after. A client that does not listen delays
    nothing: what cannot be said is dropped.
    """

    def __init__(
        self,
        context: RequestContext,
        voices: "Notifiers",
        hears: LevelSet,
        afterwards: LateNotifier | None,
    ) -> None:
        self._context = context
        self._voices = voices
        self._hears = hears
        self._afterwards = afterwards
        self._wants_progress = progress_token_from_params(context.params) is not None
        self._began = anyio.current_time()
        self._reported = -1
        self._subject: FollowedRun | None = None
        self._tasks: TaskGroup = anyio.create_task_group()
        self._speaker = OutgoingQueue(self._tasks)
        self._leave: Callable[[], None] | None = None
        self._open = True

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        if self._wants_progress:
            self._tasks.start_soon(self._report_on)
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        self._open = False  # what a call does beyond its answer is told elsewhere, or nobody
        self._listen(None)
        try:
            if kind is None:
                await self._speaker.finish(_LAST_WORDS)
        finally:
            if self._wants_progress or self._speaker.sent:  # or nobody is to be cancelled
                self._tasks.cancel_scope.cancel()
            # Not told about the error: it would be wrapped, and callers want it as it is.
            await self._tasks.__aexit__(None, None, None)

    def follow(self, subject: FollowedRun) -> None:
        """From now on the call is about this run."""
        if self._open:
            self._listen(subject)

    # What happens

    def _listen(self, subject: FollowedRun | None) -> None:
        if self._leave is not None:
            self._leave()
        if self._afterwards is not None and self._subject is not None:
            self._afterwards.take(self._subject, self._context)
        if self._afterwards is not None and subject is not None:
            self._afterwards.leave(subject)
        self._subject = subject
        bus = self._voices.bus
        self._leave = None if subject is None else bus.subscribe(self._hear, NOTICES)

    def _hear(self, event: Event) -> None:
        if not isinstance(event, RunNotice):
            return
        if self._subject is None or event.run != self._subject.run.id:
            return
        if level_of(event) in self._hears:
            notice = self._voices.notices.about(event, self._subject)
            session, request = self._context.session, self._context.request_id
            self._speaker.put(partial(session.send_notification, notice, request))
        if self._wants_progress:
            self._report(event.message)

    async def _report_on(self) -> None:
        pace = self._voices.pace
        await anyio.sleep(pace.first)
        while True:
            if not self._speaker.busy:
                self._report(self._line())
            await anyio.sleep(pace.interval)

    # Saying it

    def _report(self, message: str) -> None:
        elapsed = anyio.current_time() - self._began
        self._reported = max(round(elapsed * 1000), self._reported + 1)
        report = self._context.session.report_progress
        total = self._total(elapsed)
        if total is not None:  # which ends a run a moment late, not early
            total = max(total, self._reported)
        self._speaker.put(partial(report, self._reported, total, message))

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


class Notifiers:
    """Of all calls of a server; who wants to hear which log messages."""

    def __init__(self, bus: Bus, pace: Pace, sessions: Sessions) -> None:
        self.bus = bus
        self.pace = pace
        self.notices = Notices(sessions)
        self._wanted = LogLevels()
        self._afterwards = LateNotifier(self.notices, self._wanted)
        bus.subscribe(on_stderr, NOTICES)
        bus.subscribe(self._afterwards.hear, NOTICES | {RunEnded})

    def of(self, context: RequestContext, owner: str) -> CallNotifier:
        """For one call."""
        version = context.protocol_version
        hears = self._wanted.by(owner, version, context.meta)
        # Without a handshake there is no way to a client but the answer to a request.
        lasting = None if version in MODERN_PROTOCOL_VERSIONS else self._afterwards
        return CallNotifier(context, self, hears, lasting)

    def add_to(self, server: Server[Any]) -> None:
        """Have clients with a handshake say what they want to hear.

        Not by the server's constructor, which warns that the newest protocol has this no longer.
        """
        server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)

    async def _set_level(
        self, context: RequestContext, params: SetLevelRequestParams
    ) -> EmptyResult:
        self._wanted.set(owner_of(context), params.level)
        return EmptyResult()
