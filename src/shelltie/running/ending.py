"""Builds the Outcome of a run from exit status, limits and escalation."""

import os
from dataclasses import field

from shelltie.basics.frozen import frozen, mutable
from shelltie.keeper.protocol import Noted
from shelltie.model import Ended, ExitStatus, Outcome, RefusedHost, State
from shelltie.running import activity
from shelltie.running.watchdog import TimeOut


@frozen
class EndTimes:
    """What the clocks say at the end, in seconds."""

    elapsed: float
    idle: float
    longest_silence: float
    longest_idle: float


@mutable
class Ending:
    """What is known so far.

    `gone`: nobody of it is left. `lost`: and nobody can prove that. `left` counts who was still
    there when the command had ended. `error` is why it could not start: a text, an exit code, and
    whether another attempt may succeed.
    """

    gone: bool = False
    lost: bool = False
    exit: ExitStatus | None = None
    left: int = 0
    timed_out: TimeOut | None = None
    stop_reason: str | None = None
    killed: bool = False
    refused: int = 0
    stuck: tuple[int, ...] = ()
    cpu: float | None = None
    error: tuple[str, int, bool] | None = None
    warnings: list[str] = field(default_factory=list)
    exhausted: list[str] = field(default_factory=list)
    refused_hosts: list[RefusedHost] = field(default_factory=list)
    undone: str | None = None
    unwritten: list[str] = field(default_factory=list)

    def note(self, said: Noted) -> None:
        """What the place says of it."""
        self.warnings += [said.message] if said.message else []
        self.refused_hosts += [said.refused] if said.refused else []
        self.exhausted += [said.exhausted] if said.exhausted else []
        self.undone = said.message if said.undone else self.undone
        self.unwritten += [said.message] if said.unwritten else []

    @property
    def decided(self) -> bool:
        """Whether it has an end already, or a reason for one."""
        ends = (self.exit, self.timed_out, self.stop_reason)
        return any(end is not None for end in ends)

    def settle_on(self) -> State:
        """The state it ends in; says why if nobody else has."""
        if self.error is not None:
            return State.SPAWN_FAILED
        if self.timed_out is not None:
            return State.TIMED_OUT
        if self.exit is None and self.stop_reason is None:
            self.stop_reason = "its leash was killed, by the command or from outside"
            self.killed = True  # and with it, or by the keeper, everybody whom it held
        return State.KILLED if self.stop_reason is not None else State.FINISHED

    def outcome(
        self, state: State, times: EndTimes, observer: activity.Observer | None, *, started: bool
    ) -> Outcome:
        """All of it."""
        error, exit_code, may_pass = self.error or (None, None, False)
        leaked = not self.gone and started and self.killed
        timed_out = self.timed_out
        ended = Ended.HARD if self.killed else Ended.SOFT
        return Outcome(
            state=state,
            exit=self.exit or ExitStatus(code=exit_code),
            duration=times.elapsed,
            limit=timed_out.limit if timed_out else None,
            timed_out_after=timed_out.elapsed if timed_out else None,
            idle=timed_out.idle if timed_out else times.idle,
            longest_silence=times.longest_silence,
            longest_idle=times.longest_idle,
            ended=ended if state in (State.TIMED_OUT, State.KILLED) else None,
            stop_reason=self.stop_reason,
            survivors=self.left,
            leaked=leaked or self.lost,
            leaked_pids=tuple(filter(activity.alive, self.stuck)) if leaked else (),
            refused_signals=self.refused,
            cpu=self.cpu,
            cpu_while_silent=observer.cpu_used if observer else None,
            sighting=observer.last if observer else None,
            tree=observer.tree if observer else (),
            error=error,
            may_pass=may_pass,
            warnings=tuple(self.warnings),
            exhausted=tuple(self.exhausted),
            undone=self.undone,
            unwritten=tuple(self.unwritten),
            refused_hosts=tuple(self.refused_hosts),
        )


def exit_status(wait_status: int) -> ExitStatus:
    """What `waitpid` gave, in our words."""
    code = os.waitstatus_to_exitcode(wait_status)
    return ExitStatus(code=code) if code >= 0 else ExitStatus(signal=-code)
