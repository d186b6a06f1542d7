"""One terminal of ACP: a run, whose session it is, and how much of its output is shown."""

import signal
from dataclasses import dataclass

from shelltie.errors import InvalidParameters
from shelltie.frontends.acp.words import TerminalOutput, ending, exit_of
from shelltie.model import Escalation, EscalationStep, Outcome
from shelltie.output.redact import Redactor
from shelltie.output.store import Store
from shelltie.output.text import decode, whole_end, whole_start
from shelltie.running.run import Run

_RELEASED: Escalation = (EscalationStep(signal.SIGTERM, 1.0), EscalationStep(signal.SIGKILL, 2.0))
_AFTER_KILL = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class HostedTerminal:
    """A terminal that somebody holds the id of."""

    id: str
    session: str
    run: Run
    limit: int
    redact: bool = False

    def output(self, most: int | None = None) -> TerminalOutput:
        """What is to be seen now: the end of it, in whole characters, of `most` bytes at most."""
        outcome = self.run.outcome
        limit = self.limit if most is None else min(most, self.limit)
        text, truncated = shown(self.run.output, limit, ended=outcome is not None)
        if self.redact:
            text = Redactor(self.run.surroundings.secrets).text(text)
        status = None if outcome is None else exit_of(outcome)
        return TerminalOutput(text, truncated, status, ending(self.run.state, outcome))

    async def kill(self, escalation: Escalation | None, *, timed_out: bool) -> Outcome:
        """End it, and return when it is gone; what has ended stays as it ended.

        Raises: SignalFailed, KillFailed.
        """
        if timed_out:
            return await self.run.time_out()
        return await self.run.kill("terminal/kill", escalation)

    async def release(self) -> None:
        """End everything that is left of it.

        Raises: SignalFailed, KillFailed.
        """
        await self.run.kill("terminal/release", _RELEASED)


def shown(output: Store, limit: int, *, ended: bool) -> tuple[str, bool]:
    """The last `limit` bytes as text, never half a character, and whether something is missing."""
    kept = output.view(None, 0, limit)
    data = whole_start(kept.tail) if kept.omitted else kept.tail
    text = decode(data if ended else whole_end(data))
    # What is no UTF-8 takes three bytes for one when it is shown.
    encoded = text.encode()
    if len(encoded) > limit:
        return whole_start(encoded[len(encoded) - limit :]).decode(), True
    return text, kept.omitted > 0


def chosen(number: int | None, grace: float | None) -> Escalation | None:
    """The signal and the grace that a call asked for; `None` if it asked for neither."""
    if number is None and grace is None:
        return None
    first = EscalationStep(number or signal.SIGTERM, 5.0 if grace is None else grace)
    return (first, EscalationStep(signal.SIGKILL, _AFTER_KILL))


def signal_number(name: object) -> int:
    """`SIGINT`, `INT` or 2.

    Raises: InvalidParameters.
    """
    match name:
        case str(text) if text.upper().removeprefix("SIG") in _SIGNALS:
            return _SIGNALS[text.upper().removeprefix("SIG")]
        case int(number) if not isinstance(name, bool) and number in _SIGNALS.values():
            return number
        case _:
            raise InvalidParameters(f"signal must be a name like SIGINT, not {str(name)[:40]!r}")


# Not every signal ends anybody: to stop or to continue is no kill.
_SIGNALS = {
    one.name.removeprefix("SIG"): int(one)
    for one in signal.Signals
    if one.name not in ("SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT", "SIGCHLD")
}
