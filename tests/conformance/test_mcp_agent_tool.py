"""Another agent at work: the tools that start it, wait for it, and notice when it hangs."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, cast

import anyio
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp_types import CallToolResult, TextContent

from shelltie import Config, ConfigWrong, Terminal
from shelltie.frontends.mcp.request import ToolCall
from shelltie.frontends.mcp.tools import agent
from shelltie.frontends.mcp.tools.agent import AgentTools
from shelltie.running.options import Requester
from tests.conformance.any_json import JSON
from tests.conformance.servers import answer as answer_of
from tests.conformance.servers import attendant_of, server_of, tools_of
from tests.conftest import Open
from tests.tree import new_tag, nobody_left

# The real caps are minutes; these let a test wait for the end of a limit.
QUICK = {"agent_idle_min": 0.1, "agent_hard_min": 0.1, "agent_hard": 60.0, "limits_grace": 0.5}
SCHEMA = agent.TASK.output_schema or {}
Fields = dict[str, Any]


@pytest.fixture
def connect(open_terminal: Open) -> Any:  # noqa: ANN401  a context manager of clients
    @asynccontextmanager
    async def connected(era: Any = "legacy", **more: object) -> AsyncIterator[Client]:  # noqa: ANN401  the SDK's literal
        merged = {**QUICK, **more}
        async with open_terminal(**merged) as terminal:
            server = server_of(terminal, Config.of(**merged))
            async with Client(server, mode=era) as client:
                yield client

    return connected


def checked(result: CallToolResult) -> Fields:
    """The answer, after everything that holds for all answers."""
    answer = cast(Fields, result.structured_content)
    jsonschema.Draft202012Validator(SCHEMA).validate(answer)
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert content.text == json.dumps(answer, ensure_ascii=False, indent=2)
    assert result.is_error == (not answer["success"])
    return answer


async def ask(client: Client, name: str = "agent_task", **arguments: object) -> Fields:
    with anyio.fail_after(50):
        return checked(await client.call_tool(name, arguments))


# In a shell: it begins at once, also where Python takes longer than the limit to begin.
EVENTS = """
printf '{"type": "step", "n": %d}\\n' {0..126}
echo "no event"; echo "{broken"
echo "oh dear" >&2
exec sleep 60
"""


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
@pytest.mark.proves("T3-12", "T3-23", "S3-21", "S3-22", "S3-23", "S3-24", "S3-26", "S3-44", "C-26")
@pytest.mark.proves("C-24", "C-27", "S3-45", "S3-50", "S3-58", "S3-63", "S3-71", "S3-3", "S3-7")
@pytest.mark.proves("S3-72", "C-39")
async def test_a_hang_is_answered_with_all_there_was(connect: Any, era: str) -> None:  # noqa: ANN401  as above
    async with connect(era, limits_grace=5.0) as client:
        answer = await ask(client, command=EVENTS, idleTimeoutMs=6000)

    error, so_far = answer["error"], answer["partial"]
    assert (answer["success"], answer["status"]) == (False, "timeout")
    assert (error["code"], error["kind"], error["errno"]) == ("EIDLE", "inactivity", "ETIMEDOUT")
    assert error["message"].endswith("within the allowed inactivity window (6s).")
    assert 6000 <= error["idleMs"] <= error["wallClockMs"]
    assert error["pid"] > 0
    assert (error["killed"], error["signal"]) == (True, "SIGTERM")
    assert [event["n"] for event in so_far["lastEvents"]] == [*range(77, 127)]
    assert (so_far["eventsCount"], so_far["eventsDropped"]) == (127, 77)
    assert so_far["stdoutTail"].endswith("no event\n{broken\n")
    assert so_far["stderrTail"] == "oh dear\n"
    assert datetime.fromisoformat(so_far["lastActivityAt"]).utcoffset() is not None
    assert so_far["lastActivityAt"].endswith("Z")
    assert len(answer["recovery"]["suggestions"]) == 4
    assert answer["recovery"]["advice"]["action"] == "retry_longer"
    assert (answer["neverStarted"], answer["lastEvent"]) == (False, {"type": "step", "n": 126})
    assert "Partial results available (127 events captured)." in answer["summary"]
    assert answer["taskId"] in answer["summary"]
    assert re.search(
        r"^Elapsed: \d\S*s\nLast activity: \d\S*s ago$", answer["summary"], re.MULTILINE
    )
    assert all(f"- {one}" in answer["summary"] for one in answer["recovery"]["suggestions"])


@pytest.mark.proves("T3-12", "T3-23", "C-24", "S3-57", "T3-14", "S3-44")
async def test_the_other_bad_ends_are_told_apart(connect: Any) -> None:  # noqa: ANN401  as above
    tag = new_tag()
    chatty = 'while :; do echo \'{"type":"authentication failed"}\'; sleep 0.1; done'
    async with connect() as client:
        silent = await ask(client, command=f"sleep 60.{tag}", idleTimeoutMs=300)
        late = await ask(client, command=chatty, hardTimeoutMs=3000)
        failed = await ask(client, command="echo why >&2; exit 3")
        missing = await ask(client, command="true", cwd="/no/such/place")
        absent = await ask(client, command="codex-that-nobody-has exec --json -")
        await nobody_left(tag)

    assert (silent["error"]["kind"], silent["neverStarted"]) == ("inactivity", True)
    assert silent["recovery"]["advice"]["action"] == "different_approach"
    assert (late["error"]["code"], late["error"]["kind"]) == ("ETIMEDOUT", "deadline")
    assert late["recovery"]["advice"] == {
        "action": "fix_authentication",
        "retry": False,
        "why": "it could not log in; another try fails the same way",
    }
    assert (failed["error"]["code"], failed["exitCode"]) == ("EXIT_ERROR", 3)
    assert "errno" not in failed["error"]
    assert "'why'" in failed["error"]["message"]
    assert missing["error"]["code"] == "SPAWN_ERROR"
    assert absent["error"]["message"].startswith("codex-that-nobody-has was not found: ")
    assert absent["recovery"]["advice"]["action"] == "install_program"
    assert absent["recovery"]["suggestions"][0].startswith("Install codex-that-nobody-has ")
    assert "timeout" not in absent["summary"]


@pytest.mark.proves("S3-44", "T3-15")
async def test_a_task_that_ends_well_has_its_output(connect: Any) -> None:  # noqa: ANN401  as above
    async with connect() as client:
        answer = await ask(client, command='cat; echo \'{"type":"done"}\'', task="say hi")

    assert (answer["success"], answer["status"], answer["exitCode"]) == (True, "completed", 0)
    assert answer["output"]["stdoutTail"] == 'say hi{"type":"done"}\n'
    assert answer["limits"] == {
        "execMs": 60_000,
        "idleMs": 300_000,
        "source": "agent tasks",
        "clamped": False,
        "notes": ["the inactivity limit never fires: 1m in all end first"],
    }
    assert "error" not in answer
    assert re.fullmatch(r"task-\d{13}", answer["taskId"])


HEARTBEATS = """
for n in {0..8}; do echo '{"type": "heartbeat"}'; sleep 0.8; done
echo '{"type": "done"}'
"""


BEATING = """\
while :; do printf '{"type":'; sleep 0.05; echo ' "heartbeat"}'; sleep 0.15; done"""
STILL = "while :; do echo still here; sleep 0.2; done"
DOTS = "for n in {1..15}; do printf .; sleep 0.5; done"


@pytest.mark.proves("C-88")
async def test_heartbeats_can_be_told_from_work(connect: Any) -> None:  # noqa: ANN401  as above
    async with connect(agent_heartbeat_counts=False, agent_heartbeat="^still") as client:
        answers: dict[str, Fields] = {}

        async def one(name: str, command: str) -> None:
            answers[name] = await ask(client, command=command, idleTimeoutMs=6000)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, "beating", BEATING)
            tasks.start_soon(one, "dots", DOTS)
            tasks.start_soon(one, "still", STILL)

    beating, dots, stills = (answers[name] for name in ("beating", "dots", "still"))
    assert beating["error"]["kind"] == stills["error"]["kind"] == "inactivity"
    assert beating["heartbeats"] > 1
    assert stills["heartbeats"] > 1
    assert beating["partial"]["lastEvents"] == []
    assert (dots["status"], dots["output"]["stdoutTail"]) == ("completed", "." * 15)


async def test_a_pattern_for_heartbeats_that_is_none_is_refused(terminal: Terminal) -> None:
    for text in ("(", "(a+)+$"):
        with pytest.raises(ConfigWrong, match=r"agent\.heartbeat"):
            AgentTools(attendant_of(terminal), Config.of(agent_heartbeat=text))


@pytest.mark.proves("T3-22", "S3-65", "C-88")
async def test_heartbeats_keep_it_alive_and_are_no_events(connect: Any) -> None:  # noqa: ANN401  as above
    async with connect() as client:
        answer = await ask(client, command=HEARTBEATS, idleTimeoutMs=6000)

    assert (answer["status"], answer["heartbeats"]) == ("completed", 9)
    assert answer["durationMs"] > 6000
    assert answer["output"]["lastEvents"] == [{"type": "done"}]


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
@pytest.mark.proves("T3-13", "C-19")
async def test_a_task_goes_on_and_its_end_can_be_waited_for(connect: Any, era: str) -> None:  # noqa: ANN401  as above
    async with connect(era, mcp_patience=0.6) as client:
        command = "trap 'exit 0' TERM; echo on; while :; do sleep 0.2; done"
        first = await ask(client, command=command, hardTimeoutMs=6000)
        answer = first
        while answer["status"] == "running":
            answer = await ask(client, "agent_wait", taskId=first["taskId"])
        told = await ask(client, "agent_wait", taskId=first["taskId"])

    assert (first["success"], first["status"], first["sessionId"]) == (True, "running", "term-1")
    assert first["taskId"] in first["hint"]
    assert first["partial"]["eventsCount"] == 0
    assert (answer["status"], answer["error"]["kind"]) == ("timeout", "deadline")
    assert answer["partial"]["stdoutTail"] == "on\n"
    assert told["error"]["code"] == "SESSION_NOT_FOUND"


@pytest.mark.proves("S3-45", "S3-46", "S3-47", "S3-52", "S3-69", "T3-15", "T3-16")
@pytest.mark.parametrize(
    ("asked", "idle", "hard", "clamped"),
    [
        ({}, 300_000, 1_200_000, False),
        ({"idleTimeoutMs": 1000, "hardTimeoutMs": 1}, 60_000, 300_000, True),
        ({"idleTimeoutMs": 10**9, "hardTimeoutMs": 10**9}, 1_800_000, 3_600_000, True),
        ({"mode": "read-only"}, 120_000, 600_000, False),
        ({"mode": "workspace-write"}, 300_000, 1_200_000, False),
        ({"mode": "cloud"}, None, None, False),
        ({"mode": "read-only", "idleTimeoutMs": 90_000}, 90_000, 600_000, False),
    ],
)
async def test_the_limits_that_held_are_in_the_answer(
    open_terminal: Open, asked: Fields, idle: int | None, hard: int | None, clamped: bool
) -> None:
    async with open_terminal() as terminal:
        async with Client(server_of(terminal, Config())) as client:
            answer = await ask(client, command="true", **asked)

    limits = answer["limits"]
    assert (limits["idleMs"], limits["execMs"], limits["clamped"]) == (idle, hard, clamped)


@pytest.mark.proves("S3-13")
async def test_progress_says_how_long_it_runs_and_what_its_events_say(connect: Any) -> None:  # noqa: ANN401  as above
    said: list[str] = []
    heard = anyio.Event()

    async def report(_: float, __: float | None, message: str | None) -> None:
        said.append(message or "")
        if "now: " in said[-1]:
            heard.set()

    command = 'echo \'{"type": "tests started"}\'; sleep 60'
    async with connect(notify_first_progress=0.1, notify_progress_interval=0.2) as client:
        async with anyio.create_task_group() as tasks:
            ask_and_hear = partial(client.call_tool, progress_callback=report)
            tasks.start_soon(ask_and_hear, "agent_task", {"command": command})
            with anyio.fail_after(50):
                await heard.wait()
            tasks.cancel_scope.cancel()

    assert re.match(r"running \d.*, last output .* ago, 26 B, .*now: tests started$", said[-1])


async def test_who_waits_and_is_cancelled_ends_nothing(connect: Any) -> None:  # noqa: ANN401  as above
    async with connect(mcp_patience=0.6) as client:
        first = await ask(client, command="sleep 5; echo there")
        with anyio.move_on_after(0.2):
            await client.call_tool("agent_wait", {"taskId": first["taskId"]})
        answer = first
        while answer["status"] == "running":
            answer = await ask(client, "agent_wait", taskId=first["taskId"])

    assert (answer["status"], answer["output"]["stdoutTail"]) == ("completed", "there\n")


@pytest.mark.proves("C-25", "S3-43")
async def test_a_task_can_be_stopped_and_says_so(connect: Any) -> None:  # noqa: ANN401  as above
    async with connect(mcp_patience=0.6) as client:
        first = await ask(client, command="sleep 60")
        await client.call_tool("terminal_stop", {"sessionId": first["sessionId"]})
        answer = await ask(client, "agent_wait", taskId=first["taskId"])

    assert (answer["error"]["reason"], answer["error"]["kind"]) == ("manual", "deadline")
    assert "manually aborted" in answer["error"]["message"]


@pytest.mark.proves("S3-45", "T3-15", "C-3")
async def test_wrong_parameters_start_nothing_and_teach(connect: Any) -> None:  # noqa: ANN401  as above
    async with connect() as client:
        for wrong in (
            {},
            {"command": ""},
            {"command": 7},
            {"command": "true", "idleTimeoutMs": "60000"},
            {"command": "true", "idleTimeoutMs": True},
            {"command": "true", "hardTimeoutMs": -5},
            {"command": "true", "mode": "yolo"},
            {"command": "true", "idleTimeoutMS": 5},
            {"command": "true", "task": 5},
        ):
            answer = await ask(client, **wrong)
            assert answer["error"]["code"] == "INVALID_PARAMETERS"
            assert answer["status"] == "refused"
        unknown = await ask(client, "agent_wait", taskId="task-1")

    assert unknown["error"]["code"] == "SESSION_NOT_FOUND"


async def test_what_is_dangerous_needs_a_yes_here_too(connect: Any) -> None:  # noqa: ANN401  as above
    async with connect() as client:
        answer = await ask(client, command="git push --force")

    assert (answer["status"], answer["error"]["code"]) == ("refused", "CONFIRMATION_REQUIRED")
    assert answer["verdict"] == "dangerous"
    assert answer["reasons"]


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    name=st.sampled_from(["agent_task", "agent_wait"]),
    arguments=st.fixed_dictionaries(
        {},
        optional={
            "command": st.sampled_from(["true", "exit 3", " ", 'printf \'\\xff{"type":"x"}\\n\''])
            | JSON.filter(lambda value: not isinstance(value, str)),
            "task": JSON,
            "taskId": JSON,
            "mode": st.sampled_from(["read-only", "cloud"]) | JSON,
            "idleTimeoutMs": st.floats() | JSON,
            "hardTimeoutMs": st.floats() | JSON,
            "cwd": st.sampled_from(["/", "/nowhere"]) | JSON,
            "env": st.dictionaries(st.text(max_size=5), st.text(max_size=5)) | JSON,
            "more": JSON,
        },
    ),
)
@pytest.mark.proves("TX-10")
async def test_any_arguments_get_an_answer_that_the_schema_knows(
    terminal: Terminal, name: str, arguments: Fields
) -> None:
    tool = tools_of(terminal)[name]

    checked(await answer_of(tool, ToolCall(name, arguments, "", Requester())))
