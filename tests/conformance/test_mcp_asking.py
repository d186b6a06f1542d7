"""What sessions run unasked, how long a question waits, and how far a yes of a dialogue goes."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult, ElicitResult

from shelltie import Config
from shelltie.approval.question import Answer
from shelltie.settings.paths import approved_file
from tests.conformance.servers import server_of
from tests.conformance.test_mcp_confirm import ERAS, Person
from tests.conftest import Open

Connect = Callable[..., AbstractAsyncContextManager[Client]]
ALLOWED = Answer(allowed=True)
NO = ElicitResult(action="accept", content={"allow": False})


def yes(scope: str) -> ElicitResult:
    return ElicitResult(action="accept", content={"allow": True, "scope": scope})


@pytest.fixture
def connect(open_terminal: Open) -> Connect:
    @asynccontextmanager
    async def connected(
        person: Person | None = None, era: str = "legacy", **settings: object
    ) -> AsyncIterator[Client]:
        quick = {"persistent_settleInterval": 0.1, "safety_undelivered_timeout": 0.01, **settings}
        async with open_terminal(**quick) as terminal:
            terminal.supervisor.admission.broker.reachable = True
            server, mode = server_of(terminal, Config.of(**quick)), era
            async with Client(server, mode=mode, elicitation_callback=person) as client:
                yield client

    return connected


async def ask(client: Client, tool: str, **arguments: Any) -> tuple[dict[str, Any], str]:  # noqa: ANN401
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    (content, *_) = result.content
    return result.structured_content or {}, str(getattr(content, "text", ""))


@pytest.mark.proves("D12")
@pytest.mark.parametrize("can_ask", [True, False])
async def test_a_session_runs_what_is_unknown_unasked_and_where_the_call_says(
    connect: Connect, tmp_path: Path, *, can_ask: bool
) -> None:
    person = Person(NO) if can_ask else None
    command = f'python3 -c \'open("{tmp_path}/made", "w"); print("up"); input()\''
    async with connect(person) as client:
        started, _ = await ask(
            client, "terminal_start", command=command, isolation="none", waitFor="up", maxWait=30
        )

    # Of a command without isolation the answer has no word about it.
    assert (started["found"], started.get("isolation", "none")) == (True, "none")
    assert not started.get("warnings")
    assert (tmp_path / "made").exists()
    assert person is None or person.read == []


@pytest.mark.proves("D12")
async def test_a_shell_runs_what_is_unknown_and_asks_about_what_is_dangerous(
    connect: Connect, tmp_path: Path
) -> None:
    place, person = tmp_path / "place", Person(NO)
    (place / "build").mkdir(parents=True)
    async with connect(person) as client:
        started, _ = await ask(
            client, "terminal_start", command="ls", mode="shell", cwd=str(place), maxWait=30
        )
        made, _ = await ask(
            client, "terminal_continue", sessionId=started["id"], command="mkdir a", maxWait=30
        )
        unasked = list(person.read)
        _, refused = await ask(
            client, "terminal_continue", sessionId=started["id"], command="rm -rf build"
        )
        typing, _ = await ask(
            client, "terminal_start", command="bash", cwd=str(place), waitFor=r"[#$] $", maxWait=30
        )
        _, typed = await ask(
            client, "terminal_continue", sessionId=typing["id"], stdin="rm -rf build"
        )

    assert (started["output"], made["exitCode"], unasked) == ("build\n", 0, [])
    assert refused.startswith("User did not approve command execution: ")
    assert typed.startswith("User did not approve command execution: ")
    assert len(person.read) == 2
    assert (place / "build").exists()


@pytest.mark.proves("D12", "S2-44")
async def test_bash_still_asks_about_what_is_unknown(connect: Connect, tmp_path: Path) -> None:
    person = Person(NO)
    async with connect(person) as client:
        _, refused = await ask(client, "bash", command=f"touch {tmp_path}/canary")

    assert refused.startswith("User did not approve command execution: ")
    assert (len(person.read), (tmp_path / "canary").exists()) == (1, False)


@pytest.mark.proves("D13")
@pytest.mark.parametrize("tool", ["run", "bash", "terminal_start"])
async def test_what_nobody_can_be_asked_about_comes_back_and_runs_after_a_yes(
    open_terminal: Open, tmp_path: Path, tool: str
) -> None:
    (tmp_path / "build").mkdir()
    command = f"rm -rf {tmp_path}/build"
    async with open_terminal(safety_undelivered_timeout=0.01) as terminal:
        broker = terminal.supervisor.admission.broker
        broker.reachable = True
        async with Client(server_of(terminal, Config.of()), mode="legacy") as client:
            answer, text = await ask(client, tool, command=command)
            (waiting,) = broker.pending()
            question = waiting.question
            await broker.answer(question.id, question.digest, ALLOWED)
            again, _ = await ask(client, tool, command=command)

    assert answer["errorCode"] == "CONFIRMATION_REQUIRED"
    assert answer["details"]["question"] == question.id
    for told in (answer["error"], text):
        assert "nobody could be asked" in told
        assert f"`shelltie approve {question.id}`" in told
        assert "did not approve" not in told
        assert "refused" not in told
    assert again["status"] != "error"
    assert not (tmp_path / "build").exists()


@pytest.mark.proves("D13")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("scope", ["once", "session", "always"])
async def test_a_dialogue_offers_once_this_session_and_always(
    connect: Connect, tmp_path: Path, era: str, scope: str
) -> None:
    victim, person = tmp_path / "build", Person(yes(scope))
    command = f"rm -rf {victim}"
    for _ in range(2):
        async with connect(person, era) as client:
            for _ in range(2):
                victim.mkdir()
                answer, _ = await ask(client, "run", command=command)
                assert answer["status"] == "success"

    assert len(person.read) == {"once": 4, "session": 2, "always": 1}[scope]
    assert approved_file().exists() == (scope == "always")


@pytest.mark.proves("D13")
async def test_a_scope_that_is_not_offered_is_once(connect: Connect, tmp_path: Path) -> None:
    victim, person = tmp_path / "build", Person(yes("for ever and ever"))
    async with connect(person) as client:
        for _ in range(2):
            victim.mkdir()
            await ask(client, "run", command=f"rm -rf {victim}")

    assert len(person.read) == 2
