"""Spans of OpenTelemetry: one for each run, below its caller's."""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shelltie.shell.shape import program
from shelltie.telemetry.spans import Spans
from tests.conftest import Open


async def test_a_run_is_a_span_of_its_caller_that_tells_how_it_ended(open_terminal: Open) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("test")

    async with open_terminal(Spans(program, tracer).hear) as terminal:
        with tracer.start_as_current_span("asked") as caller:
            await terminal.run("sleep 0.01 --secret=hunter2")
            await terminal.run("sleep 30", timeout=0.5, silence=0)

    failed, late, _ = kept.get_finished_spans()
    assert failed.parent is not None
    assert failed.parent.span_id == caller.get_span_context().span_id
    assert failed.attributes is not None
    assert failed.name == failed.attributes["process.executable.name"] == "sleep"
    assert failed.attributes["process.exit.code"] == 1
    assert failed.attributes["error.type"] == "1"
    assert "hunter2" not in failed.to_json()
    assert late.attributes is not None
    assert late.attributes["error.type"] == "timed_out"
    assert late.status.status_code is trace.StatusCode.ERROR
    assert [event.name for event in late.events] == ["LimitReached", "Escalated"]


async def test_whoever_has_loaded_the_sdk_gets_spans_without_a_setting(open_terminal: Open) -> None:
    """This process has."""
    async with open_terminal() as terminal:
        listeners = terminal.supervisor.bus._listeners

    assert any(isinstance(getattr(one, "__self__", None), Spans) for one, _ in listeners)
