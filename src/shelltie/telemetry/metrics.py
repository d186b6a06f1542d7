"""Metrics collector: counters and histograms of runs, fed by the event bus.

The engine publishes and counts nothing itself. Times between two events are taken when they are
heard, on the monotonic clock.
"""

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import cache, singledispatchmethod
from typing import TypeVar

from shelltie.basics.frozen import mutable
from shelltie.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CommandAsked,
    CommandJudged,
    CommandRefused,
    ContextClosed,
    ContextOpened,
    ContextRan,
    Escalated,
    Event,
    Leaked,
    LimitNear,
    LimitReached,
    RunEnded,
    RunLost,
    RunReady,
    SilentButWorking,
    Unusual,
)
from shelltie.model import Limit, Outcome, State, signal_name
from shelltie.telemetry.prometheus import Counter, Family, Gauge, Histogram

_PENDING_MAX = 1000  # questions and commands that never got an answer are forgotten
_WINDOW = 100  # ended commands that rates are taken from
NOBODY = "nobody"
_REASONS = {Limit.TOTAL: "exec_timeout", Limit.SILENCE: "no_output_timeout"}
# Nobody decided against the command itself.
_NO_VIOLATION = frozenset(("NOT_STARTED", "JOURNAL_BROKEN", "CONFIRMATION_REQUIRED"))
_OURSELVES = "shelltie"  # as the client of a command

T = TypeVar("T")


class Lately:
    """The last hundred values, and their sum."""

    def __init__(self) -> None:
        self._values: deque[float] = deque()
        self.sum = 0.0

    def add(self, value: float) -> None:
        """One more; the oldest goes."""
        self._values.append(value)
        self.sum += value
        if len(self._values) > _WINDOW:
            self.sum -= self._values.popleft()

    def __len__(self) -> int:
        return len(self._values)

    def mean(self, otherwise: float = 0.0) -> float:
        """On average, if there are any."""
        return self.sum / len(self._values) if self._values else otherwise


@mutable
class _Begun:
    """A command that runs, or was asked for. Not its text: that may be long, and never run."""

    stays_open: bool = False
    context: str = ""
    own: bool = False
    provider: str = "none"
    category: str = "none"


class Metrics:
    """Subscribe `hear` to a bus. More than `shown` bytes of output are truncated for an agent."""

    def __init__(self, shown: int, clock: Callable[[], float] = time.monotonic) -> None:
        # Of the commands of agents, the last ones: each 1 where it is so, and else 0.
        self.succeeded, self.truncated, self.refused = Lately(), Lately(), Lately()
        self.durations = Lately()
        self._shown = shown
        self._clock = clock
        self._asked: OrderedDict[str, tuple[float, _Begun]] = OrderedDict()
        self._questions: OrderedDict[str, float] = OrderedDict()
        self._runs: dict[str, _Begun] = {}
        self._staying: set[str] = set()  # of the runs; they are asked for at each event
        self._contexts: set[str] = set()
        self._make_instruments()

    def _make_instruments(self) -> None:
        """Whatever is an attribute here is in `families`."""
        self._active = Gauge(
            "shelltie_runs_active", "Commands that run now.", lambda: len(self._runs)
        )
        self._open = Gauge("shelltie_sessions_active", "Sessions now.", lambda: self.sessions)
        self._opened = Gauge(
            "shelltie_contexts_active", "Task contexts now.", lambda: len(self._contexts)
        )
        self._pending = Gauge(
            "shelltie_approvals_pending", "Open questions.", lambda: len(self._questions)
        )
        self._ended = Counter(
            "shelltie_runs_total",
            "Commands that ended.",
            "outcome",
            "reason",
            "category",
            "provider",
        )
        self._took = Histogram(
            "shelltie_run_duration_seconds", "How long commands took.", "outcome", "category"
        )
        self._limits = Counter("shelltie_timeouts_total", "Limits that were reached.", "limit")
        self._signals = Counter("shelltie_signals_total", "Signals sent to end a tree.", "signal")
        self._warnings = Counter("shelltie_warnings_total", "Warnings about commands.", "kind")
        self._survivors = Counter(
            "shelltie_survivors_total", "Background processes that commands left behind."
        )
        self._leaked = Counter("shelltie_leaked_runs_total", "Commands of which somebody is left.")
        self._lost = Counter("shelltie_lost_runs_total", "Commands whose server died.")
        self._bytes = Counter("shelltie_output_bytes_total", "Bytes printed.", "stream")
        self._cut = Counter(
            "shelltie_truncated_runs_total", "Commands that printed more than an agent is shown."
        )
        self._judged = Counter(
            "shelltie_judged_total", "Commands that were judged.", "verdict", "decision"
        )
        self._judging = Histogram("shelltie_judge_seconds", "How long judging a command took.")
        self._refusals = Counter("shelltie_refused_total", "Commands that were refused.", "code")
        self._answers = Counter("shelltie_approvals_total", "Answers to questions.", "answer")
        self._waits = Histogram("shelltie_approval_wait_seconds", "How long an answer took.")

    # What others may ask

    @property
    def sessions(self) -> int:
        """How many are open: programs that stay, and contexts of tasks."""
        return len(self._staying) + len(self._contexts)

    def families(self) -> list[Family]:
        """Everything, as it stands now."""
        kinds = Counter | Gauge | Histogram
        return [value.family() for value in vars(self).values() if isinstance(value, kinds)]

    # What is heard

    def hear(self, event: Event) -> None:
        """Count it."""
        _COUNTS(type(event))(self, event)

    @singledispatchmethod
    def _count(self, _: object) -> None:
        """Not of interest."""

    @_count.register
    def _(self, event: CommandAsked) -> None:
        caller = event.caller
        begun = _Begun(event.stays_open, caller.session, caller.client == _OURSELVES)
        _remember(self._asked, event.run, (self._clock(), begun))

    @_count.register
    def _(self, event: CommandJudged) -> None:
        verdict = event.verdict
        self._judged.add(str(verdict.rating), str(event.decision))
        if (asked := self._asked.get(event.run)) is not None:
            self._judging.observe(self._clock() - asked[0])

    @_count.register
    def _(self, event: CommandRefused) -> None:
        self._refusals.add(event.code)
        self._asked.pop(event.run, None)
        if event.code == "NOT_STARTED":
            self._runs.pop(event.run, None)
            self._staying.discard(event.run)
        if event.code not in _NO_VIOLATION:
            self.refused.add(1)

    @_count.register
    def _(self, event: ApprovalAsked) -> None:
        _remember(self._questions, event.question, self._clock())

    @_count.register
    def _(self, event: ApprovalAnswered) -> None:
        since = self._questions.pop(event.question, None)
        if since is not None:
            self._waits.observe(self._clock() - since)
        self._answers.add("yes" if event.allowed else NOBODY if event.by == NOBODY else "no")

    @_count.register
    def _(self, event: RunReady) -> None:
        _, begun = self._asked.pop(event.run, (0.0, _Begun()))
        self.refused.add(0)
        begun.provider, begun.category = event.provider, event.limits.category or "none"
        self._runs[event.run] = begun
        if begun.stays_open:
            self._staying.add(event.run)

    @_count.register
    def _(self, _: LimitNear) -> None:
        self._warnings.add("limit_near")

    @_count.register
    def _(self, _: SilentButWorking) -> None:
        self._warnings.add("silent_but_working")

    @_count.register
    def _(self, event: Unusual) -> None:
        self._warnings.add(f"unusual_{event.why}")

    @_count.register
    def _(self, event: LimitReached) -> None:
        self._limits.add(str(event.limit))

    @_count.register
    def _(self, event: Escalated) -> None:
        self._signals.add(signal_name(event.signal))

    @_count.register
    def _(self, _: Leaked) -> None:
        self._leaked.add()

    @_count.register
    def _(self, _: RunLost) -> None:
        self._lost.add()

    @_count.register
    def _(self, event: RunEnded) -> None:
        begun = self._runs.pop(event.run, None) or _Begun()
        self._staying.discard(event.run)
        self._asked.pop(event.run, None)  # what a shell was asked for while it ran
        outcome, printed = event.outcome, event.printed
        how, why = _named(outcome)
        self._ended.add(how, why, begun.category, begun.provider)
        self._took.observe(outcome.duration, how, begun.category)
        if outcome.survivors:
            self._survivors.add(by=outcome.survivors)
        self._bytes.add("stdout", by=printed.stdout)
        self._bytes.add("stderr", by=printed.stderr)
        if not (begun.own or begun.stays_open or begun.context in self._contexts):
            truncated = printed.stdout + printed.stderr > self._shown
            self._note(outcome, truncated=truncated)

    @_count.register
    def _(self, event: ContextRan) -> None:
        """A context has a limit of its own for what is shown."""
        if event.run is None:  # its program was not there: nothing else tells of it
            self._ended.add(*_named(event.outcome), event.limits.category or "none", "none")
        self._note(event.outcome, truncated=event.truncated)

    @_count.register
    def _(self, event: ContextOpened) -> None:
        self._contexts.add(event.asker.session)

    @_count.register
    def _(self, event: ContextClosed) -> None:
        self._contexts.discard(event.asker.session)

    hears = frozenset(_count.dispatcher.registry) - {object}  # kinds of events that count

    def _note(self, outcome: Outcome, *, truncated: bool) -> None:
        self.succeeded.add(outcome.ok)
        self.durations.add(outcome.duration)
        self.truncated.add(truncated)
        if truncated:
            self._cut.add()


# By kind of event, once: to look it up each time costs more than to count.
_COUNTS: Callable[[type], Callable[[Metrics, Event], None]] = cache(
    Metrics.__dict__["_count"].dispatcher.dispatch
)


def _named(outcome: Outcome) -> tuple[str, str]:
    """How it ended, and why, in words of which there are few."""
    match outcome.state:
        case State.TIMED_OUT:
            return "timeout", "none" if outcome.limit is None else _REASONS[outcome.limit]
        case State.KILLED:
            return "killed", "leaked" if outcome.leaked else "stopped"
        case State.SPAWN_FAILED:
            return "not_started", "none"
        case _ if outcome.ok:
            return "success", "none"
        case _:
            return "error", "exit_code" if outcome.exit.signal is None else "signal"


def _remember(pending: OrderedDict[str, T], key: str, value: T) -> None:
    pending[key] = value
    if len(pending) > _PENDING_MAX:
        pending.popitem(last=False)
