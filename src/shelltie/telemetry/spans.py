"""OpenTelemetry spans: one for each run, below its caller's.

Names are those of the conventions for command lines. Arguments are not told: they may be secret.
"""

from collections.abc import Callable

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, get_tracer

from shelltie.events import (
    CommandAsked,
    CommandRefused,
    Escalated,
    Event,
    LimitNear,
    LimitReached,
    RunEnded,
    RunReady,
    RunStarted,
    SilentButWorking,
)
from shelltie.model import Outcome, State, signal_name

_ASKED_MAX = 1000


class Spans:
    """Subscribe `hear` to a bus. `named` makes a span's name from a command."""

    def __init__(self, named: Callable[[str], str], tracer: Tracer | None = None) -> None:
        self._named = named
        self._tracer = tracer or get_tracer("shelltie")
        self._asked: dict[str, str] = {}
        self._open: dict[str, Span] = {}

    def hear(self, event: Event) -> None:
        """Begin a span, add to it, or end it."""
        match event:
            case CommandAsked():
                self._asked[event.run] = event.command
                if len(self._asked) > _ASKED_MAX:
                    del self._asked[next(iter(self._asked))]
            case RunReady():
                self._begin(event)
            case CommandRefused():
                self._asked.pop(event.run, None)
                if (span := self._open.pop(event.run, None)) is not None:
                    span.end()
            case RunEnded():
                self._end(event)
            case _:
                self._add(event)

    def _begin(self, event: RunReady) -> None:
        name = self._named(self._asked.pop(event.run, ""))
        span = self._tracer.start_span(name, kind=SpanKind.INTERNAL)
        span.set_attribute("process.executable.name", name)
        span.set_attribute("shelltie.run.id", event.run)
        span.set_attribute("shelltie.provider", event.provider)
        span.set_attribute("shelltie.isolation", event.isolation)
        span.set_attribute("shelltie.category", event.limits.category or "none")
        self._open[event.run] = span

    def _add(self, event: Event) -> None:
        span = self._open.get(getattr(event, "run", None) or "")
        if span is None:
            return
        match event:
            case RunStarted():
                span.set_attribute("process.pid", event.pid)
            case LimitNear() | SilentButWorking() | LimitReached():
                span.add_event(type(event).__name__, {"message": event.message})
            case Escalated():
                span.add_event("Escalated", {"signal": signal_name(event.signal)})
            case _:
                pass

    def _end(self, event: RunEnded) -> None:
        span, outcome = self._open.pop(event.run, None), event.outcome
        if span is None:
            return
        if outcome.exit.number is not None:
            span.set_attribute("process.exit.code", outcome.exit.number)
        if outcome.cpu is not None:
            span.set_attribute("shelltie.cpu.seconds", outcome.cpu)
        if (kind := _error(outcome)) is not None:
            span.set_attribute("error.type", kind)
            span.set_status(Status(StatusCode.ERROR, kind))
        span.end()


def _error(outcome: Outcome) -> str | None:
    if outcome.state is State.FINISHED:
        return None if outcome.ok else outcome.exit.signal_name or str(outcome.exit.code)
    return str(outcome.state)
