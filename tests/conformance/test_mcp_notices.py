"""What a client hears before the answer: progress, and log messages, as far as it wants them."""

import json
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import LoggingMessageNotificationParams

from shelltie import Config
from shelltie.events import LimitNear, LimitReached, SilentButWorking
from shelltie.frontends.mcp.log_messages import data_of
from shelltie.frontends.mcp.progress import Status, line
from shelltie.frontends.reports.session_report import SessionReport, continued_text
from shelltie.model import Limit, Limits, RunId, Sample
from shelltie.running.messages import warning_before_limit
from shelltie.running.watchdog import Warn
from tests.conformance.raw_mcp import ENVELOPE, RawClient, call, raw_server, request
from tests.conformance.servers import server_of
from tests.conftest import Open
from tests.scenarios.test_history import remember
from tests.tree import until

Message = dict[str, Any]
OFTEN = {"SHELLTIE_NOTIFY_FIRST_PROGRESS": "0.05", "SHELLTIE_NOTIFY_PROGRESS_INTERVAL": "0.1"}
SECRET = "hunter2hunter2"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**OFTEN, "SHELLTIE_LIMITS_GRACE": "0.5"}.items():
        monkeypatch.setenv(name, value)


async def until_answered(client: RawClient, count: int = 1) -> tuple[list[Message], list[Message]]:
    """What is said before the last of so many answers, and the results by their ids."""
    before: list[Message] = []
    answers: dict[int, Message] = {}
    while len(answers) < count:
        message = await client.receive()
        if "id" in message:
            answers[message["id"]] = message["result"]
        else:
            before.append(message)
    return before, [answers[number] for number in sorted(answers)]


def with_meta(message: Message, **meta: object) -> Message:
    message["params"]["_meta"] = {**message["params"].get("_meta", {}), **meta}
    return message


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.proves("T3-17", "S3-8", "S3-9", "S3-10", "S3-14", "C-82", "C-84", "S3-41")
async def test_progress_grows_with_the_clients_own_token_and_stops(
    tmp_path: Path, era: str
) -> None:
    tokens: list[str | int] = ["a token", 7, 0, ""]
    async with raw_server(tmp_path) as client:
        envelope = {} if era == "legacy" else ENVELOPE
        if era == "legacy":
            await client.greet()
        for number, token in enumerate(tokens):
            slow = call(number, "echo hi; sleep 1.5", timeout_sec=20)
            await client.send(with_meta(slow, progressToken=token, **envelope))
        before, answers = await until_answered(client, 4)
        await client.hang_up()
        rest = await client.rest()

    assert [answer["structuredContent"]["status"] for answer in answers] == ["success"] * 4
    assert {message["method"] for message in before} == {"notifications/progress"}
    for token in tokens:
        told = [one["params"] for one in before if one["params"]["progressToken"] == token]
        values = [one["progress"] for one in told]
        assert values == sorted(set(values))
        assert values
        assert 19_000 < told[-1]["total"] < 40_000
        assert told[-1]["message"].startswith("running ")
    assert rest == []


@pytest.mark.proves("T3-17", "C-82", "S3-8")
async def test_without_a_token_there_is_no_progress(tmp_path: Path) -> None:
    odd: list[object] = [None, True, 1.5, ["x"], {}]
    async with raw_server(tmp_path) as client:
        await client.greet()
        for number, token in enumerate(odd):
            slow = call(number, "sleep 0.5")
            await client.send(slow if token is None else with_meta(slow, progressToken=token))
        said = [await client.receive() for _ in odd]

    assert sorted(message["id"] for message in said) == [*range(len(odd))]


async def test_a_token_that_is_none_is_named_in_the_refusal(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client:
        await client.greet()
        wrong: tuple[object, ...] = (None, 1.5, [])
        for number, token in enumerate(wrong):
            await client.send(with_meta(call(number, "true"), progressToken=token))
        refused = [(await client.receive())["error"] for _ in wrong]

    assert [error["code"] for error in refused] == [-32602] * 3
    assert all("progressToken" in error["message"] for error in refused)


@pytest.mark.proves("S3-11")
async def test_progress_never_exceeds_its_total(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client:
        await client.greet()
        ends = call(1, "sleep 60", timeout_sec=4, no_output_timeout_sec=0)
        await client.send(with_meta(ends, progressToken=1))
        before, answers = await until_answered(client)
        _complaints(tmp_path)

    told = [one["params"] for one in before if one["method"] == "notifications/progress"]
    assert answers[0]["structuredContent"]["status"] == "timeout"
    totals = [(one["progress"], one["total"]) for one in told if "total" in one]
    assert totals  # before it has begun there is none
    assert all(progress <= total for progress, total in totals)


@pytest.mark.proves("S3-11")
async def test_progress_is_limited_to_its_pace_however_much_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_NOTIFY_FIRST_PROGRESS", "0")
    monkeypatch.setenv("SHELLTIE_NOTIFY_PROGRESS_INTERVAL", "600")
    async with raw_server(tmp_path) as client:
        await client.greet()
        chatty = call(1, "for i in $(seq 200); do echo $i; sleep 0.005; done")
        await client.send(with_meta(chatty, progressToken=1))
        before, _ = await until_answered(client)

    assert len(before) == 1


@pytest.mark.proves("S3-11", "T3-17", "C-84", "S3-8")
async def test_without_a_limit_there_is_no_total(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_SAFETY_PROFILES_SESSION_UNKNOWN", "allow")
    async with raw_server(tmp_path) as client:
        await client.greet()
        arguments = {"command": "sleep 60", "maxWait": 4}
        start = request(1, "tools/call", name="terminal_start", arguments=arguments)
        await client.send(with_meta(start, progressToken=1))
        before, _ = await until_answered(client)

    assert before
    assert all("total" not in message["params"] for message in before)


@pytest.mark.proves("S3-12", "S3-41", "S3-48", "S3-54", "C-23", "T3-17")
async def test_progress_comes_every_interval_with_the_time_and_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_NOTIFY_FIRST_PROGRESS", "0.3")
    monkeypatch.setenv("SHELLTIE_NOTIFY_PROGRESS_INTERVAL", "0.7")
    async with raw_server(tmp_path) as client:
        await client.greet()
        slow = call(1, "sleep 30", timeout_sec=40, no_output_timeout_sec=0)
        await client.send(with_meta(slow, progressToken=1))
        told = [(await client.receive())["params"] for _ in range(6)]

    steps = [later["progress"] - sooner["progress"] for sooner, later in pairwise(told)]
    assert told[0]["progress"] >= 300
    assert all(step >= 690 for step in steps)  # no more often; how late depends on the machine
    totals = [one["total"] for one in told if "total" in one]  # none before it has begun
    assert min(totals) >= 40_000
    assert max(totals) - min(totals) <= 5


@pytest.mark.proves("S3-12", "S3-48", "S3-54", "C-23")
def test_progress_comes_often_enough_and_no_more() -> None:
    config = Config()

    assert config.notify.pace.first == 5  # well below what any client waits
    assert 10 <= config.notify.pace.interval <= 30


@pytest.mark.proves("S3-49", "C-28", "S3-17")
def test_a_warning_is_a_sentence_for_people() -> None:
    step = Warn(Limit.SILENCE, 270, 30)

    said = warning_before_limit(step, 270, Limits(1200, 300, ""))

    assert said == "No output for 4m 30s. Will abort in 30s unless output resumes."
    report = SessionReport(
        id="term-1",
        command="make",
        output="",
        position=0,
        complete=False,
        exit_code=None,
        running=True,
        waiting_for_input=False,
        password=False,
        last_line=None,
        truncated=False,
        read_from=None,
        skipped=0,
        found=None,
        hint=None,
        warnings=(said,),
    )
    assert f"Warning: {said}" in continued_text(report)


@pytest.mark.proves("S3-13", "C-84")
def test_progress_is_a_line_that_a_person_likes_to_read() -> None:
    limits = Limits(150, 60, "")

    assert line(Status(130, 40, 12_300, limits)) == (
        "running 2m 10s, last output 40s ago, 12.3 KB, kill in 20s unless it prints"
    )
    assert line(Status(130, 1, 12_300, Limits(150, None, ""))) == (
        "running 2m 10s, last output 1s ago, 12.3 KB, kill in 20s"
    )
    assert line(Status(3, 3, 0, Limits(None, None, ""))) == "running 3s, no output yet"
    assert line(Status(90, 2, 5, Limits(1200, 300, ""), "tests started")) == (
        "running 1m 30s, last output 2s ago, 5 B, now: tests started"
    )


@pytest.mark.proves("T3-18", "S3-3", "S3-15", "S3-16", "S3-17", "S3-18", "S3-19", "S3-20", "C-83")
@pytest.mark.proves("S3-72", "C-57")
async def test_a_client_with_a_handshake_hears_the_levels_it_wants(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client:
        greeting = await client.greet()
        await client.send(silent(1))
        await client.send(request(11, "logging/setLevel", level="error"), silent(2))
        await client.send(request(12, "logging/setLevel", level="emergency"), silent(3))
        before, answers = await until_answered(client, 5)
        stderr = _complaints(tmp_path)

    assert "logging" in greeting["result"]["capabilities"]
    ids = [answer["structuredContent"]["runId"] for answer in answers[:3]]
    assert [levels_of(before, run) for run in ids] == [["warning", "error"], ["error"], []]
    for message in (message["params"] for message in before):
        _check(message)
    warning = answers[0]["structuredContent"]["warnings"][0]
    assert warning.startswith("No output for ")
    assert warning in stderr
    assert "produced no output within the allowed inactivity window (5s)." in stderr
    assert SECRET not in json.dumps(before) + stderr


@pytest.mark.proves("T3-18", "C-83", "S3-3", "S3-14", "S3-72")
async def test_without_a_handshake_each_request_says_what_it_wants_to_hear(tmp_path: Path) -> None:
    wants = [{}, *({"io.modelcontextprotocol/logLevel": level} for level in ("warning", "error"))]
    async with raw_server(tmp_path) as client:
        for number, want in enumerate(wants):
            await client.send(with_meta(silent(number), progressToken=number, **ENVELOPE, **want))
        before, answers = await until_answered(client, 3)
        await client.hang_up()
        rest = await client.rest()
        _complaints(tmp_path)

    ids = [answer["structuredContent"]["runId"] for answer in answers]
    assert [levels_of(before, run) for run in ids] == [[], ["warning", "error"], ["error"]]
    assert all(answer["structuredContent"]["warnings"] for answer in answers)
    progress = [m["params"]["message"] for m in before if m["method"] == "notifications/progress"]
    assert any(m.startswith("No output for ") and "Will abort in " in m for m in progress)
    assert rest == []  # no progress either, after its end
    assert SECRET not in json.dumps(before)


def silent(number: int) -> Message:
    """A command that is warned about and ended, and has a secret in its text and its output."""
    text = f"echo {SECRET} >&2; PASSWORD={SECRET} sleep 60"
    return call(number, text, no_output_timeout_sec=5)  # shorter limits are not warned of


def levels_of(messages: list[Message], run: str) -> list[str]:
    told = [one["params"] for one in messages if one["method"] == "notifications/message"]
    return [one["level"] for one in told if one["data"]["taskId"] == run]


def _check(message: Message) -> None:
    data = message["data"]
    assert message["logger"] == "codex-timeout-watchdog"
    assert data["kind"] == "inactivity"
    if message["level"] == "warning":
        assert 4_900 <= data["idleMs"] + data["willAbortInMs"] <= 5_100
        assert data["message"].startswith("No output for ")
        assert data["nextSteps"]
    else:
        assert data["code"] == "EIDLE"
        assert data["message"].startswith("Command produced no output")


@pytest.mark.proves("S3-18")
async def test_a_level_that_is_none_is_refused(tmp_path: Path) -> None:
    async with raw_server(tmp_path) as client:
        await client.greet()
        for level in ("loud", 7, None, ["error"]):
            await client.send(request(1, "logging/setLevel", level=level))
            assert (await client.receive())["error"]["code"] == -32602


@pytest.mark.proves("S3-17", "S3-18", "S3-19", "S3-20", "C-16")
@pytest.mark.parametrize("limit", list(Limit))
def test_whatever_is_told_can_be_acted_on(limit: Limit) -> None:
    run = RunId("01")
    near = data_of(LimitNear(run, 0.0, limit, 270.0, 30.0, "soon"), "task-1", 300.0)
    reached = data_of(LimitReached(run, 0.0, limit, 300.0, "over"), "task-1", 300.0)
    working = data_of(SilentButWorking(run, 0.0, 60.0, "works"), "task-1", 60.0)

    assert (near["idleMs"], near["willAbortInMs"], near["taskId"]) == (270_000, 30_000, "task-1")
    assert near["nextSteps"]
    assert near["kind"] == reached["kind"]
    assert reached["code"] == {"silence": "EIDLE", "total": "ETIMEDOUT"}[limit]
    assert reached["kind"] == {"silence": "inactivity", "total": "deadline"}[limit]
    assert "willAbortInMs" not in working


def _complaints(directory: Path) -> str:
    """What the server wrote to stderr, which is wanted here."""
    path = directory / "stderr"
    text = path.read_text(encoding="utf-8")
    path.write_bytes(b"")
    return text


@pytest.mark.proves("T3-18", "S3-15", "S3-18", "C-83")
async def test_a_run_that_went_on_as_a_session_is_still_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_MCP_PATIENCE", "0.6")
    async with raw_server(tmp_path) as client:
        await client.greet()
        await client.send(silent(1), silent(2))
        before, answers = await until_answered(client, 2)
        # Who waits for the second hears of it by that call, and not twice.
        after: list[Message] = []
        end: Message = {"structuredContent": {"complete": False}}
        while not end["structuredContent"]["complete"]:
            arguments = {"sessionId": answers[1]["structuredContent"]["sessionId"]}
            await client.send(
                request(3, "tools/call", name="terminal_continue", arguments=arguments)
            )
            told, (end,) = await until_answered(client)
            after += told
        first: list[Message] = [{"status": "running"}]
        while first[0]["status"] == "running":
            await client.send(request(4, "tools/call", name="terminal_list", arguments={}))
            told, (listed,) = await until_answered(client)
            after += told
            first = listed["structuredContent"]["sessions"]
        await client.hang_up()
        rest = [*after, *await client.rest()]
        _complaints(tmp_path)

    assert before == []
    for answer in (answer["structuredContent"] for answer in answers):
        assert levels_of(rest, answer["runId"]) == ["warning", "error"]
    sessions = {one["params"]["data"]["sessionId"] for one in rest}
    assert sessions == {answer["structuredContent"]["sessionId"] for answer in answers}
    assert end["structuredContent"]["timeoutReason"] == "no_output_timeout"
    assert SECRET not in json.dumps(rest)


async def test_without_a_handshake_nothing_is_said_between_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_MCP_PATIENCE", "0.6")
    loud = {**ENVELOPE, "io.modelcontextprotocol/logLevel": "debug"}
    async with raw_server(tmp_path) as client:
        await client.send(with_meta(call(1, "sleep 60", no_output_timeout_sec=5), **loud))
        _, (answer,) = await until_answered(client)
        log = tmp_path / "stderr"
        await until(lambda: "inactivity window" in log.read_text(encoding="utf-8"))
        session = {"sessionId": answer["structuredContent"]["sessionId"]}
        reading = request(2, "tools/call", name="terminal_continue", arguments=session)
        await client.send(with_meta(reading, **ENVELOPE))
        before, (end,) = await until_answered(client)
        _complaints(tmp_path)

    assert before == []
    assert end["structuredContent"]["timeoutReason"] == "no_output_timeout"


@pytest.mark.proves("T3-25")
async def test_a_client_is_told_what_is_slower_than_usual(
    open_terminal: Open, tmp_path: Path
) -> None:
    journal = Config.of(state_dir=str(tmp_path / "state")).journal
    remember(journal, "sleep", tmp_path, [Sample(0.1, 0.1)] * 30)
    logged: list[Message] = []
    reported: list[str] = []

    async def log(params: LoggingMessageNotificationParams) -> None:
        logged.append(params.data)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        assert total is None or progress <= total
        reported.append(message or "")

    arguments = {"command": "sleep 60", "cwd": str(tmp_path), "no_output_timeout_sec": 0}
    async with open_terminal() as terminal, anyio.create_task_group() as tasks:
        server = server_of(terminal, Config())
        async with Client(server, mode="legacy", logging_callback=log) as client:
            call_tool = partial(client.call_tool, progress_callback=report)
            tasks.start_soon(call_tool, "run", arguments)
            await until(lambda: len(logged) == 2)
            await until(lambda: {one["message"] for one in logged} <= {*reported})
            tasks.cancel_scope.cancel()

    assert {one["why"] for one in logged} == {"slow", "idle"}
    assert all(one["kind"] == "unusual" and one["nextSteps"] for one in logged)
