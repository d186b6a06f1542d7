"""The session tools, through a real client, on real programs."""

import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import httpx2
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp_types import CallToolResult, TextContent

from shelltie import Config, Terminal
from shelltie.approval.question import Answer
from shelltie.frontends.mcp.request import ToolCall
from shelltie.frontends.mcp.tools import session_schemas
from shelltie.frontends.mcp.tools.registry import session_tools
from shelltie.frontends.mcp.tools.sessions import SessionSettings, SessionTools
from shelltie.running.options import Requester
from shelltie.sessions.wait_rule import AT_ONCE
from tests.conformance.any_json import JSON
from tests.conformance.servers import answer as answer_of
from tests.conformance.servers import attendant_of, filled, server_of, staying_of
from tests.conftest import Open
from tests.tree import new_tag, nobody_left, tagged, until

# Nothing is an answer because a busy machine was silent for a while: each call waits for the end,
# for somebody who reads the terminal, or for what it names.
PATIENT = {
    "persistent_minInterval": 0.1,
    "persistent_settleInterval": 20.0,
    "persistent_maxInterval": 20.0,
}
SCHEMAS = {tool.name: tool.output_schema or {} for tool in session_schemas.TOOLS}


class Caller:
    """A client that checks what holds for every answer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, name: str, **arguments: object) -> tuple[dict[str, Any], str]:
        result = await self.raw(name, **arguments)
        assert not result.is_error, result.content
        return self.read(name, result)

    async def fails(self, name: str, **arguments: object) -> tuple[dict[str, Any], str]:
        result = await self.raw(name, **arguments)
        assert result.is_error
        return self.read(name, result)

    async def raw(self, name: str, **arguments: object) -> CallToolResult:
        with anyio.fail_after(50):
            return await self._client.call_tool(name, arguments)

    def read(self, name: str, result: CallToolResult) -> tuple[dict[str, Any], str]:
        answer = cast(dict[str, Any], result.structured_content)
        jsonschema.Draft202012Validator(SCHEMAS[name]).validate(answer)
        (content,) = result.content
        assert isinstance(content, TextContent)
        return filled(SCHEMAS[name], answer), content.text


@pytest.fixture
def connect(open_terminal: Open) -> Any:  # noqa: ANN401  a context manager of callers
    @asynccontextmanager
    async def connected(era: Any = "auto", **settings: object) -> AsyncIterator[Caller]:  # noqa: ANN401  the SDK's literal
        merged = {"safety_profiles_bash_unknown": "allow", **PATIENT, **settings}
        async with open_terminal(**merged) as terminal:
            config = Config.of(**merged)
            async with Client(server_of(terminal, config), mode=era) as client:
                yield Caller(client)

    return connected


@pytest.fixture
async def call(connect: Any) -> AsyncIterator[Caller]:  # noqa: ANN401  as above
    async with connect() as caller:
        yield caller


async def waiting(call: Caller, session: str) -> dict[str, Any]:
    """What is said of a session once its program reads its terminal."""
    with anyio.fail_after(50):
        while True:
            answer, _ = await call("terminal_output", sessionId=session)
            if answer["waitingForInput"]:
                return answer
            await anyio.sleep(0.02)


@pytest.mark.proves("T2-21", "S2-51", "S2-67", "S2-11")
async def test_a_start_answers_with_id_command_position_and_output(call: Caller) -> None:
    command = "echo ready; sleep 60"
    first, text = await call("terminal_start", command=command, maxWait=6)
    second, _ = await call("terminal_start", command="sleep 60", maxWait=0)

    assert (first["id"], second["id"]) == ("term-1", "term-2")
    assert first["position"] == len("ready\r\n")
    assert text.splitlines() == [
        "Terminal Session Started",
        "ID: term-1",
        "Command: echo ready; sleep 60",
        f"Position: {first['position']}",
        "",
        "Output:",
        "ready",
    ]


@pytest.mark.proves("T2-21", "T2-27", "S2-55", "S2-69", "S2-11")
async def test_a_stop_ends_the_whole_tree_and_the_id_is_never_used_again(call: Caller) -> None:
    tag = new_tag()
    command = f"setsid sleep 60.{tag} & sleep 60.{tag}"
    started, _ = await call("terminal_start", command=command, maxWait=0)
    await until(lambda: len(tagged(tag, "sleep")) == 2)

    _, text = await call("terminal_stop", sessionId=started["id"])
    again, _ = await call("terminal_start", command="sleep 60", maxWait=0)

    assert text == "Terminal session term-1 terminated."
    await nobody_left(tag)
    assert again["id"] == "term-2"


@pytest.mark.proves("T2-27", "TX-3", "C-35")
@pytest.mark.parametrize("tool", ["terminal_stop", "terminal_continue", "terminal_output"])
async def test_an_id_that_is_none_is_an_error_that_says_so(call: Caller, tool: str) -> None:
    unknown, text = await call.fails(tool, sessionId="term-99")
    wrong, _ = await call.fails(tool, sessionId="term-BUILD-001-1697123456789")

    assert text == "Session term-99 not found"
    assert unknown["errorCode"] == "SESSION_NOT_FOUND"
    assert "terminal_execute_command" in wrong["error"]


@pytest.mark.proves("T2-22", "S2-52", "S2-53", "S2-54", "S2-68", "S2-13", "S2-11")
async def test_a_continuation_has_only_what_is_new_and_the_end_with_its_code(call: Caller) -> None:
    await call("terminal_start", command="echo one; read x; echo two; read x; echo three; exit 7")

    second, text = await call("terminal_continue", sessionId="term-1", stdin="go")
    third, last = await call("terminal_continue", sessionId="term-1", stdin="go")

    assert "two" in second["output"]
    assert "one" not in second["output"]
    assert text.splitlines()[:3] == [
        "Terminal Session: term-1",
        f"Position: {second['position']}",
        "Complete: false",
    ]
    assert third["position"] > second["position"]
    assert (third["complete"], third["exitCode"]) == (True, 7)
    assert "three" in third["output"]
    assert "Complete: true" in last


@pytest.mark.proves("C-75", "S2-72", "S2-56", "T2-28", "C-72")
async def test_a_finished_session_is_kept_until_its_rest_was_read(call: Caller) -> None:
    started, _ = await call("terminal_start", command="sleep 0.6; echo late", maxWait=0)
    listed, table = await call("terminal_list")
    while listed["sessions"][0]["running"]:
        await anyio.sleep(0.05)
        listed, table = await call("terminal_list")

    rest, _ = await call("terminal_continue", sessionId=started["id"])
    empty, text = await call("terminal_list")

    assert (rest["complete"], rest["output"].strip()) == (True, "late")
    assert table.splitlines()[2].split(" | ")[3] == "No     "
    assert (empty["sessions"], text) == ([], "No active terminal sessions.")


@pytest.mark.proves("C-53", "C-75", "T2-22")
@pytest.mark.parametrize("mode", ["program", "shell"])
async def test_all_of_a_finished_session_can_be_read(call: Caller, mode: str) -> None:
    first, _ = await call("terminal_start", command="seq 20000; exit 4", mode=mode)
    read, place = first["output"].partition("\n[...")[0], first["readFrom"]
    again, _ = await call("terminal_continue", sessionId="term-1")
    while place is not None:
        part = {"from": place, "limit": 50_000}
        more, _ = await call("terminal_output", sessionId="term-1", **part)
        read += more["output"].removesuffix("\n[...Output truncated...]")
        place = more["readFrom"]
    gone, _ = await call.fails("terminal_continue", sessionId="term-1")

    assert (first["complete"], first["exitCode"], again["complete"]) == (True, 4, True)
    assert read.replace("exit\n", "") == "".join(f"{number}\n" for number in range(1, 20001))
    assert gone["errorCode"] == "SESSION_NOT_FOUND"


@pytest.mark.proves("T2-24", "C-73", "S2-49", "S2-52")
@pytest.mark.parametrize("typed", ["y", "y\n"])
async def test_input_at_the_start_and_later_is_exactly_one_line(call: Caller, typed: str) -> None:
    program = 'read -r a; echo "[$a]"; read -r b; echo "<$b>"; read -t 0.2 c; echo "$?"'

    first, _ = await call("terminal_start", command=program, stdin=typed)
    second, _ = await call("terminal_continue", sessionId="term-1", stdin=typed)

    assert "[y]" in first["output"]
    assert "<y>" in second["output"]
    assert second["output"].strip().endswith("142")  # nothing more was there to read


@pytest.mark.proves("T2-25", "S2-80", "C-74", "S2-10", "S2-63", "C-72")
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_python_repl_answers_line_by_line(connect: Any, era: str) -> None:  # noqa: ANN401  as above
    async with connect(era) as call:
        await call("terminal_start", command="python3 -q", waitFor=">>> ")
        hello, _ = await call(
            "terminal_continue", sessionId="term-1", stdin='print("Hello from Python")\n'
        )
        program = "x = 42\nprint(x * 2)\n"
        number, _ = await call("terminal_continue", sessionId="term-1", stdin=program)
        await call("terminal_stop", sessionId="term-1")

    assert "Hello from Python" in hello["output"]
    assert re.search(r"^84$", number["output"], re.MULTILINE)
    assert number["waitingForInput"]


@pytest.mark.proves("T2-26")
async def test_a_prompt_works_on_a_terminal_and_pipes_have_no_echo(call: Caller) -> None:
    program = 'read -p "Name? " name; echo "Hello $name"'
    await call("terminal_start", command=program, waitFor="Name")
    prompt = await waiting(call, "term-1")
    greeted, _ = await call("terminal_continue", sessionId="term-1", stdin="Ada")
    silent, _ = await call("terminal_start", command=program, pty=False, maxWait=0)
    plain, _ = await call("terminal_continue", sessionId="term-2", stdin="Ada")

    assert (prompt["password"], prompt["lastLine"]) == (False, "Name?")
    assert greeted["output"].splitlines() == ["Ada", "Hello Ada"]
    assert silent["output"] == ""
    assert plain["output"] == "Hello Ada\n"


async def test_a_password_prompt_is_told_apart(call: Caller) -> None:
    await call(
        "terminal_start", command="read -s -p 'Password: ' x; echo; echo ok", waitFor="Password"
    )
    asked = await waiting(call, "term-1")
    _, text = await call("terminal_output", sessionId="term-1")
    answered, _ = await call("terminal_continue", sessionId="term-1", stdin="secret")

    assert (asked["waitingForInput"], asked["password"]) == (True, True)
    assert "Waiting for input: a password" in text
    assert answered["output"].split() == ["ok"]


@pytest.mark.proves("T2-28", "S2-56", "S2-70", "S2-11")
async def test_the_list_is_a_table(call: Caller) -> None:
    command = "echo abc; exec sleep 600 # a long command line, cut"
    listed, text = await call("terminal_start", command=command, maxWait=0)
    with anyio.fail_after(50):
        while "sessions" not in listed or listed["sessions"][0]["position"] < 5:
            listed, text = await call("terminal_list")
    title, header, row = text.splitlines()

    assert title == "Active Terminal Sessions:"
    assert header == f"{'ID':12} | {'Command':30} | {'Position':8} | {'Running':7} | Uptime"
    assert re.fullmatch(
        r"term-1 {6} \| echo abc; exec sleep 600 # a l \| 5 {8}\| Yes {4} \| \d+s", row
    )
    assert listed["sessions"][0]["running"] is True


@pytest.mark.proves("T2-32", "S2-70")
async def test_sessions_do_not_mix_their_output(call: Caller) -> None:
    for letter in "abc":
        await call("terminal_start", command=f"while read x; do echo {letter}$x; done", maxWait=0)

    async with anyio.create_task_group() as tasks:
        found: dict[str, str] = {}

        async def ask(number: int, letter: str) -> None:
            answer, _ = await call(
                "terminal_continue", sessionId=f"term-{number}", stdin="1", waitFor=f"{letter}1"
            )
            found[letter] = answer["output"]

        for number, letter in enumerate("abc", 1):
            tasks.start_soon(ask, number, letter)
    listed, table = await call("terminal_list")

    assert [one["id"] for one in listed["sessions"]] == ["term-1", "term-2", "term-3"]
    assert len(table.splitlines()) == 5
    assert {letter: set(re.findall(r"[abc]1", text)) for letter, text in found.items()} == {
        letter: {f"{letter}1"} for letter in "abc"
    }


@pytest.mark.proves("S2-45", "T2-18")
async def test_a_dangerous_command_waits_for_a_person_however_long_it_takes(
    open_terminal: Open, tmp_path: Path
) -> None:
    (tmp_path / "build").mkdir()
    config = Config.of(safety_unknown_timeout=0.01)
    answers: list[str] = []
    settings = {"safety_unknown_timeout": 0.01, "safety_undelivered_timeout": 60.0}
    async with open_terminal(**settings) as terminal:
        broker = terminal.supervisor.admission.broker
        broker.reachable = True
        async with (
            Client(server_of(terminal, config)) as client,
            anyio.create_task_group() as tasks,
        ):
            call = Caller(client)

            async def delete() -> None:
                answers.append((await call("bash", command=f"rm -rf {tmp_path}/build"))[1])

            tasks.start_soon(delete)
            with anyio.fail_after(50):
                while not broker.pending():
                    await anyio.sleep(0.01)
            _, listed = await call("bash", command=f"ls -la {tmp_path}")
            assert not answers
            question = broker.pending()[0].question
            await broker.answer(question.id, question.digest, Answer(allowed=True))

    assert " build\n" in listed
    assert answers == ["Exit Code: 0\n\nOutput:\n"]
    assert not (tmp_path / "build").exists()


@pytest.mark.proves("T2-20", "C-53", "S2-47", "C-49")
async def test_long_output_is_cut_and_the_rest_can_be_read(call: Caller) -> None:
    program = "python3 -c \"print('x' * 10001, end='')\"; sleep 60"

    started, text = await call("terminal_start", command=program, waitFor="x{9}", maxWait=20)
    while started["position"] < 10001:
        started, text = await call("terminal_output", sessionId="term-1")
    rest, _ = await call("terminal_output", sessionId="term-1", **{"from": 10_000})

    assert started["output"] == "x" * 10_000 + "\n[...Output truncated...]"
    assert (started["truncated"], started["readFrom"]) == (True, 10_000)
    assert "from: 10000" in text
    assert (rest["output"], rest["truncated"]) == ("x", False)


@pytest.mark.proves("T2-33", "C-53")
async def test_megabytes_of_output_keep_their_positions(connect: Any) -> None:  # noqa: ANN401
    sizes = {
        "output_kept_head": 65_536,
        "output_kept_tail": 65_536,
        "output_spool_cap": 1_000_000,
        "output_shown": 10_000,
    }
    async with connect(**sizes) as call:
        program = "head -c 3000000 /dev/zero | tr '\\0' 'z'; echo; sleep 60"
        await call("terminal_start", command=program, maxWait=0)
        listed = [{"position": 0}]
        with anyio.fail_after(50):
            while listed[0]["position"] < 3_000_002:
                listed = (await call("terminal_list"))[0]["sessions"]
                await anyio.sleep(0.05)

        late, text = await call("terminal_output", sessionId="term-1", **{"from": 2_000_000})

    assert late["position"] == 3_000_002
    # What neither the file nor the end in memory has is gone: nothing else is kept of it.
    assert late["skipped"] >= 3_000_002 - 2_000_000 - 2 * 65_536
    assert f"Skipped: {late['skipped']} characters" in text
    assert set(late["output"].splitlines()[0]) == {"z"}


async def test_keys_reach_the_program(call: Caller) -> None:
    await call("terminal_start", command="cat", maxWait=0)
    await waiting(call, "term-1")

    stopped, _ = await call("terminal_continue", sessionId="term-1", keys=["ctrl-c"])

    assert stopped["complete"]
    assert stopped["exitCode"] == 130


@pytest.mark.proves("C-73")
async def test_raw_input_is_sent_as_it_is(call: Caller) -> None:
    await call("terminal_start", command="cat", maxWait=0)
    await waiting(call, "term-1")

    stopped, _ = await call("terminal_continue", sessionId="term-1", stdin="\x03", raw=True)

    assert (stopped["complete"], stopped["exitCode"]) == (True, 130)


async def test_the_end_of_input_ends_a_reader(call: Caller) -> None:
    for number, pty in ((1, True), (2, False)):
        await call("terminal_start", command="cat; echo over", pty=pty, maxWait=0)
        ended, _ = await call("terminal_continue", sessionId=f"term-{number}", end=True)
        assert ended["output"].strip().endswith("over")
        assert ended["complete"]


async def test_a_size_that_is_not_given_stays(call: Caller) -> None:
    await call("terminal_start", command="bash --norc", rows=40, columns=150)
    await call("terminal_continue", sessionId="term-1", rows=30, maxWait=0)
    said, _ = await call(
        "terminal_continue", sessionId="term-1", stdin="stty size", waitFor="30 150"
    )

    assert "30 150" in said["output"]


async def test_a_terminal_can_be_resized(call: Caller) -> None:
    await call("terminal_start", command="bash --norc", rows=30, columns=100)

    ask = {"sessionId": "term-1", "stdin": "stty size"}
    before, _ = await call("terminal_continue", **ask, waitFor="30 100")
    after, _ = await call("terminal_continue", **ask, rows=50, columns=132, waitFor="50 132")

    assert (before["found"], after["found"]) == (True, True)


@pytest.mark.parametrize(
    "arguments",
    [
        {"rows": 0, "columns": 80},
        {"rows": 24, "columns": 100_000},
        {"keys": ["entr"]},
        {"keys": "enter"},
        {"keys": [1]},
        {"stdin": 5},
        {"maxWait": -1},
        {"maxWait": "soon"},
        {"waitFor": "(a+)+$"},
        {"waitFor": "("},
        {"wait": 1},
        {"sessionId": None},
    ],
)
async def test_a_wrong_call_changes_nothing(call: Caller, arguments: dict[str, Any]) -> None:
    await call("terminal_start", command="cat", maxWait=0)

    wrong, _ = await call.fails("terminal_continue", **{"sessionId": "term-1", **arguments})
    right, _ = await call("terminal_continue", sessionId="term-1", stdin="still here")

    assert wrong["errorCode"] == "INVALID_PARAMETERS"
    assert "still here" in right["output"]


async def test_input_for_who_has_ended_is_refused_clearly(call: Caller) -> None:
    await call("terminal_start", command="sleep 0.5; echo the rest; exit 3", maxWait=0)
    with anyio.fail_after(50):
        while (await call("terminal_list"))[0]["sessions"][0]["running"]:
            await anyio.sleep(0.02)

    refused, text = await call.fails("terminal_continue", sessionId="term-1", stdin="hello")
    again, _ = await call.fails("terminal_continue", sessionId="term-1", stdin="hello")

    assert "has ended, so nobody has read your input" in refused["error"]
    assert (refused["output"].strip(), refused["exitCode"]) == ("the rest", 3)
    assert "Exit Code: 3" in text
    assert "it ended with exit code 3" in again["error"]


async def test_why_a_person_ended_a_session_stands_in_the_text(open_terminal: Open) -> None:
    settings: dict[str, Any] = {"safety_profiles_session_unknown": "allow", **PATIENT}
    async with (
        open_terminal(**settings) as terminal,
        Client(server_of(terminal, Config.of(**settings))) as client,
    ):
        call = Caller(client)
        await call("terminal_start", command="cat", maxWait=0)
        (run,) = [one for one in terminal.supervisor.runs.values() if one.command.text == "cat"]
        run.stop("by a person: it hangs")
        answer, text = await call("terminal_continue", sessionId="term-1", maxWait=20)

    assert answer["hint"] == "it was ended: by a person: it hangs"
    assert f"Note: {answer['hint']}" in text


@pytest.mark.needs("vi", "top")
@pytest.mark.parametrize("command", ["vi -u NONE", "top -d 30", "less /etc/passwd"])
async def test_a_full_screen_program_is_to_be_seen_as_a_screen(call: Caller, command: str) -> None:
    shown, _ = await call("terminal_start", command=command, waitFor=".", maxWait=20)
    if command.startswith("less"):
        await call("terminal_continue", sessionId="term-1", stdin="q", raw=True, maxWait=20)

    assert 'view "screen"' in shown["hint"]


async def test_of_a_long_command_in_a_shell_both_ends_are_shown(call: Caller) -> None:
    answer, _ = await call("terminal_start", mode="shell", command="seq 1 9000", maxWait=20)
    rest, _ = await call(
        "terminal_output", **{"sessionId": "term-1", "from": answer["readFrom"], "limit": 100_000}
    )

    assert answer["truncated"]
    assert answer["output"].startswith("1\n2\n")
    assert answer["output"].endswith("8999\n9000\n")
    assert "characters left out...]" in answer["output"]
    assert rest["output"].endswith("9000\n")


async def test_a_megabyte_for_who_does_not_read_blocks_nobody(call: Caller) -> None:
    await call("terminal_start", command="sleep 60", pty=False, maxWait=0)
    for _ in range(2):
        await call("terminal_continue", sessionId="term-1", stdin="x" * 500_000, maxWait=0)

    full, _ = await call.fails(
        "terminal_continue", sessionId="term-1", stdin="x" * 500_000, maxWait=0
    )
    fine, _ = await call("terminal_start", command="echo fine")

    assert "does not read" in full["error"]
    assert "fine" in fine["output"]


async def test_the_limit_of_sessions_is_told_and_a_finished_one_makes_room(connect: Any) -> None:  # noqa: ANN401
    async with connect(sessions_max=2) as call:
        await call("terminal_start", command="sleep 60", maxWait=0)
        await call("terminal_start", command="sleep 60", maxWait=0)

        refused, _ = await call.fails("terminal_start", command="sleep 60")
        await call("terminal_stop", sessionId="term-1")
        third, _ = await call("terminal_start", command="sleep 60", maxWait=0)

    assert refused["errorCode"] == "MAX_SESSIONS_EXCEEDED"
    assert refused["details"] == {"active": 2, "max": 2}
    assert third["id"] == "term-3"


@pytest.mark.proves("T2-18", "S2-42", "S2-43", "S2-48", "S2-50", "S2-67", "C-58")
async def test_bash_runs_what_is_safe_and_refuses_what_nobody_approves(
    connect: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    canary = tmp_path / "canary"
    async with connect(
        safety_preset="strict",
        safety_profiles_bash_unknown="ask",
        safety_unknown_timeout=0.2,
        isolation_unasked="refuse",
    ) as call:
        safe, text = await call("bash", command="echo hello")
        refused, said = await call.fails("bash", command=f"touch {canary}")
        started, _ = await call.fails("terminal_start", command=f"touch {canary}; sleep 9")
        missing = [await call.fails("bash", **wrong) for wrong in ({}, {"command": "  "})]

    assert (safe["ok"], safe["exitCode"], safe["output"]) == (True, 0, "hello\n")
    assert text == "Exit Code: 0\n\nOutput:\nhello\n"
    assert said.startswith("Not run: a person must approve")
    assert "nobody can be asked here" in said
    assert refused["errorCode"] == started["errorCode"] == "CONFIRMATION_REQUIRED"
    assert refused["verdict"] == "unknown"
    assert not canary.exists()
    assert {answer["errorCode"] for answer, _ in missing} == {"INVALID_PARAMETERS"}


@pytest.mark.proves("T2-20", "S2-1", "S2-47", "C-49")
@pytest.mark.parametrize("character", ["x", "\N{EURO SIGN}"])
async def test_bash_cuts_at_ten_thousand_characters_and_not_before(
    call: Caller, character: str
) -> None:
    program = f"python3 -c \"print('{character}' * {{}}, end='')\""

    _, short = await call("bash", command=program.format(10_000))
    cut, long = await call("bash", command=program.format(10_001))

    assert short.endswith(character * 10_000)
    assert long.endswith(character * 10_000 + "\n [...Results were too long, truncated...]")
    assert len(cut["output"]) == 10_000


async def test_bash_names_the_file_that_has_what_it_cut(call: Caller) -> None:
    _, text = await call("bash", command="seq 1 4000")

    line = next(one for one in text.splitlines() if one.startswith("All of the output: "))
    file = Path(line.removeprefix("All of the output: ").partition(" (")[0])
    assert file.read_text(encoding="utf-8").endswith("\n3999\n4000\n")


async def test_bash_shows_programs_both_ends_of_long_output_and_where_the_rest_is(
    call: Caller,
) -> None:
    whole, _ = await call("bash", command="seq 1 5")
    cut, _ = await call("bash", command="seq 1 300000")
    complaint, _ = await call("bash", command="python3 -c 'exit(\"x\" * 300000)'")

    assert (whole["truncated"], whole["outputFile"]) == (False, None)
    assert (cut["truncated"], complaint["truncated"]) == (True, True)
    assert cut["stdout"].startswith("1\n2\n")
    assert cut["stdout"].endswith("\n300000\n")
    assert max(len(cut["stdout"]), len(complaint["stderr"])) < 45_000
    assert Path(cut["outputFile"]).read_text(encoding="utf-8").endswith("\n299999\n300000\n")


@pytest.mark.proves("S2-10", "S2-63")
async def test_a_dev_server_is_up_when_it_says_so(call: Caller) -> None:
    program = f"{sys.executable} -u -m http.server 0 --bind 127.0.0.1"
    up, _ = await call("terminal_start", command=program, waitFor="Serving HTTP", maxWait=20)
    never, _ = await call(
        "terminal_continue", sessionId="term-1", waitFor="no such words", maxWait=0.3
    )

    assert (up["found"], never["found"]) == (True, False)
    assert not never["complete"]


async def test_a_limit_of_a_session_ends_it_and_says_so(call: Caller) -> None:
    await call("terminal_start", command="sleep 60", timeoutSeconds=0.3, maxWait=0)

    ended, _ = await call("terminal_continue", sessionId="term-1")

    assert ended["complete"]
    assert ended["hint"] == "it was ended: timeout (total)"


async def test_two_callers_in_one_session_get_each_their_own_answer(call: Caller) -> None:
    program = 'while read x; do sleep 0.2; echo "answer $x"; done'
    await call("terminal_start", command=program, pty=False, maxWait=0)
    answers: dict[str, str] = {}

    async def ask(word: str) -> None:
        got, _ = await call(
            "terminal_continue", sessionId="term-1", stdin=word, waitFor=f"answer {word}"
        )
        answers[word] = got["output"]

    async with anyio.create_task_group() as tasks:
        for word in ("one", "two", "three"):
            tasks.start_soon(ask, word)

    assert answers == {word: f"answer {word}\n" for word in ("one", "two", "three")}


@pytest.mark.proves("T2-30", "S2-73")
async def test_nothing_is_left_when_the_terminal_closes(connect: Any) -> None:  # noqa: ANN401
    tag = new_tag()
    async with connect() as call:
        for _ in range(3):
            command = f"trap '' TERM HUP; setsid sleep 90.{tag} & sleep 90.{tag}"
            await call("terminal_start", command=command, maxWait=0)

    await nobody_left(tag)


@pytest.mark.proves("C-72")
async def test_a_shell_answers_each_command_with_its_end(call: Caller, tmp_path: Path) -> None:
    started, text = await call(
        "terminal_start", command=f"cd {tmp_path}; echo here; false", mode="shell"
    )
    second, said = await call("terminal_continue", sessionId="term-1", command="pwd; (exit 3)")
    last, _ = await call("terminal_continue", sessionId="term-1", command="echo bye; exit 4")

    assert (started["output"], started["exitCode"], started["ended"]) == ("here\n", 1, True)
    assert text.splitlines()[:2] == ["Terminal Session Started", "ID: term-1"]
    assert "Exit Code: 1" in text
    assert (second["output"], second["exitCode"]) == (f"{tmp_path}\n", 3)
    assert (second["complete"], second["running"], second["cwd"]) == (False, True, str(tmp_path))
    assert "Ended: true" in said
    assert (last["output"].split()[0], last["exitCode"], last["complete"]) == ("bye", 4, True)


async def test_input_and_keys_reach_the_command_in_a_shell(call: Caller) -> None:
    program = 'read -p "Sure? " answer; echo "[$answer]"; sleep 60'
    asked, _ = await call("terminal_start", command=program, mode="shell")
    busy, _ = await call.fails("terminal_continue", sessionId="term-1", command="echo no")
    answered, text = await call(
        "terminal_continue", sessionId="term-1", stdin="yes", waitFor=r"\[yes\]"
    )
    stopped, _ = await call("terminal_continue", sessionId="term-1", keys=["ctrl-c"])
    with anyio.fail_after(60):
        while not stopped["ended"]:  # an answer comes when all is quiet, as on a busy machine
            stopped, _ = await call("terminal_continue", sessionId="term-1")
    idle, _ = await call.fails("terminal_continue", sessionId="term-1", stdin="echo no")
    after, _ = await call("terminal_continue", sessionId="term-1", command="echo after")

    assert (asked["ended"], asked["waitingForInput"], asked["exitCode"]) == (False, True, None)
    assert "ctrl-c" in busy["error"]
    assert "[yes]" in answered["output"]
    assert "ctrl-c" in answered["hint"]
    assert "Ended: false" in text
    assert (stopped["ended"], stopped["exitCode"], stopped["running"]) == (True, 130, True)
    assert "no command runs" in idle["error"]
    assert after["output"] == "after\n"


async def test_the_first_command_of_a_shell_may_get_input_at_once(call: Caller) -> None:
    program = 'read -r x; echo "[$x]"'
    first, _ = await call("terminal_start", command=program, mode="shell", stdin="hello")
    found, _ = await call(
        "terminal_continue", sessionId="term-1", command="echo ready; sleep 60", waitFor="ready"
    )

    assert (first["output"].split()[-1], first["ended"]) == ("[hello]", True)
    assert (found["found"], found["ended"]) == (True, False)


async def test_no_mark_of_a_shell_is_in_any_view(call: Caller) -> None:
    await call("terminal_start", command="printf 'x\\n'", mode="shell")
    await call("terminal_continue", sessionId="term-1", command="echo y")

    for view in ("clean", "raw", "screen"):
        shown, _ = await call("terminal_output", sessionId="term-1", view=view)
        assert shown["output"].split() == ["x", "y"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "echo x", "stdin": "y"},
        {"command": "echo x", "keys": ["enter"]},
        {"command": ""},
        {"command": " "},
        {"command": "a\0b"},
        {"command": 5},
    ],
)
async def test_a_wrong_command_for_a_shell_changes_nothing(
    call: Caller, arguments: dict[str, Any]
) -> None:
    await call("terminal_start", command="true", mode="shell")

    wrong, _ = await call.fails("terminal_continue", **{"sessionId": "term-1", **arguments})
    right, _ = await call("terminal_continue", sessionId="term-1", command="echo fine")

    assert wrong["errorCode"] == "INVALID_PARAMETERS"
    assert right["output"] == "fine\n"


async def test_commands_and_screens_are_for_sessions_that_have_them(call: Caller) -> None:
    await call("terminal_start", command="cat", pty=False, maxWait=0)

    command, _ = await call.fails("terminal_continue", sessionId="term-1", command="echo x")
    screen, _ = await call.fails("terminal_output", sessionId="term-1", view="screen")
    pipes, _ = await call.fails("terminal_start", command="true", mode="shell", pty=False)

    assert "stdin" in command["error"]
    assert "no terminal" in screen["error"]
    assert "terminal" in pipes["error"]


async def test_a_command_that_nobody_allows_does_not_reach_the_shell(connect: Any) -> None:  # noqa: ANN401
    async with connect(safety_profiles_session_unknown="deny") as call:
        refused, _ = await call.fails("terminal_start", command="ls", mode="shell")
        listed, _ = await call("terminal_list")

    assert refused["errorCode"] == "COMMAND_DENIED"
    assert listed["sessions"] == []


@pytest.mark.needs("less")
async def test_the_screen_is_what_a_person_sees(call: Caller) -> None:
    pytest.importorskip("pyte")
    await call("terminal_start", command="seq 100 | less", rows=10, columns=40, maxWait=0)
    await waiting(call, "term-1")

    shown, text = await call("terminal_output", sessionId="term-1", view="screen")

    assert shown["output"].splitlines()[:9] == [str(n) for n in range(1, 10)]
    assert shown["cursorRow"] == 9
    assert "Cursor: row 9" in text


def test_every_tool_of_sessions_has_a_valid_schema() -> None:
    for tool in session_schemas.TOOLS:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema or {})
        assert json.dumps(tool.input_schema)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    name=st.sampled_from([tool.name for tool in session_schemas.TOOLS]),
    arguments=st.fixed_dictionaries(
        {},
        optional={
            "command": st.sampled_from(["true", "exit 3", " ", "\0"])
            | JSON.filter(lambda value: not isinstance(value, str)),
            "sessionId": st.sampled_from(["term-1", "term-99"]) | JSON,
            "stdin": JSON,
            "keys": st.lists(st.sampled_from(["ctrl-c", "up"]), max_size=2) | JSON,
            "from": st.integers() | JSON,
            "limit": st.integers() | JSON,
            "view": st.sampled_from(["clean", "raw", "screen"]) | JSON,
            "waitFor": st.just("x") | JSON,
            "maxWait": st.just(0) | JSON.filter(lambda value: not isinstance(value, int | float)),
            "timeoutSeconds": st.floats() | JSON,
            "pty": st.booleans() | JSON,
            "more": JSON,
        },
    ),
)
@pytest.mark.proves("TX-10")
async def test_any_arguments_get_an_answer_that_the_schema_knows(
    terminal: Terminal, name: str, arguments: dict[str, object]
) -> None:
    attendant = attendant_of(terminal)
    settings = SessionSettings(AT_ONCE, 10_000, 60.0, 40_000)
    ours = SessionTools(attendant, settings, staying_of(attendant))
    tools = {tool.listing.name: tool for tool in session_tools(ours, Config())}
    requester = Requester()
    await ours.start(ToolCall("terminal_start", {"command": "true", "maxWait": 0}, "", requester))
    properties = next(
        tool.input_schema["properties"] for tool in session_schemas.TOOLS if tool.name == name
    )
    fitting = {key: value for key, value in arguments.items() if key in properties}

    for asked in (arguments, fitting):
        # Not through the SDK's client: it sends NaN as null.
        result = await answer_of(tools[name], ToolCall(name, asked, "", requester))

        jsonschema.Draft202012Validator(SCHEMAS[name]).validate(result.structured_content)


@pytest.mark.parametrize("mode", ["program", "shell"])
async def test_a_secret_that_a_start_sets_is_withheld_and_that_is_said(
    call: Caller, mode: str
) -> None:
    env = {"API_KEY": "hunter2", "MINE": "y"}
    command = "echo ${#API_KEY} $MINE"

    answer, text = await call("terminal_start", command=command, env=env, mode=mode, waitFor="0 y")

    (warning,) = answer["warnings"]
    assert warning.startswith("API_KEY of the call was withheld")
    assert f"Warning: {warning}" in text


@pytest.mark.needs("bwrap")
@pytest.mark.proves("D16")
async def test_a_sandboxed_server_is_reached_where_every_answer_says(
    connect: Any,  # noqa: ANN401  as above
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "home")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/index.html").write_text("from inside")
    shown = {"sandbox_workspace": str(tmp_path / "project"), "sandbox_readable": (sys.base_prefix,)}
    command = f"{Path(sys.executable).resolve()} -u -m http.server 0 --bind 127.0.0.1"
    async with connect(**shown) as call:
        answers = [
            await call(
                "terminal_start",
                command=command,
                cwd=str(tmp_path / "project"),
                isolation="sandbox",
                waitFor="Serving HTTP",
            ),
            await call("terminal_continue", sessionId="term-1", maxWait=0),
            await call("terminal_output", sessionId="term-1"),
        ]
        listed, _ = await call("terminal_list")
        (port,) = answers[0][0]["ports"]
        async with httpx2.AsyncClient() as client:
            page = await client.get(f"http://{port['outside']}/", timeout=30)
        _, after = await call("terminal_stop", sessionId="term-1")

    line = f"listens on {port['inside']} inside the sandbox; forwarded to {port['outside']}"
    assert [line in text for _, text in answers] == [True] * 3
    assert [answer["ports"] for answer, _ in answers] == [[port]] * 3
    assert listed["sessions"][0]["ports"] == [port]
    assert page.text == "from inside"
    assert "forwarded" not in after
