"""A client's own person is asked, in both eras; only an explicit yes lets a command run, once."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    CallToolResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
)

from shelltie import Config, Terminal
from shelltie.approval.question import Answer
from shelltie.frontends.mcp.confirm import answer_of
from tests.asking import shelltie, until_asked
from tests.conformance.raw_mcp import (
    ENVELOPE,
    SERVER,
    call,
    raw_server,
    request,
    server_environment,
)
from tests.conformance.servers import server_of
from tests.conftest import Open

ERAS = ["legacy", "2026-07-28"]
MODERN = "2026-07-28"
YES = ElicitResult(action="accept", content={"allow": True})
NO = ElicitResult(action="decline")

Connect = Callable[..., Any]


class Person:
    """Somebody at the client who says one thing, and remembers what they were asked."""

    def __init__(self, says: ElicitResult | ErrorData | None) -> None:
        self.read: list[str] = []
        self.asked = anyio.Event()
        self.left = 0
        self._says = says

    async def __call__(
        self,
        context: object,  # noqa: ARG002  the SDK's name
        params: ElicitRequestParams,
    ) -> ElicitResult | ErrorData:
        assert isinstance(params, ElicitRequestFormParams)
        assert params.requested_schema["required"] == ["allow"]
        self.read.append(params.message)
        self.asked.set()
        try:
            while self._says is None:
                await anyio.sleep_forever()
            return self._says
        finally:
            self.left += 1


@pytest.fixture
def connect(open_terminal: Open) -> Connect:
    @asynccontextmanager
    async def connected(
        era: Any,  # noqa: ANN401  the SDK's literal
        person: Person | None,
        **settings: object,
    ) -> AsyncIterator[tuple[Client, Terminal]]:
        merged = {
            "safety_dangerousCommands": ("launch",),
            "safety_dangerous_timeout": 20.0,
            "safety_undelivered_timeout": 20.0,
            **settings,
        }
        async with open_terminal(**merged) as terminal:
            server = server_of(terminal, Config.of(**merged))
            async with Client(server, mode=era, elicitation_callback=person) as client:
                yield client, terminal

    return connected


def launch(mark: Path) -> dict[str, Any]:
    """A command that leaves a line behind whenever it runs."""
    return {"command": f"echo launch >> {mark}"}


def runs(mark: Path) -> int:
    return len(mark.read_text(encoding="utf-8").splitlines()) if mark.exists() else 0


def said(result: object) -> dict[str, Any]:
    assert isinstance(result, CallToolResult)
    return result.structured_content or {}


async def asked(client: Client, name: str, arguments: dict[str, Any]) -> InputRequiredResult:
    """What a client of the 2026 era gets back before it has asked anybody."""
    result = await client.session.call_tool(name, arguments, allow_input_required=True)
    assert isinstance(result, InputRequiredResult)
    return result


async def repeat(
    client: Client,
    question: InputRequiredResult,
    arguments: dict[str, Any],
    says: ElicitResult = YES,
) -> CallToolResult | InputRequiredResult:
    return await client.session.call_tool(
        "run",
        arguments,
        input_responses={"allow": says},
        request_state=question.request_state,
        allow_input_required=True,
    )


@pytest.mark.proves("C-60", "S2-9", "D4")
@pytest.mark.parametrize("tool", ["run", "bash", "terminal_start"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_yes_lets_exactly_this_run(
    connect: Connect, tmp_path: Path, era: str, tool: str
) -> None:
    person, mark = Person(YES), tmp_path / "mark"

    async with connect(era, person) as (client, _):
        result = await client.call_tool(tool, launch(mark))
        again = await client.call_tool(tool, launch(mark))

    assert not result.is_error
    assert not again.is_error
    assert runs(mark) == 2
    assert len(person.read) == 2  # a yes is for once


@pytest.mark.proves("C-60")
@pytest.mark.parametrize(
    "says",
    [
        NO,
        ElicitResult(action="decline", content={"allow": True}),
        ElicitResult(action="accept", content={"allow": False}),
    ],
)
@pytest.mark.parametrize("era", ERAS)
async def test_an_explicit_no_is_told_as_a_refusal(
    connect: Connect, tmp_path: Path, era: str, says: ElicitResult
) -> None:
    mark = tmp_path / "mark"

    async with connect(era, Person(says)) as (client, _):
        result = await client.call_tool("run", launch(mark))

    assert said(result)["errorCode"] == "COMMAND_DENIED"
    assert "refused a dangerous command" in said(result)["error"]
    assert runs(mark) == 0


@pytest.mark.proves("C-60")
@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        {"scope": "always"},
        {"allow": "true"},
        {"allow": 1},
        {"Allow": True},
    ],
)
@pytest.mark.parametrize("era", ERAS)
async def test_what_is_neither_yes_nor_no_is_no_and_told_as_no_refusal(
    connect: Connect, tmp_path: Path, era: str, content: dict[str, Any] | None
) -> None:
    mark = tmp_path / "mark"
    says = ElicitResult(action="accept", content=content)

    async with connect(era, Person(says)) as (client, _):
        result = await client.call_tool("run", launch(mark))

    assert said(result)["errorCode"] == "COMMAND_DENIED"
    assert "was answered without a yes to a dangerous command" in said(result)["error"]
    assert " refused" not in said(result)["error"]
    assert runs(mark) == 0


@pytest.mark.parametrize("era", ERAS)
async def test_a_yes_to_a_kind_that_is_not_offered_is_for_once(
    connect: Connect, tmp_path: Path, era: str
) -> None:
    says = ElicitResult(action="accept", content={"allow": True, "scope": "kind"})
    person, mark = Person(says), tmp_path / "mark"

    async with connect(era, person) as (client, _):
        for _ in range(2):
            await client.call_tool("run", launch(mark))

    assert runs(mark) == 2
    assert len(person.read) == 2


@pytest.mark.parametrize("era", ERAS)
async def test_a_yes_to_a_target_that_is_redacted_is_none(
    connect: Connect, tmp_path: Path, era: str
) -> None:
    person, canary = Person(YES), tmp_path / "canary"
    canary.mkdir()

    async with connect(era, person, safety_dangerous_timeout=6.0) as (client, terminal):
        terminal.supervisor.admission.broker.reachable = True
        command = f"PASSWORD={canary}; rm -rf build $PASSWORD"
        result = await client.call_tool("run", {"command": command})

    assert said(result)["errorCode"] == "CONFIRMATION_REQUIRED"
    assert "shelltie approve" in said(result)["error"]
    assert "a yes here does not count" in person.read[0]
    assert canary.is_dir()


@pytest.mark.parametrize("era", ERAS)
async def test_a_yes_to_what_was_not_shown_is_none(
    connect: Connect, tmp_path: Path, era: str
) -> None:
    person, mark = Person(YES), tmp_path / "mark"
    command = "\n".join(f"rm -rf {tmp_path}/build{n}" for n in range(400))

    async with connect(era, person, safety_dangerous_timeout=6.0) as (client, _):
        result = await client.call_tool("run", {"command": f"{command}\necho launch >> {mark}"})

    assert said(result)["errorCode"] == "CONFIRMATION_REQUIRED"
    assert "a yes here does not count" in person.read[0]
    assert "shelltie approve" in person.read[0]
    assert runs(mark) == 0


def test_a_dialogue_that_was_closed_says_nothing() -> None:
    assert answer_of(ElicitResult(action="cancel"), "test") is None
    assert answer_of(YES, "test") == Answer(allowed=True, by="test")


async def approved_elsewhere(
    client: Client, terminal: Terminal, person: Person, mark: Path
) -> None:
    """A yes that comes while the client's dialogue is open."""
    broker = terminal.supervisor.admission.broker
    broker.reachable = True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "run", launch(mark))
        await person.asked.wait()
        (waiting,) = broker.pending()
        await broker.answer(waiting.question.id, waiting.question.digest, Answer(allowed=True))


@pytest.mark.parametrize(
    "says",
    [
        ElicitResult(action="cancel", content={"allow": True}),
        ErrorData(code=INVALID_REQUEST, message="no"),
    ],
)
async def test_who_closes_the_dialogue_leaves_it_to_others(
    connect: Connect, tmp_path: Path, says: ElicitResult | ErrorData
) -> None:
    person, mark = Person(says), tmp_path / "mark"

    async with connect("legacy", person) as (client, terminal):
        await approved_elsewhere(client, terminal, person, mark)

    assert runs(mark) == 1


async def test_the_first_answer_counts_and_the_dialogue_is_taken_back(
    connect: Connect, tmp_path: Path
) -> None:
    person, mark = Person(None), tmp_path / "mark"

    async with connect("legacy", person) as (client, terminal):
        await approved_elsewhere(client, terminal, person, mark)
        with anyio.fail_after(50):
            while not person.left:
                await anyio.sleep(0.02)

    assert runs(mark) == 1


@pytest.mark.proves("C-59")
async def test_a_dialogue_that_nobody_answers_is_no_and_says_where_to_approve(
    connect: Connect, tmp_path: Path
) -> None:
    person, mark = Person(None), tmp_path / "mark"

    async with connect("legacy", person, safety_dangerous_timeout=0.3) as (client, terminal):
        terminal.supervisor.admission.broker.reachable = True
        result = said(await client.call_tool("run", launch(mark)))

    assert result["errorCode"] == "CONFIRMATION_REQUIRED"
    assert f"shelltie approve {result['details']['question']}" in result["error"]
    assert runs(mark) == 0


@pytest.mark.proves("C-60", "C-59")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_cannot_ask_is_told_where_a_person_can_approve(
    connect: Connect, tmp_path: Path, era: str
) -> None:
    mark = tmp_path / "mark"

    async with connect(era, None, safety_dangerous_timeout=0.3) as (client, terminal):
        terminal.supervisor.admission.broker.reachable = True
        result = said(await client.call_tool("run", launch(mark)))

    assert f"shelltie approve {result['details']['question']}" in result["error"]
    assert runs(mark) == 0


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_is_not_trusted_is_not_asked(
    connect: Connect, tmp_path: Path, era: str
) -> None:
    person, mark = Person(YES), tmp_path / "mark"

    async with connect(era, person, safety_ask_client=False) as (client, _):
        result = said(await client.call_tool("run", launch(mark)))

    assert result["errorCode"] == "CONFIRMATION_REQUIRED"
    assert (person.read, runs(mark)) == ([], 0)


async def test_a_call_that_is_cancelled_during_the_dialogue_takes_its_question_back(
    connect: Connect, tmp_path: Path
) -> None:
    person, mark = Person(None), tmp_path / "mark"

    async with connect("legacy", person) as (client, terminal):
        broker = terminal.supervisor.admission.broker
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "run", launch(mark))
            await person.asked.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(50):
            while broker.pending() or not person.left:
                await anyio.sleep(0.02)
        alive = said(await client.call_tool("run", {"command": "echo alive"}))

    assert alive["stdout"] == "alive\n"
    assert runs(mark) == 0


# What is asked


@pytest.mark.parametrize("era", ERAS)
async def test_the_dialogue_shows_everything_but_secrets_and_what_cannot_be_seen(
    connect: Connect, tmp_path: Path, era: str
) -> None:
    person = Person(NO)
    hidden = "launch --token hunter2hunter2 \x1b[2K\u202e\u200b a\n│ forged ![](http://evil/)"
    variables = {"MY_API_KEY": "sesame-open-now", "COLOUR": "blue\x07"}

    async with connect(era, person) as (client, _):
        arguments = {"command": hidden, "env": variables, "stdin": "password=letmein12"}
        await client.call_tool("run", {**arguments, "cwd": str(tmp_path)})

    (message,) = person.read
    for secret in ("hunter2", "sesame", "letmein"):
        assert secret not in message
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e\u200b]", message)
    for shown in (str(tmp_path), "⟨U+001B⟩", "⟨U+202E U+200B⟩", "COLOUR=blue", "dangerous"):
        assert shown in re.sub(r"\n +[│┊] ", "", message)  # a long line is broken
    body = message.split("\n\n")[1]
    assert all(line.startswith("    ") for line in body.splitlines())
    assert "│ │ forged" in body


@pytest.mark.parametrize("era", ERAS)
async def test_a_long_command_is_shown_with_where_to_read_the_rest(
    connect: Connect, tmp_path: Path, era: str
) -> None:
    person = Person(YES)
    command = "".join(f": {number}\n" for number in range(500)) + f"rm -rf {tmp_path}/none"

    async with connect(era, person, safety_dangerousCommands=()) as (client, _):
        with anyio.fail_after(50):
            result = await client.call_tool("run", {"command": command})

    (message,) = person.read
    assert not result.is_error
    assert re.search(r"more lines: shelltie pending [0-9A-Z]{6} --full", message)
    assert len(message) < 10_000


# The state of a call that is repeated


@pytest.mark.proves("C-60")
async def test_a_state_works_once(connect: Connect, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    async with connect(MODERN, Person(NO)) as (client, _):
        question = await asked(client, "run", launch(mark))
        first = await repeat(client, question, launch(mark))
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await repeat(client, question, launch(mark))

    assert said(first)["status"] == "success"
    assert runs(mark) == 1


async def test_a_no_uses_the_state_up(connect: Connect, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    async with connect(MODERN, Person(NO)) as (client, _):
        question = await asked(client, "run", launch(mark))
        await repeat(client, question, launch(mark), NO)
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await repeat(client, question, launch(mark))

    assert runs(mark) == 0


@pytest.mark.proves("C-60")
async def test_a_state_is_for_the_same_call_only(connect: Connect, tmp_path: Path) -> None:
    mark, other = tmp_path / "mark", tmp_path / "other"

    async with connect(MODERN, Person(NO)) as (client, _):
        question = await asked(client, "run", launch(mark))
        for changed in (
            launch(other),
            {**launch(mark), "cwd": "/"},
            {**launch(mark), "env": {"A": "b"}},
        ):
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await repeat(client, question, changed)

    assert (runs(mark), runs(other)) == (0, 0)


async def test_a_directory_that_was_swapped_meanwhile_is_asked_about_again(
    connect: Connect, tmp_path: Path
) -> None:
    here, link = tmp_path / "here", tmp_path / "link"
    here.mkdir()
    link.symlink_to(here)
    arguments = {"command": "echo launch >> mark", "cwd": str(link)}

    async with connect(MODERN, Person(NO)) as (client, _):
        question = await asked(client, "run", arguments)
        link.unlink()
        link.symlink_to(tmp_path)
        second = await repeat(client, question, arguments)

    assert isinstance(second, InputRequiredResult)
    assert (runs(here / "mark"), runs(tmp_path / "mark")) == (0, 0)


@pytest.mark.parametrize("state", ["", "v1.AAAA", "x" * 10_000, "\ud800", "☃"])
async def test_an_invented_state_is_refused(connect: Connect, tmp_path: Path, state: str) -> None:
    mark = tmp_path / "mark"

    async with connect(MODERN, Person(NO)) as (client, _):
        question = await asked(client, "run", launch(mark))
        altered = state or str(question.request_state)[:-1] + "~"
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await repeat(
                client, question.model_copy(update={"request_state": altered}), launch(mark)
            )

    assert runs(mark) == 0


async def test_a_state_without_an_answer_asks_again(connect: Connect, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    async with connect(MODERN, Person(NO)) as (client, _):
        question = await asked(client, "run", launch(mark))
        second = await client.session.call_tool(
            "run",
            launch(mark),
            input_responses={"another": YES},
            request_state=question.request_state,
            allow_input_required=True,
        )

    assert isinstance(second, InputRequiredResult)
    assert second.request_state != question.request_state
    assert runs(mark) == 0


async def test_an_answer_without_a_state_is_none(connect: Connect, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    async with connect(MODERN, Person(NO)) as (client, _):
        result = await client.session.call_tool(
            "run", launch(mark), input_responses={"allow": YES}, allow_input_required=True
        )

    assert isinstance(result, InputRequiredResult)
    assert runs(mark) == 0


@pytest.mark.parametrize("allowed", [True, False])
async def test_while_the_client_asks_somebody_else_may_be_faster(
    connect: Connect, tmp_path: Path, *, allowed: bool
) -> None:
    mark = tmp_path / "mark"

    async with connect(MODERN, Person(NO)) as (client, terminal):
        broker = terminal.supervisor.admission.broker
        broker.reachable = True
        question = await asked(client, "run", launch(mark))
        (waiting,) = broker.pending()
        answer = Answer(allowed=allowed, by="a person", reason="because")
        await broker.answer(waiting.question.id, waiting.question.digest, answer)
        result = said(await repeat(client, question, launch(mark), NO if allowed else YES))

    assert runs(mark) == int(allowed)
    assert allowed or "a person refused" in result["error"]


async def test_unanswered_states_are_bounded(connect: Connect, tmp_path: Path) -> None:
    async with connect(MODERN, Person(NO)) as (client, _):
        questions = [await asked(client, "run", launch(tmp_path / str(n))) for n in range(101)]
        with pytest.raises(MCPError):
            await repeat(client, questions[0], launch(tmp_path / "0"))
        await repeat(client, questions[100], launch(tmp_path / "100"))

    assert (runs(tmp_path / "0"), runs(tmp_path / "100")) == (0, 1)


# On a real pipe


@pytest.mark.proves("C-60")
@pytest.mark.parametrize("era", ERAS)
async def test_a_real_server_asks_through_its_pipe(tmp_path: Path, era: Any) -> None:  # noqa: ANN401  the SDK's literal
    mark = tmp_path / "mark"
    settings = {
        "SHELLTIE_SAFETY_DANGEROUSCOMMANDS": "launch",
        "SHELLTIE_SAFETY_PROFILES_RUN_DANGEROUS": "ask",
    }
    server = StdioServerParameters(
        command=SERVER[0], args=SERVER[1:], env={**server_environment(), **settings}
    )

    for says in (NO, YES):
        async with Client(server, mode=era, elicitation_callback=Person(says)) as client:
            with anyio.fail_after(50):
                result = await client.call_tool("run", launch(mark))
        assert result.is_error is (says is NO)

    assert runs(mark) == 1


async def test_answers_of_wrong_types_are_a_protocol_error(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    brought: list[dict[str, object]] = [
        {"requestState": 5},
        {"requestState": {"a": 1}},
        {"requestState": "never given", "inputResponses": {"allow": {"action": "accept"}}},
        {"inputResponses": "yes"},
        {"inputResponses": {"allow": True}},
        {"inputResponses": {"allow": {"action": "perhaps"}}},
    ]

    async with raw_server(tmp_path) as client:
        refused = []
        for number, wrong in enumerate(brought):
            call = request(number, "tools/call", name="run", arguments=launch(mark), _meta=ENVELOPE)
            call["params"] |= wrong
            await client.send(call)
            refused.append((await client.receive())["error"]["code"])
        await client.send(request(99, "tools/list", _meta=ENVELOPE))
        listed = await client.receive()

    assert refused == [INVALID_PARAMS] * len(brought)
    assert "tools" in listed["result"]
    assert runs(mark) == 0


async def test_no_question_shows_a_secret_that_the_command_does_not_get(
    tmp_path: Path,
) -> None:
    asks = ["env", "SHELLTIE_SAFETY_PROFILES_RUN_DANGEROUS=ask", *SERVER]
    env = {"API_KEY": "hunter2hunter2", "MINE": "y"}
    async with raw_server(tmp_path, command=asks) as client:
        await client.greet()
        await client.send(call(1, f"rm -rf {tmp_path}/nothing", env=env))
        (listed,) = await until_asked()
        _, shown, _ = await shelltie("pending", listed["id"])
        await client.hang_up()
        await client.exit_code()

    assert listed["env"] == {"MINE": "y"}
    assert "set     MINE=y" in shown
    assert "API_KEY" not in shown
