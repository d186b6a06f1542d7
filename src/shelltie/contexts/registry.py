"""Registry of task contexts: ownership, quotas, idle expiry and closing."""

import math
import os
import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Self

import anyio

from shelltie.basics.frozen import frozen
from shelltie.basics.ids import MillisecondIds
from shelltie.basics.lazy_regex import lazy
from shelltie.basics.times import human_duration
from shelltie.contexts import fields
from shelltie.contexts.context import Context, Executed, StillRunning
from shelltie.contexts.program_access import Access
from shelltie.environment import child as variables
from shelltie.errors import (
    CannotStart,
    CommandDenied,
    ProcessError,
    TooManySessions,
    UnknownSession,
)
from shelltie.events import (
    Asker,
    ContextClosed,
    ContextOpened,
    ContextRefused,
)
from shelltie.model import Command, Escalation, EscalationStep, Isolation, Limits, Survivors
from shelltie.running.alarms import Alarm, Alarms
from shelltie.running.options import Requester, RunOptions, new_run_id
from shelltie.running.run import Run
from shelltie.running.supervisor import Supervisor
from shelltie.settings.all_settings import TaskLimits

_TOMBSTONES = 1000
_LEAVING: Escalation = (EscalationStep(signal.SIGTERM, 1.0), EscalationStep(signal.SIGKILL, 1.0))
_PRINTABLE_ID = lazy(r"[!-~]{1,200}")
# What else has an id, and what to do with it.
_OTHER_IDS = (
    (
        lazy(r"term-\d{1,18}"),
        "this is the id of an interactive session; use it with terminal_continue,"
        " terminal_output or terminal_stop",
    ),
    (lazy(r"(term|sess)_[0-9A-Z]{26}"), "this is the id of an ACP terminal or session"),
    (lazy(r"task-\d{13,}(-\d+)?"), "this is the id of an agent's task"),
    (lazy(r"[0-9A-HJKMNP-TV-Z]{26}"), "this is the id of a run"),
)


@frozen
class _Tombstone:
    """Whose it was, and why it is gone."""

    owner: str
    reason: str


class Contexts:
    """The registry. Make it where the event loop runs, and use it as `async with`.

    Each context is its owner's alone. No id is given twice.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        access: Access,
        project: Path,
        limits: TaskLimits = TaskLimits(),  # noqa: B008  frozen
        passed: Sequence[str] = (),
        isolation: str = Isolation.NONE,
    ) -> None:
        """`project` is where relative directories begin; `passed` is `environment.pass`.

        `isolation` is a level, or `auto`, for all: what the list allows is not judged.
        """
        self.limits = limits
        self._supervisor = supervisor
        self._access = access
        self._project = os.path.abspath(project)  # noqa: PTH100  resolve() would follow links
        self._publish = supervisor.bus.publish
        self._isolation = isolation
        self._base = variables.sift(variables.inherited(), passed)
        self._alarms = Alarms()
        self._contexts: dict[str, Context] = {}
        self._gone: dict[str, _Tombstone] = {}
        self._ids = MillisecondIds()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._end_all(lambda _: True, "the server is leaving", _LEAVING)

    # Coming and going

    def create(
        self,
        task: str,
        agent: str,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        owner: str = "",
    ) -> Context:
        """A context for a task; `cwd` is relative to the project.

        Variables that no command gets, and a directory that is not there yet, are `warnings`.
        Raises: InvalidParameters, which says of each field what is wrong; TooManySessions.
        """
        self._check(task, agent, cwd, environment)
        directory = os.path.normpath(os.path.join(self._project, cwd or "."))  # noqa: PTH118  as above
        fields.check(cwd=fields.no_directory(directory))
        active = sum(one.owner == owner for one in self._contexts.values())
        most = self.limits.sessions
        if active >= most:
            message = (
                f"{active} task sessions of yours are open, and {most} may be: close one first"
            )
            raise TooManySessions(message, active, most)
        given = environment or {}
        asker = Asker(f"term-{task}-{self._ids.new()}", task, agent)
        kept = fields.sanitized(given, self._base)
        context = Context(asker, owner, directory, kept, self._publish)
        context.warnings = tuple(_warnings(given, kept, directory))
        self._contexts[context.id] = context
        # Close it when nobody has used it for long.
        if self.limits.ttl:
            context.alarm = Alarm(partial(self._look, context))
            self._alarms.set(context.alarm, context.used + self.limits.ttl)
        self._publish(ContextOpened(asker, context.created, directory))
        return context

    def get(self, session_id: str, owner: str = "") -> Context:
        """The context of that id.

        Raises: UnknownSession, which says what it may be instead; InvalidParameters.
        """
        fields.check(session=fields.wrong_session(session_id))
        context = self._contexts.get(session_id)
        if context is None or context.owner != owner:
            plain = _PRINTABLE_ID.fullmatch(session_id)
            shown = session_id if plain else repr(session_id[:100])
            raise UnknownSession(f"Session {shown} not found{self._why(session_id, owner)}")
        return context

    def all(self) -> list[Context]:
        """All of them, for a person."""
        return list(self._contexts.values())

    async def close(self, session_id: str, *, owner: str = "") -> bool:
        """End what runs in it, with everything it started. `False` if it was closed before.

        Raises: UnknownSession; ProcessError when some of it could not be ended.
        """
        fields.check(session=fields.wrong_session(session_id))
        if self._tombstone(session_id, owner) is not None:
            return False
        await self._end(self.get(session_id, owner), "it was closed")
        return True

    async def close_task(self, task: str) -> int:
        """The task has ended: close its contexts, whoever owns them, and say how many."""
        return await self._end_all(lambda context: context.asker.task == task, "its task ended")

    async def close_owner(self, owner: str) -> int:
        """The owner has left: close what was its own, and say how many."""
        return await self._end_all(lambda context: context.owner == owner, "its owner left")

    # Commands

    async def execute(
        self,
        session_id: str,
        command: str,
        args: Sequence[str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  a limit for the command, not for the call
        *,
        queue: bool = True,
        owner: str = "",
        until: float = math.inf,
        started: Callable[[Run], None] | None = None,
    ) -> Executed | StillRunning:
        """Run an allowed program without a shell, when those before it have ended.

        `timeout` is in seconds; to wait for its turn costs a command nothing of it. Without `queue`
        it does not wait. `started` is told of the run, which goes on if it has not ended at
        `until`. Raises: UnknownSession, InvalidParameters, CommandDenied, CannotStart, SessionBusy;
        then nothing was started. ContextClosedEarly when the context was closed meanwhile.
        """
        fields.check(
            session=fields.wrong_session(session_id),
            command=fields.wrong_command(command),
            args=fields.wrong_args(args),
            timeout=fields.wrong_timeout(timeout),
            queue=fields.wrong_flag(queue),
        )
        context = self.get(session_id, owner)
        words = () if args is None else args
        with suppress(CannotStart):  # that is a failed command, and has to wait for its turn
            self._allowed(context, command, words)
        async with context.turn(queue=queue, until=until):
            limits = fields.limits_for(timeout, self.limits)
            run = await self._start(context, command, words, limits)
            if started is not None:
                started(run)
            return await context.attend(run, self.limits.output, until)

    async def _start(
        self, context: Context, command: str, args: Sequence[str], limits: Limits
    ) -> Run:
        text = shlex.join((command, *args)) if args else command
        try:
            argv = self._allowed(context, command, args)  # again: it may have waited for long
        except CannotStart as error:
            context.missing(text, limits, error)
            raise
        asked = Command(text, argv, context.cwd, context.environment)
        # What it leaves behind is ended with it, whatever the settings say: a task ends for good.
        wish = RunOptions(
            None,
            limits,
            context.own,
            survivors=Survivors.KILL,
            requester=Requester(context.caller),
            isolation=self._isolation,
        )
        return await self._supervisor.start(asked, wish)

    def _allowed(self, context: Context, command: str, args: Sequence[str]) -> tuple[str, ...]:
        try:
            return self._access.check(command, args, cwd=context.cwd)
        except CommandDenied as refusal:
            text = shlex.join((command, *args))
            run, now, code = new_run_id(), time.time(), refusal.code
            self._publish(
                ContextRefused(
                    run, now, text, code, str(refusal), context.asker, dict(refusal.details)
                )
            )
            raise

    # The end

    async def _end_all(
        self, which: Callable[[Context], bool], reason: str, escalation: Escalation | None = None
    ) -> int:
        chosen = [context for context in self._contexts.values() if which(context)]
        async with anyio.create_task_group() as tasks:
            for context in chosen:
                tasks.start_soon(self._end_quietly, context, reason, escalation)
        return len(chosen)

    async def _end_quietly(
        self, context: Context, reason: str, escalation: Escalation | None
    ) -> None:
        if context.closed is None:  # by somebody else, meanwhile
            with suppress(ProcessError):
                await self._end(context, reason, escalation)

    async def _end(
        self, context: Context, reason: str, escalation: Escalation | None = None
    ) -> None:
        self._forget(context, reason)
        try:
            await context.end(reason, escalation)
        finally:
            self._tell_closed(context)

    def _forget(self, context: Context, reason: str) -> None:
        del self._contexts[context.id]
        self._gone[context.id] = _Tombstone(context.owner, reason)
        while len(self._gone) > _TOMBSTONES:
            del self._gone[next(iter(self._gone))]
        context.shut(reason)
        if context.alarm is not None:
            self._alarms.set(context.alarm, None)

    def _tell_closed(self, context: Context) -> None:
        assert context.closed is not None
        self._publish(ContextClosed(context.asker, time.time(), context.closed, context.commands))

    def _look(self, context: Context, now: float) -> None:
        ttl = self.limits.ttl
        if context.closed is not None or context.alarm is None:
            return
        if context.busy:
            self._alarms.set(context.alarm, now + ttl)
        elif now < context.used + ttl:
            self._alarms.set(context.alarm, context.used + ttl)
        else:
            self._forget(context, f"it was not used for {human_duration(ttl)}")
            self._tell_closed(context)

    # What callers see

    def _check(self, task: object, agent: object, cwd: object, environment: object) -> None:
        wrong = {
            "task": fields.wrong_task(task),
            "agent": fields.wrong_agent(agent),
            "cwd": fields.wrong_directory(cwd),
            **fields.wrong_variables(environment, self._base),
        }
        fields.check(**wrong)

    def _tombstone(self, session_id: str, owner: str) -> _Tombstone | None:
        gone = self._gone.get(session_id)
        return None if gone is None or gone.owner != owner else gone

    def _why(self, session_id: str, owner: str) -> str:
        if (gone := self._tombstone(session_id, owner)) is not None:
            return f": {gone.reason}"
        advice = (why for pattern, why in _OTHER_IDS if pattern.fullmatch(session_id))
        return next((f": {why}" for why in advice), "")


def _warnings(given: Mapping[str, str], kept: Mapping[str, str], directory: str) -> list[str]:
    warnings = []
    if not os.path.exists(directory):  # noqa: PTH110  as above
        warnings.append(f"{directory} does not exist: make it before the first command")
    if withheld := sorted(given.keys() - kept.keys() - set(fields.OWN)):
        warnings.append(f"commands do not get what looks like a secret: {', '.join(withheld)}")
    if own := sorted(given.keys() & set(fields.OWN)):
        warnings.append(f"the session itself sets {', '.join(own)}")
    return warnings
