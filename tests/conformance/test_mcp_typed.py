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

PATIENT = {
    "persistent_minInterval": 0.1,
    "persistent_settleInterval": 20.0,
    "persistent_maxInterval": 20.0,
}


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
        with anyio.fail_after(50):
            result = await self.client.call_tool(tool, arguments)
        return cast(dict[str, Any], result.structured_content)


@pytest.fixture
async def agent(open_terminal: Open) -> AsyncIterator[Agent]:
    made = Agent()
    settings: dict[str, object] = {"safety_profiles_session_unknown": "allow", **PATIENT}
    async with open_terminal(**settings) as terminal:
        terminal.supervisor.admission.broker.add(CallbackChannel(made.answer))
        config = Config.of(**settings)
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


async def test_what_a_command_of_a_shell_reads_is_judged_also_as_text_for_a_shell(
    agent: Agent, victim: Path
) -> None:
    started = await agent("terminal_start", command="cat", mode="shell", maxWait=1)
    session = started["id"]

    data = await agent("terminal_continue", sessionId=session, stdin="rm, or not", maxWait=1)
    refused = await agent("terminal_continue", sessionId=session, stdin=f"rm -rf {victim}")

    assert "rm, or not" in data["output"]
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


def _paste(text: str) -> Keys:
    return {"stdin": text, "paste": True}


@pytest.mark.parametrize(
    ("shell", "inputs"),
    [
        ("bash --norc", [_paste("rm\n"), _line("\x7f -rf {}")]),
        ("bash --norc", [_raw("\x1b[200~rm\n"), _raw("\x1b[201~\x7f -rf {}\n")]),
        ("bash --norc", [_raw("rm\x16\n"), _raw("\x7f -rf {}\n")]),
        ("dash", [_raw("rm\x16\n"), _raw("\x7f -rf {}\n")]),
        ("bash --norc", [_paste("echo rm -rf {} |\n"), _line("sh")]),
    ],
)
async def test_an_enter_that_runs_nothing_ends_no_line(
    agent: Agent, victim: Path, shell: str, inputs: list[Keys]
) -> None:
    session = (await agent("terminal_start", command=shell, maxWait=3))["id"]
    filled = [{**keys, "stdin": str(keys["stdin"]).format(victim)} for keys in inputs]

    codes = await _type(agent, session, *filled)

    assert "COMMAND_DENIED" in codes
    assert victim.exists()


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        ("bash --norc", ["echo rm -rf {} |", "sh"]),
        ("bash --norc", ["{{ echo rm -rf {}", "}} | sh"]),
        ("bash --norc", ["$(echo rm", "echo -rf {} )"]),
        ("bash --norc", ["while read l; do", "$l", "done <<<'rm -rf {}'"]),
        ("bash --norc", ["echo )", "echo x; echo rm -rf {} |", "sh"]),
        ("bash --norc", ["read -r x", "echo '", "echo rm -rf {} |", "sh #'"]),
        ("python3 -q", ["import os; os.system('rm '", "'-rf {}')"]),
        ("python3 -q", ["import os; os.system(", "'r' 'm -rf {}')"]),
    ],
)
async def test_a_line_that_its_reader_holds_open_is_judged_with_the_next(
    agent: Agent, victim: Path, program: str, lines: list[str]
) -> None:
    session = (await agent("terminal_start", command=program, maxWait=3))["id"]

    codes = await _type(agent, session, *[_line(line.format(victim)) for line in lines])

    assert codes == [*[None] * (len(lines) - 1), "COMMAND_DENIED"]
    assert victim.exists()


async def test_a_here_document_that_is_typed_by_the_line_asks_nobody(
    agent: Agent, tmp_path: Path
) -> None:
    session = (await agent("terminal_start", command="bash --norc", maxWait=3))["id"]
    lines = [f"cat > {tmp_path}/page <<'END'", "It isn't (yet", "if x:", "END"]

    codes = await _type(agent, session, *map(_line, lines))

    assert codes == [None] * 4
    assert await _is_alive(agent, session)
    assert (tmp_path / "page").read_text() == "It isn't (yet\nif x:\n"
    assert agent.asked == []


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash --norc", "rm foo\x1b\x7f-rf {}\n"),
        ("bash --norc", "rme\u0301\x7f -rf {}\n"),
        ("bash --norc", "r   \x1b\\m -rf {}\n"),
        ("bash --norc", "mr\x14 -rf {}\n"),
        ("bash --norc", "m -rf {}\x15r\x19\n"),
        ("bash --norc", "rm \x05foo\x1f-rf {}\n"),
        ("bash --norc", "RM -rf {}\x01\x1bl\n"),
        ("dash", "rm\xe9\x7f\x7f -rf {}\n"),
    ],
)
async def test_keys_that_edit_a_line_in_ways_nobody_follows_ask(
    agent: Agent, victim: Path, shell: str, line: str
) -> None:
    session = (await agent("terminal_start", command=shell, maxWait=3))["id"]

    codes = await _type(agent, session, _raw(line.format(victim)))

    (question,) = agent.asked
    assert codes == ["COMMAND_DENIED"]
    assert any("type the line whole" in reason.message for reason in question.verdict.reasons)
    assert victim.exists()


@pytest.mark.parametrize(
    "inputs",
    [
        [_raw("ls\x1b[A\x1b[D\x1bb\x1bf\t\n")],
        [_raw("echo h\xe9llo\n")],
        [_raw("echo hellx\x7fo\x17hi\n")],
        [_raw("\x1b:wq\n")],
    ],
)
async def test_moving_history_and_plain_erasing_ask_nobody(
    agent: Agent, inputs: list[Keys]
) -> None:
    session = (await agent("terminal_start", command="bash --norc", maxWait=3))["id"]

    codes = await _type(agent, session, *inputs)

    assert codes == [None]
    assert agent.asked == []


async def test_keys_for_an_editor_ask_nobody(agent: Agent) -> None:
    session = (await agent("terminal_start", command="cat", maxWait=0.3))["id"]

    codes = await _type(agent, session, _raw("ihello\x1bdd\x19\x14\n"), _line("\xe9\x7f rm -rf x"))

    assert codes == [None, None]
    assert agent.asked == []


@pytest.mark.parametrize(
    "steps",
    [
        ["bash --norc &", "fg"],
        ["bash --norc &", "%1"],
        ["set +m", "sh /dev/tty &", "sleep 30"],
        ["f() {{ bash --norc; }}", "f"],
        ["alias wc='bash --norc'", "wc"],
        ["ln -s /bin/bash {}/wc; PATH={}:$PATH", "wc"],
    ],
)
async def test_what_is_typed_in_a_shell_is_judged_whoever_reads_it(
    agent: Agent, victim: Path, tmp_path: Path, steps: list[str]
) -> None:
    session = (await agent("terminal_start", command=":", mode="shell", maxWait=3))["id"]
    for step in steps:
        await agent(
            "terminal_continue",
            sessionId=session,
            command=step.format(tmp_path, tmp_path),
            maxWait=0.5,
        )

    codes = await _type(agent, session, _line(f"rm -rf {victim}"))

    assert codes == ["COMMAND_DENIED"]
    assert victim.exists()


async def test_a_reader_in_the_background_holds_a_line_open_from_command_to_command(
    agent: Agent, victim: Path
) -> None:
    session = (await agent("terminal_start", command="set +m", mode="shell", maxWait=3))["id"]
    await agent("terminal_continue", sessionId=session, command="sh /dev/tty &", maxWait=0.5)
    codes = list[str | None]()
    for line in (f"echo rm -rf {victim} |", "sh"):
        await agent("terminal_continue", sessionId=session, command="sleep 0.5", maxWait=0.1)
        codes += await _type(agent, session, _line(line))
        await agent("terminal_continue", sessionId=session, maxWait=3)

    assert codes == [None, "COMMAND_DENIED"]
    assert victim.exists()


async def test_an_interpreter_that_a_shell_brings_back_is_judged(
    agent: Agent, victim: Path
) -> None:
    session = (await agent("terminal_start", command=":", mode="shell", maxWait=3))["id"]
    await agent("terminal_continue", sessionId=session, command="python3 -q", waitFor=">>>")
    await agent("terminal_continue", sessionId=session, keys=["ctrl-z"], maxWait=1)
    await agent("terminal_continue", sessionId=session, command="fg", maxWait=1)

    codes = await _type(agent, session, _line(f"import shutil;shutil.rmtree({str(victim)!r})"))

    assert codes == ["COMMAND_DENIED"]
    assert victim.exists()


@pytest.mark.parametrize(
    "lines",
    [
        ["python3 -q", "import shutil; shutil.rmtree('{}')"],
        ["python3 -q", "from subprocess import *", "run(['rm','-rf','{}'])"],
        ["python3 -q", "import os; os.system(", "'rm ' '-rf {}')"],
        ["node", "fs.rmSync('{}',{{recursive:true,force:true}})"],
    ],
)
async def test_an_interpreter_within_a_shell_is_judged(
    agent: Agent, victim: Path, lines: list[str]
) -> None:
    session = (await agent("terminal_start", command="bash --norc", maxWait=3))["id"]

    codes = await _type(agent, session, *[_line(line.format(victim)) for line in lines])

    assert codes == [*[None] * (len(lines) - 1), "COMMAND_DENIED"]
    assert victim.exists()


@pytest.mark.parametrize("mode", [{}, {"mode": "shell"}])
@pytest.mark.parametrize(
    "answer",
    [
        "y",
        "no",
        "42",
        "Ada Lovelace",
        "don't know (yet",
        "my-package",
        "1.0.0",
        "ada@example.org",
        "https://example.org/a?b=c&d=e",
        "select * from users where age > 5 and name = 'O''Hara';",
        "delete from users where id in (select id from old);",
        "print('hello', end='')",
        "for name in names:",
        "const f = (a, b) => a > b ? a : b",
    ],
)
async def test_an_ordinary_answer_in_a_shell_asks_nobody(
    agent: Agent, mode: Keys, answer: str
) -> None:
    started = await agent("terminal_start", command="bash --norc", maxWait=1, **mode)

    codes = await _type(agent, started["id"], _line("read -r answer"), _line(answer), _line("ls"))

    assert codes == [None] * 3
    assert agent.asked == []


async def _go_to(agent: Agent, session: str, directory: str) -> None:
    line = _line(f"cd {directory}; echo the''re")
    await agent("terminal_continue", sessionId=session, waitFor="there", **line)


@pytest.mark.parametrize("pty", [True, False])
async def test_a_yes_to_typed_input_counts_where_the_shell_is(
    agent: Agent, tmp_path: Path, pty: bool
) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "build").mkdir(parents=True)
    started = await agent(
        "terminal_start", command="bash --norc", cwd=str(tmp_path), pty=pty, maxWait=2
    )

    for directory in ("a", "../b"):
        await _go_to(agent, started["id"], directory)
        await _type(agent, started["id"], _line("rm -rf build"))

    first, second = agent.asked
    assert (first.command.cwd, second.command.cwd) == (f"{tmp_path}/a", f"{tmp_path}/b")
    assert first.digest != second.digest


async def test_a_question_names_the_directory_of_the_shell_within_a_shell(
    agent: Agent, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    started = await agent(
        "terminal_start", command="bash --norc", mode="shell", cwd=str(tmp_path), maxWait=2
    )

    await _go_to(agent, started["id"], "a")
    await _type(agent, started["id"], _line("rm -rf build"))

    (question,) = agent.asked
    assert question.command.cwd == f"{tmp_path}/a"
