"""No client is left waiting: an answer comes before its patience ends, and nothing is lost."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import jsonschema
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent

from shelltie import Config
from shelltie.frontends.mcp.client_timeouts import USUAL, client_timeout
from shelltie.frontends.mcp.tools import contexts, session_schemas
from shelltie.frontends.mcp.tools import run as tools
from tests.asking import shelltie
from tests.conformance.raw_mcp import RawClient, call, raw_server, request
from tests.conformance.servers import filled, server_of
from tests.conformance.test_mcp_confirm import Person
from tests.conftest import Open
from tests.served import served
from tests.tree import new_tag, nobody_left, tagged, until

QUICK = {
    "persistent_minInterval": 0.05,
    "persistent_settleInterval": 0.2,
    "safety_profiles_bash_unknown": "allow",
}
ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
TOOLS = [tools.RUN, *session_schemas.TOOLS, *contexts.TOOLS]
SCHEMAS = {tool.name: tool.output_schema or {} for tool in TOOLS}
Fields = dict[str, Any]


@pytest.fixture
def impatient(open_terminal: Open) -> Any:  # noqa: ANN401  a context manager of clients
    @asynccontextmanager
    async def connected(era: Any = "legacy", **settings: object) -> AsyncIterator[Client]:  # noqa: ANN401  the SDK's literal
        merged = {"mcp_patience": 0.6, **QUICK, **settings}
        async with open_terminal(**merged) as terminal:
            server = server_of(terminal, Config.of(**merged))
            async with Client(server, mode=era) as client:
                yield client

    return connected


async def ask(client: Client, name: str, **arguments: object) -> tuple[Fields, CallToolResult]:
    with anyio.fail_after(50):
        result = await client.call_tool(name, arguments)
    answer = cast(Fields, result.structured_content)
    jsonschema.Draft202012Validator(SCHEMAS[name]).validate(answer)
    return filled(SCHEMAS[name], answer), result


async def to_the_end(client: Client, session: str) -> tuple[str, Fields]:
    """Everything a session prints from now on, and its last answer."""
    printed = ""
    with anyio.fail_after(50):
        while True:
            answer, _ = await ask(client, "terminal_continue", sessionId=session)
            printed += answer["output"]
            if answer["complete"]:
                return printed, answer


@pytest.mark.parametrize(
    ("client", "seconds"),
    [
        ("", USUAL),
        ("test 1", USUAL),
        ("claude-ai 0.1.0", USUAL),
        ("claude-code 2.1.240", 110),
        ("Codex-mcp-client 0.1", 280),
        ("gemini-cli-mcp-client 0.0.1", 580),
        ("goose 1.0", 280),
    ],
)
def test_every_client_is_answered_before_it_gives_up(client: str, seconds: float) -> None:
    assert client_timeout(client) == seconds
    assert client_timeout(client, 7.5) == 7.5
    assert client_timeout(client, 0) == float("inf")


@ERAS
@pytest.mark.proves("C-23", "S3-2")
async def test_a_run_that_takes_longer_goes_on_as_a_session(impatient: Any, era: str) -> None:  # noqa: ANN401  as above
    async with impatient(era) as client:
        command = "echo one; echo oops >&2; sleep 4; echo two; exit 3"
        answer, result = await ask(client, "run", command=command, timeout_sec=20)
        later, end = await to_the_end(client, answer["sessionId"])
        again, _ = await ask(client, "run", command="true")
        if again["status"] == "running":  # a busy machine may need longer than this client waits
            _, again = await to_the_end(client, again["sessionId"])

    assert (answer["status"], answer["exitCode"], result.is_error) == ("running", None, False)
    so_far = answer["stdout"] + answer["stderr"]
    assert (answer["sessionId"], answer["position"]) == ("term-1", len(so_far))
    assert (answer["limits"]["execSec"], answer["limits"]["silenceSec"]) == (20, 20)
    assert 0 < answer["endsIn"]["execMs"] < 20_000
    assert 0 < answer["endsIn"]["silenceMs"] <= 20_000
    for word in ("term-1", "terminal_continue", "terminal_output", "terminal_stop", "20s in all"):
        assert word in answer["hint"]
    assert (so_far + later, end["exitCode"]) == ("one\noops\ntwo\n", 3)
    assert again["exitCode"] == 0


async def test_all_it_printed_can_still_be_read(impatient: Any) -> None:  # noqa: ANN401  as above
    async with impatient(output_shown=100) as client:
        answer, _ = await ask(client, "run", command="seq 1 500; sleep 60")
        session, whole = answer["sessionId"], {"output": ""}
        with anyio.fail_after(50):
            while not whole["output"].endswith("\n500\n"):
                whole, _ = await ask(client, "terminal_output", sessionId=session)

    assert len(answer["stdout"]) < 300
    assert whole["output"] == "".join(f"{n}\n" for n in range(1, 501))


async def test_its_limits_go_on(impatient: Any) -> None:  # noqa: ANN401  as above
    tag = new_tag()
    async with impatient(limits_grace=0.5) as client:
        command = f"setsid sleep 60.{tag} & sleep 60.{tag}"
        answer, _ = await ask(client, "run", command=command, timeout_sec=6)
        _, end = await to_the_end(client, answer["sessionId"])
        await nobody_left(tag)

    assert answer["status"] == "running"
    assert end["complete"]
    assert end["hint"] == "it was ended: timeout (total)"


@pytest.mark.proves("T3-26", "C-86")
async def test_an_agent_may_ask_for_another_attempt(impatient: Any) -> None:  # noqa: ANN401  as above
    async with impatient(mcp_patience=30) as client:
        limits = {"timeout_sec": 5, "no_output_timeout_sec": 0}
        again, _ = await ask(client, "run", command="sleep 5.2", retry=1, **limits)
        text = "touch /dev/null; sleep 60"
        writes, _ = await ask(client, "run", command=text, retry=2, timeout_sec=0.5)
        bad = [
            (await ask(client, "run", command="true", retry=given))[0]
            for given in (3, -1, True, "1", 1.0)
        ]
    async with impatient(mcp_patience=9, limits_grace=0.5, retry_attempts=1) as client:
        going, _ = await ask(client, "run", command="sleep 60", **limits)
        _, end = await to_the_end(client, going["sessionId"])

    assert (again["status"], len(again["attempts"])) == ("success", 2)
    assert [one["execSec"] for one in again["attempts"]] == [5, 10]
    assert (writes["status"], writes["attempts"]) == ("timeout", [])
    assert {one["errorCode"] for one in bad} == {"INVALID_PARAMETERS"}
    assert going["status"] == "running"
    assert [one["status"] for one in going["attempts"]] == ["timeout", "running"]
    assert end["timeoutReason"] == "exec_timeout"


@pytest.mark.proves("S0-31", "S3-2")
async def test_a_session_that_a_limit_ended_says_so_as_a_run_does(impatient: Any) -> None:  # noqa: ANN401  as above
    async with impatient() as client:
        limits = {"timeout_sec": 6, "no_output_timeout_sec": 0}
        run, _ = await ask(client, "run", command="echo hi; exec sleep 60", **limits)
        for asked in ({"timeoutSeconds": 1}, {"silenceSeconds": 1}, {"timeoutSeconds": 1}):
            await ask(client, "terminal_start", command="echo hi; cat", maxWait=0, **asked)
        shell = {"mode": "shell", "maxWait": 20, "timeoutSeconds": 9}
        first, _ = await ask(client, "terminal_start", command="false", **shell)
        with anyio.fail_after(50):
            while (listed := await _listed(client)) != ["timeout"] * 5:
                assert set(listed) <= {"running", "timeout"}
                await anyio.sleep(0.1)
        told = [
            (await ask(client, "terminal_output", sessionId=run["sessionId"]))[0],
            (await ask(client, "terminal_continue", sessionId="term-2"))[0],
            (await ask(client, "terminal_output", sessionId="term-3", view="raw"))[0],
            (await ask(client, "terminal_stop", sessionId="term-4"))[0],
            (await ask(client, "terminal_continue", sessionId=first["id"]))[0],
        ]

    reasons = ["exec_timeout", "exec_timeout", "no_output_timeout", "exec_timeout", "exec_timeout"]
    assert [one["status"] for one in told] == ["timeout"] * 5
    assert [one["timeoutReason"] for one in told] == reasons
    assert {one.get("terminationMode", "soft") for one in told[:3]} == {"soft"}
    assert (first["status"], first["exitCode"], first["timeoutReason"]) == ("error", 1, None)


async def _listed(client: Client) -> list[str]:
    answer, _ = await ask(client, "terminal_list")
    return [one["status"] for one in answer["sessions"]]


@ERAS
async def test_bash_goes_on_too(impatient: Any, era: str) -> None:  # noqa: ANN401  as above
    async with impatient(era) as client:
        answer, result = await ask(client, "bash", command="echo one; sleep 5; echo two")
        later, end = await to_the_end(client, answer["sessionId"])

    assert (answer["ok"], answer["exitCode"], answer["status"]) == (None, None, "running")
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert content.text.startswith("Still running: It has run for ")
    assert content.text.endswith(f"Output so far:\n{answer['output']}")
    assert (answer["output"] + later, end["exitCode"]) == ("one\ntwo\n", 0)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("project")
async def test_a_command_of_a_task_goes_on_and_keeps_its_turn(impatient: Any) -> None:  # noqa: ANN401  as above
    async with impatient(tools_access_enabled=True, access_allowlist_path="builtin") as client:
        made, _ = await ask(client, "terminal_create_session", taskId="B-1", agentId="a")
        session = {"sessionId": made["sessionId"]}
        execute = {**session, "command": "sleep"}
        first, _ = await ask(client, "terminal_execute_command", **execute, args=["15"])
        status, _ = await ask(client, "terminal_get_status", **session)
        second, _ = await ask(client, "terminal_execute_command", **execute, args=["0"])
        busy, _ = await ask(client, "terminal_execute_command", **execute, queue=False)
        _, end = await to_the_end(client, first["sessionId"])
        third, _ = await ask(client, "terminal_execute_command", **execute, args=["0"])
        after, _ = await ask(client, "terminal_get_status", **session)

    assert (first["success"], first["status"], first["exitCode"]) == (True, "running", None)
    assert (first["sessionId"], first["limits"]["execMs"]) == ("term-1", 60_000)
    assert status["session"]["state"] == "running"
    for refused in (second, busy):
        assert (refused["error"], refused["details"]) == ("EXECUTION_ERROR", {"reason": "busy"})
    assert (end["exitCode"], third["success"]) == (0, True)
    assert after["session"]["commandCount"] == 2


@pytest.mark.usefixtures("project")
async def test_the_end_of_a_task_ends_what_goes_on_in_it(impatient: Any) -> None:  # noqa: ANN401  as above
    tag = new_tag()
    async with impatient(tools_access_enabled=True, access_allowlist_path="builtin") as client:
        made, _ = await ask(client, "terminal_create_session", taskId="B-1", agentId="a")
        session = {"sessionId": made["sessionId"]}
        execute = {**session, "command": "sleep", "args": [f"60.{tag}"]}
        going, _ = await ask(client, "terminal_execute_command", **execute)
        closed, _ = await ask(client, "terminal_close_session", **session)
        await nobody_left(tag)
        _, end = await to_the_end(client, going["sessionId"])

    assert closed["success"]
    assert end["hint"] == "it was ended: it was closed"


async def test_no_wait_in_a_session_is_longer_than_the_client(impatient: Any) -> None:  # noqa: ANN401  as above
    async with impatient() as client:
        started, _ = await ask(client, "terminal_start", command="sleep 60", maxWait=50)
        more, _ = await ask(
            client, "terminal_continue", sessionId=started["id"], waitFor="never", maxWait=50
        )

    assert (started["running"], more["running"], more["found"]) == (True, True, False)


async def test_a_question_to_a_person_takes_its_time_from_the_same_window(
    open_terminal: Open,
) -> None:
    async with open_terminal() as terminal:
        terminal.supervisor.admission.broker.reachable = True
        server, person = server_of(terminal, Config.of(mcp_patience=0.5)), Person(None)
        async with Client(server, mode="legacy", elicitation_callback=person) as client:
            answer, _ = await ask(client, "run", command="git push --force")

    assert (answer["status"], answer["errorCode"]) == ("error", "CONFIRMATION_REQUIRED")
    assert "nobody answered within 500ms" in answer["error"]
    assert "shelltie approve" in answer["error"]


async def test_without_patience_a_call_waits_and_needs_no_tools_to_follow(
    open_terminal: Open,
) -> None:
    settings = {
        "mcp_patience": 0.0,
        "tools_sessions_enabled": False,
        "tools_agent_task_enabled": False,
    }
    async with (
        open_terminal() as terminal,
        Client(server_of(terminal, Config.of(**settings, tools_bash_enabled=False))) as client,
    ):
        names = [tool.name for tool in (await client.list_tools()).tools]
        answer, _ = await ask(client, "run", command="sleep 1")

    assert names == ["run", "trial"]
    assert answer["status"] == "success"


CANCEL = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}


async def test_a_run_that_became_a_session_outlives_a_late_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_MCP_PATIENCE", "0.6")
    tag = new_tag()
    async with raw_server(tmp_path) as client:
        await client.greet()
        await client.send(call(1, f"echo on; sleep 60.{tag}"))
        answer = (await client.receive())["result"]["structuredContent"]
        await client.send(CANCEL, tool(2, "terminal_list"))
        listed = (await client.receive())["result"]["structuredContent"]
        await until(lambda: bool(tagged(tag)))
        await client.send(tool(3, "terminal_stop", sessionId=answer["sessionId"]))
        stopped = (await client.receive())["result"]["structuredContent"]
        await nobody_left(tag)

    assert answer["status"] == "running"
    assert [one["running"] for one in listed["sessions"]] == [True]
    assert stopped["stopped"]


@pytest.mark.proves("TX-5")
async def test_what_goes_on_ends_with_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_MCP_PATIENCE", "0.6")
    tag = new_tag()
    hides = f"(setsid nohup sleep 600.{tag} &) ; setsid sleep 600.{tag} & sleep 600.{tag}"
    async with raw_server(tmp_path) as client:
        await client.greet()
        await client.send(*(call(number, hides) for number in range(1, 6)))
        answers = await _answers(client, 5)
        client.process.terminate()
        code = await client.exit_code()

    said = [answer["result"]["structuredContent"] for answer in answers.values()]
    assert {one["status"] for one in said} == {"running"}
    assert {one["sessionId"] for one in said} == {f"term-{n}" for n in range(1, 6)}
    assert code == 0
    assert tagged(tag) == []


def tool(number: int, name: str, **arguments: object) -> Fields:
    return request(number, "tools/call", name=name, arguments=arguments)


@pytest.mark.proves("T3-19", "C-85", "S3-54")
async def test_a_client_that_stops_reading_delays_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_NOTIFY_FIRST_PROGRESS", "0")
    monkeypatch.setenv("SHELLTIE_NOTIFY_PROGRESS_INTERVAL", "0.1")
    done = tmp_path / "done"
    async with raw_server(tmp_path) as client:
        await client.greet()
        for number in range(100, 108):  # more than a pipe holds
            await client.send(call(number, "seq 1 6000"))
        slow = call(1, f"sleep 1; touch {done}")
        slow["params"]["_meta"] = {"progressToken": "p"}
        await client.send(slow)
        with anyio.fail_after(50):
            while not done.exists():
                await anyio.sleep(0.05)
        answers = await _answers(client, 9)

    assert answers[1]["result"]["structuredContent"]["status"] == "success"


async def _answers(client: RawClient, count: int) -> dict[int, Fields]:
    answers: dict[int, Fields] = {}
    while len(answers) < count:
        message = await client.receive()
        if "id" in message:
            answers[message["id"]] = message
    return answers


async def test_people_see_which_client_asks() -> None:
    async with served() as server:
        await server.start("sleep 60")
        code, stdout, _ = await shelltie("ps", "--json")

    assert code == 0
    ours = [one for one in json.loads(stdout) if one["server"] == server.pid]
    assert [one["client"] for one in ours] == ["test 1"]
