"""Handover of a long run: when the client's patience ends, it goes on as a session."""

from dataclasses import field

from shelltie.basics.frozen import frozen
from shelltie.basics.times import human_duration
from shelltie.frontends.mcp.request import FollowedRun, ToolCall
from shelltie.running.run import Run
from shelltie.running.supervisor import Supervisor
from shelltie.sessions.registry import Sessions
from shelltie.sessions.session import Session
from shelltie.settings.all_settings import Waiting

_OWNERS_MAX = 1000  # of the last trials; far more than are kept


@frozen
class Handover:
    """Whom the tools give what they have started."""

    supervisor: Supervisor
    sessions: Sessions
    waiting: Waiting
    trial_owners: dict[str, str] = field(default_factory=dict)  # the client of each trial

    async def wait(self, subject: FollowedRun, call: ToolCall) -> Session | None:
        """Wait for the end of a run; if the caller's patience ends first, it becomes this session.

        Until then, whoever is cancelled here ends it.
        """
        call.follow(subject)
        run = subject.run
        self.note_trial(run, call.owner)
        await self.supervisor.attend(run, call.until)
        return None if run.outcome is not None else self.continue_as_session(run, call.owner)

    def note_trial(self, run: Run, owner: str) -> None:
        """Whose trial it is, if it is one."""
        if run.trial is not None:
            self.trial_owners[run.trial.id] = owner
        while len(self.trial_owners) > _OWNERS_MAX:
            del self.trial_owners[next(iter(self.trial_owners))]

    def continue_as_session(self, run: Run, owner: str) -> Session:
        """Let a run go on as a session; what it printed so far is read already."""
        session = self.sessions.adopt(run, owner, self.waiting)
        session.cursor = session.position
        return session


def running_fields(session: Session, *, shown: bool) -> dict[str, object]:
    """What every answer about a run that goes on has, to follow it; `shown` is whether the answer
    has all it printed so far, so that nobody has to be given it again.
    """
    run = session.run
    if shown:
        session.mark_delivered(0, session.position)
    total, silence = run.rules.limits.total, run.rules.limits.silence
    return {
        "status": "running",
        "exitCode": None,
        "sessionId": session.id,
        "position": session.position,
        "endsIn": {
            name: left
            for name, left in (
                ("execMs", _left(total, run.elapsed)),
                ("silenceMs", _left(silence, run.idle)),
            )
            if left is not None
        },
        "hint": advice(session),
    }


def advice(session: Session) -> str:
    """How to go on with it."""
    run, name = session.run, session.id
    return (
        f"It has run for {human_duration(run.elapsed)} and goes on as session {name}; this answer"
        " came because your client waits no longer. Do not start it again. Call terminal_continue"
        f' with {{"sessionId": "{name}"}} to wait for what it prints next and for its exit code,'
        f" terminal_output to read from any position, terminal_stop to end it. {_limits(run)}"
    )


def _limits(run: Run) -> str:
    limits = run.rules.limits
    held = [] if limits.total is None else [f"{human_duration(limits.total)} in all"]
    held += [] if limits.silence is None else [f"{human_duration(limits.silence)} without output"]
    if not held:
        return "It has no time limit."
    return f"Its limits go on: it is ended after {' or after '.join(held)}."


def _left(limit: float | None, used: float) -> int | None:
    return None if limit is None else max(0, round((limit - used) * 1000))
