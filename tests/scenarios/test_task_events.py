"""What a context's life looks like to those who watch, under S4's names."""

import re
from typing import Any

import pytest

from shelltie.frontends.reports.terminal_events import as_terminal_event
from tests.task_project import Caller

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.mark.proves("T4-18", "S4-33", "S4-34", "S4-35")
async def test_each_step_of_a_session_is_told_once_and_in_order(call: Caller) -> None:
    session = await call.create()
    await call.execute(session, "echo", "hello")
    await call.execute(session, "cat", "no such file")
    await call.execute(session, "sleep", "60", timeout=1000)
    await call.execute(session, "rm", "-rf", "/")
    await call.close(session)

    told: list[dict[str, Any]] = [as_terminal_event(event) or {} for event in call.events]
    assert [event["type"] for event in told] == [
        "terminal:session:created",
        "terminal:command:executed",
        "terminal:command:failed",
        "terminal:command:failed",
        "terminal:security:violation",
        "terminal:session:closed",
    ]
    for event in told:
        assert ISO.fullmatch(event["timestamp"])
        ids = [event[name] for name in ("sessionId", "taskId", "agentId")]
        assert ids == [session, "BUILD-001", "agent-1"]
    _, executed, failed, late, violation, closed = [event["data"] for event in told]
    assert (executed["success"], executed["exitCode"], executed["outputSize"]) == (True, 0, 6)
    assert (failed["success"], failed["exitCode"]) == (False, 1)
    assert (late["success"], late["error"]) == (False, "TIMEOUT_EXCEEDED")
    assert (violation["command"], violation["error"]) == ("rm -rf /", "COMMAND_NOT_ALLOWED")
    assert closed["commandCount"] == 3


async def test_times_never_go_back(call: Caller) -> None:
    for task in ("one", "two"):
        session = await call.create(task)
        await call.execute(session, "echo")
        await call.close(session)

    times = [event.at for event in call.events]
    assert times == sorted(times)
