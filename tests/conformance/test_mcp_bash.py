"""Who is asked before `bash` runs something, for how long, and what `bash` is told."""

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from shelltie import Config
from shelltie.events import Event, RunStarted
from shelltie.frontends.mcp.tools import session_schemas
from shelltie.settings.all_settings import ApprovalTimeouts
from shelltie.verdict import Rating
from tests.conformance.servers import server_of
from tests.conformance.test_mcp_confirm import Person
from tests.conformance.test_mcp_sessions import Caller
from tests.conftest import Open


@pytest.mark.proves("S2-41", "S2-49", "S2-52")
def test_the_tools_take_what_they_need_and_bash_only_its_command() -> None:
    taken = {tool.name: tool.input_schema for tool in session_schemas.TOOLS}

    assert list(taken["bash"]["properties"]) == taken["bash"]["required"] == ["command"]
    assert taken["bash"]["properties"]["command"]["type"] == "string"
    assert taken["terminal_start"]["required"] == ["command"]
    assert taken["terminal_continue"]["required"] == ["sessionId"]
    for name in ("terminal_start", "terminal_continue"):
        assert taken[name]["properties"]["stdin"]["type"] == "string"
    assert taken["terminal_list"]["properties"] == {}


@pytest.mark.proves("S2-44", "T2-18", "T2-19")
@pytest.mark.parametrize("on_timeout", ["deny", "approve"])
async def test_an_unknown_command_that_nobody_answers_for_is_refused_in_the_end(
    open_terminal: Open, tmp_path: Path, on_timeout: str
) -> None:
    canary, person = tmp_path / "canary", Person(None)
    settings: dict[str, object] = {"safety_unknown_timeout": 6.0, "safety_on_timeout": on_timeout}
    async with open_terminal(**settings) as terminal:
        server = server_of(terminal, Config.of(**settings))
        async with Client(server, mode="legacy", elicitation_callback=person) as client:
            call = Caller(client)
            result = await call.raw("bash", command=f"touch {canary}")

    answer, text = call.read("bash", result)
    (question,) = person.read
    assert " · unknown · " in question
    assert "touch makes files" in question
    assert canary.exists() == (on_timeout == "approve")
    if on_timeout == "deny":
        assert (result.is_error, answer["errorCode"]) == (True, "CONFIRMATION_REQUIRED")
        assert text.startswith("Not run: a person must approve")
        assert "nobody answered within 6s" in text


@pytest.mark.proves("S2-44", "S2-45", "T2-18", "T2-19", "D13")
async def test_an_unknown_command_waits_ten_seconds_and_a_dangerous_one_for_ever(
    open_terminal: Open,
) -> None:
    async with open_terminal() as terminal:
        patience = terminal.supervisor.admission.approval_timeouts
        assert patience.for_rating(Rating.UNKNOWN, "bash") == 10
        for profile in ("run", "session", "acp"):
            assert patience.for_rating(Rating.UNKNOWN, profile) is None
        for profile in ("run", "session", "bash", "acp"):
            assert patience.for_rating(Rating.DANGEROUS, profile) is None
    assert ApprovalTimeouts(unknown=3).for_rating(Rating.UNKNOWN, "bash") == 3


@pytest.mark.proves("S2-50", "S2-53", "S2-12")
async def test_an_answer_waits_as_the_settings_say(open_terminal: Open) -> None:
    intervals = {
        "persistent_minInterval": 0.1,
        "persistent_settleInterval": 3.0,
        "persistent_maxInterval": 20.0,
    }
    settings: dict[str, object] = {**intervals}
    count = "for i in 1 2 3; do echo $i; sleep 0.2; done"
    async with open_terminal(**settings) as terminal:
        async with Client(server_of(terminal, Config.of(**settings))) as client:
            call = Caller(client)
            command = f"{count}; read x; {count}; read x"
            first, _ = await call("terminal_start", command=command, pty=False)
            second, _ = await call("terminal_continue", sessionId="term-1", stdin="go")

    for answer in (first, second):
        assert (answer["output"], answer["complete"]) == ("1\n2\n3\n", False)


@pytest.mark.proves("S2-46", "T2-16", "C-1")
@pytest.mark.parametrize(("settings", "total"), [({}, 60), ({"bash_timeoutSeconds": 4.0}, 4)])
async def test_bash_has_a_minute_unless_the_settings_say_otherwise(
    open_terminal: Open, settings: dict[str, Any], total: float
) -> None:
    events: list[Event] = []
    command = "echo begun; sleep 60" if settings else "echo begun"
    async with open_terminal(events.append, **settings) as terminal:
        async with Client(server_of(terminal, Config.of(**settings))) as client:
            answer, _ = await Caller(client)("bash", command=command)

    (started,) = [event for event in events if isinstance(event, RunStarted)]
    assert started.limits.total == total
    assert (answer["status"], answer["output"]) == ("timeout" if settings else "success", "begun\n")
