"""HostedTerminal: one ACP terminal, with its run, its owning session and its output limit."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass

from shelltie.basics.json_codec import as_json
from shelltie.errors import InvalidParameters
from shelltie.frontends.acp.protocol import Meta, TerminalExit, TerminalOutput, ending, exit_of
from shelltie.frontends.reports.run_report import kept_from
from shelltie.model import Escalation, EscalationStep, Outcome, Survivors
from shelltie.output.redact import Redactor
from shelltie.output.store import Store
from shelltie.output.text import clean, decode, from_line_start, whole_end, whole_start
from shelltie.running.messages import variables_withheld, withheld_of
from shelltie.running.on_trial import TrialReport
from shelltie.running.run import Run

_RELEASED: Escalation = (EscalationStep(signal.SIGTERM, 1.0), EscalationStep(signal.SIGKILL, 2.0))
_AFTER_KILL = 2.0
_OUTSIDE = 'terminal/create with this command and "isolation": "outside" in _meta'
_ROOM_FOR_NOTE = 1024  # bytes; who wants less output than this wants it without remarks


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
        note = self.note() if limit >= _ROOM_FOR_NOTE else ""
        text, truncated = shown(
            self.run.output,
            limit - len(note.encode()),
            ended=outcome is not None,
            as_screen=self.run.command.pty is not None,
        )
        if self.redact:
            text = Redactor(self.run.surroundings.secrets).text(text)
        status = None if outcome is None else exit_of(outcome)
        return TerminalOutput(text + note, truncated, status, self.meta())

    def exit(self) -> TerminalExit:
        """How it ended, with all that there is to say about that."""
        assert self.run.outcome is not None
        ended = exit_of(self.run.outcome)
        return TerminalExit(ended.exit_code, ended.signal, self.meta())

    def meta(self) -> Meta:
        """What the standard fields have no place for."""
        said = ending(self.run.state, self.run.outcome)
        if self.run.outcome is None:
            return said
        report = None if self.run.trial is None else self.run.trial.report
        trial = {} if report is None else {"trial": without_folder(report)}
        return said | {"warnings": self.warnings} | trial

    @property
    def withheld(self) -> list[str]:
        """The variables of the call that its command did not get."""
        return withheld_of(self.run.command, self.run.surroundings.withheld)

    @property
    def warnings(self) -> list[str]:
        """What whoever asked for it would otherwise not notice."""
        about_withheld = [variables_withheld(names)] if (names := self.withheld) else []
        redactor = Redactor(self.run.surroundings.secrets) if self.redact else None
        place = (*_unwritten(self.run), *kept_from(self.run, _OUTSIDE, redactor))
        return [*_about_survivors(self.run), *about_withheld, *_about_trial(self.run), *place]

    def note(self) -> str:
        """The warnings as last lines of its output, which is all that a model sees; at its end."""
        if self.run.outcome is None or not self.warnings:
            return ""
        total = self.run.output.total
        last = self.run.output.read(total - 1, total).data if total else b"\n"
        lines = "".join(f"⟨shelltie: {warning}⟩\n" for warning in self.warnings)
        return lines if last == b"\n" else f"\n{lines}"

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


def _about_survivors(run: Run) -> Iterator[str]:
    outcome = run.outcome
    if outcome is None or not outcome.survivors or outcome.stop_reason is not None:
        return
    left = "1 process" if outcome.survivors == 1 else f"{outcome.survivors} processes"
    if run.ended_survivors:
        yield (
            f"{left} that it left in the background ended with it: start what should stay in a"
            " terminal of its own, in the foreground"
        )
    elif run.rules.survivors is not Survivors.KILL:
        yield f"{left} that it left in the background may still run"


def _unwritten(run: Run) -> tuple[str, ...]:
    return () if run.outcome is None else run.outcome.unwritten


def without_folder(report: TrialReport) -> Meta:
    """A trial as an agent is told of it."""
    told = as_json(report)
    return {name: told[name] for name in told if name != "folder"}


def _about_trial(run: Run) -> Iterator[str]:
    if run.trial is None:
        return
    report = run.trial.report
    if report is None:
        yield f"on trial {run.trial.id}: what it changed is known after terminal/wait_for_exit"
        return
    yield f"on trial {report.id}, {report.status}: {report.summary}"
    yield from report.changes
    yield from (f"a person must look at it first: {why}" for why in report.objections)
    yield from [report.tried] if report.tried else []


def shown(output: Store, limit: int, *, ended: bool, as_screen: bool = False) -> tuple[str, bool]:
    """The last `limit` bytes as text, never half a character, and whether something is missing.

    `as_screen`: what a terminal would still show of them, without colours and what was overwritten.
    """
    kept = output.view(None, 0, limit)
    from_start = from_line_start if as_screen else whole_start
    data = from_start(kept.tail) if kept.omitted else kept.tail
    data = data if ended else whole_end(data)
    text = clean(data) if as_screen else decode(data)
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
