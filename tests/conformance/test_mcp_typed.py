"""What an agent gives a command to read, or types into a session, is judged where it is run."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from mcp import Client

from shelltie import Config
from shelltie.approval.broker import CallbackChannel
from shelltie.approval.card import card
from shelltie.approval.question import Question
from tests.conformance.servers import server_of
from tests.conftest import Open
from tests.tree import until

PATIENT = {"min_interval": 0.1, "settle_interval": 20.0, "max_interval": 20.0}


class Agent:
    """A client, and the person who is asked about what it wants."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.says = False
        self.client: Client | None = None

    def answer(self, question: Question) -> bool:
        self.asked.append(question)
        return self.says

    async def __call__(self, tool: str, **arguments: object) -> dict[str, Any]:
        assert self.client is not None
        with anyio.fail_after(30):
            result = await self.client.call_tool(tool, arguments)
        return cast(dict[str, Any], result.structured_content)


@pytest.fixture
async def agent(open_terminal: Open) -> AsyncIterator[Agent]:
    made = Agent()
    settings: dict[str, object] = {"session_unknown": "allow", **PATIENT}
    async with open_terminal(**settings) as terminal:
        terminal.supervisor.admission.broker.add(CallbackChannel(made.answer))
        config = Config(**settings)  # type: ignore[arg-type]  # as named
        async with Client(server_of(terminal, config)) as client:
            made.client = client
            yield made


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.mkdir()
    return path


async def test_a_shell_that_reads_its_commands_asks_about_them(agent: Agent, victim: Path) -> None:
    answer = await agent("run", command="bash", stdin=f"rm -rf {victim}")

    (question,) = agent.asked
    assert answer["errorCode"] == "COMMAND_DENIED"
    assert victim.exists()
    assert any(f"rm -rf {victim}" in line for line in card(question, now=0.0, width=400))


async def test_what_a_program_only_reads_asks_nobody(agent: Agent, victim: Path) -> None:
    answer = await agent("run", command="cat", stdin=f"rm -rf {victim}")

    assert answer["stdout"].strip() == f"rm -rf {victim}"
    assert agent.asked == []


async def test_the_first_input_of_a_session_is_judged_with_its_start(
    agent: Agent, victim: Path
) -> None:
    answer = await agent("terminal_start", command="bash", stdin=f"rm -rf {victim}")

    assert answer["errorCode"] == "COMMAND_DENIED"
    assert len(agent.asked) == 1
    assert (await agent("terminal_list"))["sessions"] == []
    assert victim.exists()


async def test_what_is_typed_to_a_shell_is_asked_about(agent: Agent, victim: Path) -> None:
    session = (await agent("terminal_start", command="bash --norc", maxWait=3))["id"]
    line = f"rm -rf {victim}; echo re''moved"

    refused = await agent("terminal_continue", sessionId=session, stdin=line)
    agent.says = True
    allowed = await agent("terminal_continue", sessionId=session, stdin=line, waitFor="removed")

    assert refused["errorCode"] == "COMMAND_DENIED"
    assert "removed" in allowed["output"]
    assert not victim.exists()
    assert [one.command.stdin for one in agent.asked] == [f"{line}\n".encode()] * 2
    assert {one.command.text for one in agent.asked} == {"bash --norc"}


async def test_a_line_may_be_typed_in_pieces(agent: Agent, victim: Path) -> None:
    session = (await agent("terminal_start", command="bash --norc", maxWait=3))["id"]

    await agent("terminal_continue", sessionId=session, stdin="rm -r", raw=True, maxWait=0.2)
    await agent("terminal_continue", sessionId=session, keys=["x", "backspace", "f"], maxWait=0.2)
    await agent("terminal_continue", sessionId=session, stdin=f" {victim}", raw=True, maxWait=0.2)
    nobody_yet = list(agent.asked)
    refused = await agent("terminal_continue", sessionId=session, keys=["enter"])

    assert nobody_yet == []
    assert refused["errorCode"] == "COMMAND_DENIED"
    assert [one.command.stdin for one in agent.asked] == [f"rm -rx\x7ff {victim}\r".encode()]
    assert victim.exists()


async def test_a_paste_is_looked_at_like_any_text(agent: Agent, victim: Path) -> None:
    session = (await agent("terminal_start", command="bash --norc", maxWait=3))["id"]

    await agent(
        "terminal_continue", sessionId=session, stdin=f"rm -rf {victim}", paste=True, maxWait=0.2
    )
    refused = await agent("terminal_continue", sessionId=session, keys=["enter"])

    assert refused["errorCode"] == "COMMAND_DENIED"
    assert victim.exists()


async def test_code_for_an_interpreter_is_asked_about(agent: Agent, victim: Path) -> None:
    session = (await agent("terminal_start", command="python3 -q", maxWait=5))["id"]

    harmless = await agent("terminal_continue", sessionId=session, stdin="6 * 7", waitFor="42")
    code = f"import shutil; shutil.rmtree({str(victim)!r})"
    refused = await agent("terminal_continue", sessionId=session, stdin=code)

    assert "42" in harmless["output"]
    assert refused["errorCode"] == "COMMAND_DENIED"
    assert victim.exists()


async def test_an_answer_to_a_prompt_asks_nobody(agent: Agent) -> None:
    command = "read -p 'Remove it? ' said; echo said $said; cat"
    session = (await agent("terminal_start", command=command))["id"]

    answered = await agent(
        "terminal_continue", sessionId=session, stdin="rm -rf all", waitFor="said rm"
    )
    ended = await agent("terminal_continue", sessionId=session, keys=["ctrl-c"])

    assert "said rm -rf all" in answered["output"]
    assert not ended["running"]
    assert agent.asked == []


async def test_what_a_command_of_a_shell_reads_is_judged_by_that_command(
    agent: Agent, victim: Path
) -> None:
    started = await agent("terminal_start", command="cat", mode="shell", maxWait=1)
    session = started["id"]

    data = await agent("terminal_continue", sessionId=session, stdin=f"rm -rf {victim}", maxWait=1)
    await agent("terminal_continue", sessionId=session, end=True)
    await agent("terminal_continue", sessionId=session, command="bash --norc", maxWait=1)
    refused = await agent("terminal_continue", sessionId=session, stdin=f"rm -rf {victim}")

    assert f"rm -rf {victim}" in data["output"]
    assert refused["errorCode"] == "COMMAND_DENIED"
    assert len(agent.asked) == 1
    assert victim.exists()


async def test_what_the_terminal_does_not_show_is_shown_nobody(
    agent: Agent, victim: Path, tmp_path: Path
) -> None:
    command = "bash --norc --noediting -c 'stty -echo; echo quiet; exec bash --norc --noediting'"
    started = await agent("terminal_start", command=command, waitFor="quiet")

    refused = await agent("terminal_continue", sessionId=started["id"], stdin=f"rm -rf {victim}")

    assert refused["errorCode"] == "COMMAND_DENIED"
    assert "shelltie attach" in refused["error"]
    assert agent.asked == []
    assert victim.exists()
    assert str(victim) not in str(refused)
    await until((tmp_path / "state" / "journal.db").exists)
    assert str(victim).encode() not in b"".join(
        path.read_bytes() for path in (tmp_path / "state").glob("journal.db*")
    )


Keys = dict[str, object]


def _raw(text: str) -> Keys:
    return {"stdin": text, "raw": True}


def _line(text: str) -> Keys:
    return {"stdin": text}


async def _type(agent: Agent, session: str, *inputs: Keys) -> list[str | None]:
    """The error code of each."""
    answers = [
        await agent("terminal_continue", sessionId=session, maxWait=0.3, **keys) for keys in inputs
    ]
    return [answer.get("errorCode") for answer in answers]


async def _is_alive(agent: Agent, session: str) -> bool:
    """Whether the shell there still does what it is told, after all that was sent before."""
    answer = await agent(
        "terminal_continue", sessionId=session, waitFor="al1ve", **_line("echo al$((1))ve")
    )
    return "al1ve" in str(answer.get("output"))


ENTER: Keys = {"keys": ["enter"]}


@pytest.mark.parametrize(
    ("shell", "pty", "enter"),
    [
        ("bash --norc", True, _line("")),
        ("bash --norc", True, ENTER),
        ("bash --norc", False, _line("")),
        ("dash", True, _line("")),
        ("dash", True, ENTER),
    ],
)
async def test_a_refused_line_is_refused_again_whatever_finishes_it(
    agent: Agent, victim: Path, shell: str, pty: bool, enter: Keys
) -> None:
    session = (await agent("terminal_start", command=shell, pty=pty, maxWait=3))["id"]

    codes = await _type(agent, session, _raw(f"rm -rf {victim}"), enter, enter, _line("ls"), enter)

    assert codes == [None, *["COMMAND_DENIED"] * 4]
    assert victim.exists()


async def test_an_interrupt_may_not_have_left_a_line(agent: Agent, victim: Path) -> None:
    session = (await agent("terminal_start", command="bash --norc", maxWait=3))["id"]

    codes = await _type(
        agent, session, _line("trap '' INT"), _raw(f"rm -rf {victim}"), _raw("\x03"), ENTER
    )

    assert codes == [None, None, None, "COMMAND_DENIED"]
    assert victim.exists()


async def test_a_call_beside_the_question_is_judged_after_it(agent: Agent, victim: Path) -> None:
    session = (await agent("terminal_start", command="bash --norc", maxWait=3))["id"]
    codes = list[str | None]()

    async def press_enter() -> None:
        codes.extend(await _type(agent, session, ENTER))

    await _type(agent, session, _raw(f"rm -rf {victim}"))
    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(press_enter)

    assert codes == ["COMMAND_DENIED"] * 3
    assert victim.exists()


async def test_what_was_allowed_is_not_asked_about_again(agent: Agent, victim: Path) -> None:
    session = (await agent("terminal_start", command="bash --norc", maxWait=3))["id"]
    agent.says = True

    await _type(agent, session, _raw(f"rm -rf {victim}"), ENTER)

    assert await _is_alive(agent, session)
    assert not victim.exists()
    assert len(agent.asked) == 1


@pytest.mark.parametrize(
    ("shell", "pty", "before", "after"),
    [
        ("bash --norc", False, "", " #\x15echo hi"),
        ("bash --norc", False, "", " #" + "\b" * 300 + "echo hi"),
        ("dash", False, "", " #\x03echo hi"),
        ("dash", True, "", " #" + "\b" * 300 + "echo hi"),
        ("dash", True, "echo '\x1b' ; ", " #'"),
        ("bash --norc", False, "echo '\x1b' ; ", " #'"),
    ],
)
async def test_keys_that_nobody_obeys_hide_nothing(
    agent: Agent, victim: Path, shell: str, pty: bool, before: str, after: str
) -> None:
    session = (await agent("terminal_start", command=shell, pty=pty, maxWait=3))["id"]
    text = f"{before}rm -rf {victim}{after}"

    codes = await _type(agent, session, _line(text))

    (question,) = agent.asked
    assert codes == ["COMMAND_DENIED"]
    assert question.command.stdin == f"{text}\n".encode()
    assert any(f"rm -rf {victim}" in line for line in card(question, now=0.0, width=900))
    assert await _is_alive(agent, session)
    assert victim.exists()


async def test_an_interpreter_without_a_terminal_obeys_no_keys(agent: Agent, victim: Path) -> None:
    session = (await agent("terminal_start", command="python3 -qi", pty=False, maxWait=3))["id"]

    codes = await _type(
        agent, session, _line(f"import shutil; shutil.rmtree({str(victim)!r}) #\x15print(1)")
    )

    assert codes == ["COMMAND_DENIED"]
    assert victim.exists()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (_raw("r\x05"), "m -rf {}"),
        (_raw("r\x00"), "m -rf {}"),
        (_raw("r\x0c"), "m -rf {}"),
        ({"stdin": "r", "raw": True, "keys": ["ctrl-e"]}, "m -rf {}"),
        (_raw("rm q\x17"), "-rf {}"),
        (_raw("rm -rX\x7f"), "f {}"),
        (_line("rm \\"), "-rf {}"),
    ],
)
async def test_no_key_cuts_a_line_in_two(
    agent: Agent, victim: Path, first: Keys, second: str
) -> None:
    session = (await agent("terminal_start", command="bash --norc", maxWait=3))["id"]

    codes = await _type(agent, session, first, _line(second.format(victim)))

    assert codes == [None, "COMMAND_DENIED"]
    assert victim.exists()


async def test_a_key_for_a_pager_is_no_part_of_the_next_line(agent: Agent, victim: Path) -> None:
    session = (await agent("terminal_start", command="bash --norc", maxWait=3))["id"]

    codes = await _type(agent, session, _line("read -n1 key"), _raw("q"), _line(f"rm -rf {victim}"))

    assert codes == [None, None, "COMMAND_DENIED"]
    assert victim.exists()
