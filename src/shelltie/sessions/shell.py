"""Persistent shell session: commands one by one, each with its output and exit code.

The shell is interactive, on a terminal, but reads its commands from a pipe of ours. So whatever is
typed reaches the command that runs, and is never itself a command that was not judged.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path

import anyio

from shelltie.basics.frozen import frozen, mutable
from shelltie.basics.safe_regex import Pattern
from shelltie.environment.child import UNPAGED
from shelltie.errors import (
    InvalidParameters,
    ProcessError,
    RunOver,
    SessionBusy,
    UnknownSession,
)
from shelltie.events import ShellCommandBegan, ShellCommandEnded
from shelltie.model import AUTO, OUTSIDE, Command, Isolation, Limits, RunId, TerminalSize
from shelltie.providers.provider import Provider
from shelltie.running.options import Requester, RunOptions, new_run_id
from shelltie.running.placement import Placed
from shelltie.running.supervisor import Supervisor
from shelltie.sessions import typed_input
from shelltie.sessions.registry import Sessions
from shelltie.sessions.session import Session, SessionReading
from shelltie.sessions.shell_marks import CommandMark
from shelltie.sessions.shell_pipe import (
    PASSED_TEXT_MAX,
    CommandPipe,
    MarkFilter,
    PassedPipe,
)
from shelltie.settings.all_settings import Waiting
from shelltie.verdict import Rating, Verdict

_TEXT_MAX = 1024 * 1024
_INTERRUPTS = (b"\x03", b"\x1c")
_INTERRUPT_TAKES = 0.3  # seconds; several in a row may have cost the shell the mark of the end


@frozen
class CommandEnd:
    """What a command printed since it was last read, and how it ended, if it has.

    `earlier` characters from `earlier_from` on were printed between commands and read by nobody.
    """

    command: str
    reading: SessionReading
    ended: bool
    exit_code: int | None
    cwd: str | None
    earlier: int = 0
    earlier_from: int = 0

    @property
    def output(self) -> str:
        """What it printed."""
        return self.reading.text


@frozen
class Start:
    """How a shell is started; `stdin` is typed for its first command. Without an `isolation` it has
    what the policy demands for unknown commands, which all are in a shell. On `trial` what its
    commands change is kept apart until it has ended.
    """

    cwd: str = "."
    env: Mapping[str, str | None] = field(default_factory=dict)
    size: TerminalSize = field(default_factory=TerminalSize)
    limits: Limits = field(default_factory=lambda: Limits(None, None, "sessions have no limit"))
    requester: Requester = field(default_factory=Requester)
    stdin: bytes | None = None
    isolation: str | None = None
    trial: bool = False


@mutable
class _Sent:
    """A command in the shell; its places are counted in characters."""

    number: int
    text: str
    start: int | None = None
    end: int | None = None
    exit_code: int | None = None
    read: int = 0
    told: bool = False
    interrupted: bool = False


class ShellSession:
    """Commands for one shell, one after the other."""

    def __init__(
        self, session: Session, desk: CommandPipe | PassedPipe, supervisor: Supervisor
    ) -> None:
        self.session = session
        self._provider = supervisor.placement.providers[session.run.provider]
        self._told_cwd: str | None = None
        self._supervisor = supervisor
        self._desk = desk
        self._sent: _Sent | None = None
        self._number = 0
        self._deciding = False
        run = session.run
        self._filter = MarkFilter(run.output, desk.marks, session.hear, self._pass)
        run.filter_output = self._filter.add
        session.leave()
        run.on_ended.append(self._end)
        if run.outcome is not None:
            self._end()

    @property
    def cwd(self) -> str | None:
        """Where it is. The kernel says so where it can: a shell's own word is anybody's."""
        run = self.session.run
        with suppress(OSError):
            if run.isolation == "none" and run.pid is not None and not self.session.complete:
                return str(Path(f"/proc/{run.pid}/cwd").readlink())
        return self._told_cwd

    @property
    def busy(self) -> bool:
        """A command runs in it."""
        return self._sent is not None and self._sent.end is None and not self.session.complete

    async def run(
        self,
        text: str,
        waiting: Waiting | None = None,
        wait_for: Pattern | None = None,
        requester: Requester = Requester(),  # noqa: B008  frozen
    ) -> CommandEnd:
        """Give it a command when it may run, and wait for its end, or until it asks for input.

        Raises: InvalidParameters, CommandDenied, SessionBusy, RunOver, JournalBroken; then it was
        not run.
        """
        self._check_free()
        self._deciding = True  # a question to a person may take long, and others come meanwhile
        try:
            command = Command(text, cwd=self.cwd or self.session.run.surroundings.cwd)
            run = self.session.run.id
            trial = self.session.run.trial is not None
            await _admit(self._supervisor, run, command, requester, self._provider, on_trial=trial)
            await self.announce(text)
            await self.session.unfinished()
        finally:
            self._deciding = False
        self.begin(text)
        return await self.follow(waiting, wait_for)

    async def announce(self, text: str) -> None:
        """Wait until it is on record that this will be run.

        Raises: JournalBroken.
        """
        run, number = self.session.run.id, self._number + 1
        told = ShellCommandBegan(run, time.time(), number, text)
        self._supervisor.bus.publish(told)
        problem = await self._supervisor.flush_record()
        if problem is not None and problem not in self.session.run.warnings:
            self.session.run.warn(problem)

    def begin(self, text: str) -> None:
        """Give it a command that was allowed already.

        Raises: InvalidParameters, SessionBusy, RunOver.
        """
        self._check_free()
        self.session.run.forget_input()  # it was meant for somebody else
        self.session.forget_line()
        self._number += 1
        self._desk.put(self._number, text)
        self._sent = _Sent(self._number, text)

    async def let_type(self, data: bytes, requester: Requester, *, end: bool = False) -> None:
        """Ask whether this may be typed for the command that runs.

        Raises: CommandDenied.
        """
        if self._sent is not None and self.busy:
            cwd = self.cwd or self.session.run.surroundings.cwd
            reader = Command(self._sent.text, cwd=cwd)
            await typed_input.admit(
                self._supervisor, self.session, reader, data, requester, end=end, in_shell=True
            )

    def type(self, data: bytes, *, end: bool = False) -> None:
        """Input for the command that runs, or its `end`.

        Raises: InvalidParameters when none runs; RunOver, InputFull.
        """
        if self.session.complete:
            raise RunOver("the shell has ended")
        if not self.busy:
            raise InvalidParameters(
                "no command runs in this shell, so nobody reads input: send a command instead"
            )
        assert self._sent is not None
        self._sent.interrupted = self._sent.interrupted or any(key in data for key in _INTERRUPTS)
        self.session.send(data)
        if end:
            self.session.run.input.end()

    async def follow(
        self, waiting: Waiting | None = None, wait_for: Pattern | None = None
    ) -> CommandEnd:
        """Wait for the end of the command that runs, or until it asks for input, and read on.

        Between commands: what was printed there, as of any session.
        """
        waiting = waiting or self.session.waiting
        sent = self._sent
        if sent is None or sent.told:
            reading = await self.session.exchange(b"", waiting, wait_for)
            text, code = ("", None) if sent is None else (sent.text, sent.exit_code)
            return CommandEnd(text, reading, ended=True, exit_code=code, cwd=self.cwd)
        async with self.session.turn:
            if sent.interrupted and self.busy:
                soon = anyio.current_time() + _INTERRUPT_TAKES
                await self._await_end(sent, replace(waiting, until=min(soon, waiting.until)))
            if sent.interrupted and self.busy:
                self._desk.ask(sent.number)
            return self._tell(sent, await self._await_end(sent, waiting, wait_for))

    async def _await_end(
        self, sent: _Sent, waiting: Waiting, wait_for: Pattern | None = None
    ) -> bool | None:
        start = sent.read or self.session.position
        return await self.session.until(lambda: sent.end is not None, start, waiting, wait_for)

    def _tell(self, sent: _Sent, found: bool | None) -> CommandEnd:
        session = self.session
        start = session.position if sent.start is None else max(sent.start, sent.read)
        earlier_from = min(session.cursor, start)
        earlier = start - earlier_from if start == sent.start else 0
        reading = session.reading(start, sent.end, found=found)
        session.cursor = sent.read = max(session.cursor, reading.position)
        sent.told = sent.end is not None or session.complete
        code = sent.exit_code
        if session.complete and sent.end is None:
            code = None if reading.exit is None else reading.exit.number
        return CommandEnd(sent.text, reading, sent.told, code, self.cwd, earlier, earlier_from)

    def _check_free(self) -> None:
        if self.session.complete:
            raise RunOver("the shell has ended: start another one")
        if self.busy or self._deciding:
            raise SessionBusy(
                "a command runs in this shell, or waits for a yes: give it input, interrupt it with"
                " ctrl-c, or wait for its end"
            )

    def _pass(self, mark: CommandMark) -> None:
        """What a mark says. One that is repeated, or not of the command that runs, says nothing."""
        sent, session = self._sent, self.session
        if sent is None or mark.number != sent.number or sent.end is not None:
            return
        self._told_cwd = mark.cwd
        if sent.start is None:  # an interrupt may have come before the beginning was marked
            sent.start = sent.read = session.position
        if not mark.begins:
            sent.end, sent.exit_code = session.position, mark.exit_code
            self._desk.clear()
            self._tell_ended(sent)
        session.hear(b"")

    def _tell_ended(self, sent: _Sent) -> None:
        run = self.session.run.id
        told = ShellCommandEnded(run, time.time(), sent.number, sent.exit_code)
        self._supervisor.bus.publish(told)

    def _end(self) -> None:
        self._filter.finish()
        self._desk.close()
        if self._sent is not None and self._sent.end is None:
            self._tell_ended(self._sent)
        self.session.end()


async def open_shell(
    sessions: Sessions,
    supervisor: Supervisor,
    owner: str,
    first: str,
    start: Start = Start(),  # noqa: B008  frozen
) -> ShellSession:
    """A shell in which the first command has begun; `follow` waits for its end.

    Raises: TooManySessions, InvalidParameters, CommandDenied, JournalBroken; and then nothing was
    run.
    """
    command = Command(first, cwd=start.cwd, env=start.env, stdin=start.stdin)
    provider, notes = await _place(supervisor, start)
    requester, trial = start.requester, start.trial
    await _admit(supervisor, new_run_id(), command, requester, provider, on_trial=trial)
    desk = CommandPipe() if provider.isolation is Isolation.NONE else PassedPipe()
    try:
        shell = replace(
            command, text="bash", argv=desk.argv, stdin=None, stays_open=True, pty=start.size
        )
        session = await sessions.open(
            shell,
            # Each command there ends by itself: a pager would wait for a key after each.
            RunOptions(
                None,
                start.limits,
                UNPAGED,
                requester=requester,
                provider=None if trial else provider.name,
                trial=trial,
                commands=desk.passed,
            ),
            owner,
            Waiting(),
        )
        for note in notes:
            session.run.warn(note)
        opened = ShellSession(session, desk, supervisor)
    except BaseException:
        desk.close()
        raise
    try:
        await opened.announce(first)
    except BaseException:
        with anyio.CancelScope(shield=True), suppress(ProcessError, UnknownSession):
            await sessions.stop(session.id, owner, "its first command could not be run")
        raise
    if not session.complete:
        opened.begin(first)
        if start.stdin:
            opened.type(start.stdin)
    return opened


async def _place(supervisor: Supervisor, start: Start) -> Placed:
    if start.isolation == OUTSIDE:
        raise InvalidParameters(
            f"isolation {OUTSIDE} is for one command that a person says yes to, not for a shell:"
            " start the command itself like that"
        )
    placement, asked = supervisor.placement, RunOptions("session", isolation=start.isolation)
    if not start.trial:
        return await placement.choose(asked, Verdict(Rating.UNKNOWN))
    if start.isolation not in (None, AUTO, Isolation.SANDBOX):
        raise InvalidParameters(f"a trial runs in a sandbox, and not in {start.isolation}")
    return placement.trial_provider, ()


async def _admit(
    supervisor: Supervisor,
    run: RunId,
    command: Command,
    requester: Requester,
    provider: Provider,
    *,
    on_trial: bool,
) -> None:
    _check(command.text)
    size = len(command.text.encode("utf-8", "surrogateescape"))
    if provider.isolation is not Isolation.NONE and size > PASSED_TEXT_MAX:
        raise InvalidParameters(
            f"command is longer than {PASSED_TEXT_MAX} bytes, which no isolated shell takes: use a"
            " file"
        )
    await supervisor.admission.admit_into(
        run, command, requester, live_shell=True, provider=provider, on_trial=on_trial
    )


def _check(text: str) -> None:
    if not text.strip():
        raise InvalidParameters("command is empty: give the text of a command")
    if "\0" in text:
        raise InvalidParameters("command has a NUL byte, which no shell takes")
    if len(text) > _TEXT_MAX:
        raise InvalidParameters(f"command is longer than {_TEXT_MAX} characters: use a file")
