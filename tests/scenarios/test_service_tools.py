"""The tools of a TerminalService, as a chat calls them, and the plugin that brings them there."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

import jsonschema
import pytest

from shelltie import (
    Config,
    ConfigWrong,
    Question,
    ServiceTool,
    TerminalPlugin,
    TerminalService,
    tools_of,
)
from shelltie.events import Event, RunStarted
from shelltie.frontends.service.tools import Chat
from tests.scenarios.test_terminal_service import TERMINAL, Echo
from tests.tree import new_tag, nobody_left

QUICK = {"minInterval": 0.1, "settleInterval": 20, "maxInterval": 20}
Call = Callable[..., object]


class Person:
    """Who is asked, and what they say."""

    def __init__(self) -> None:
        self.allows = True
        self.asked: list[str] = []

    def __call__(self, question: Question) -> bool:
        self.asked.append(question.command.text)
        return self.allows


class Agent:
    """Calls the tools."""

    def __init__(self, service: TerminalService, person: Person) -> None:
        self.service = service
        self.person = person
        self.tools = {tool.name: tool for tool in tools_of(service)}

    async def __call__(self, tool: str, **arguments: object) -> str:
        return await self.tools[tool].execute(arguments, "agent")


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    person = Person()
    config = Config.of(state_dir=str(tmp_path / "state"))
    async with TerminalService(TERMINAL, config, tmp_path, approve=person) as service:
        service.attach("agent", {"persistent": QUICK, "bash": {"cropOutput": 200}})
        yield Agent(service, person)


@pytest.mark.proves("S2-78", "S2-43", "S2-47", "S2-48", "S2-9", "S2-5", "S2-1")
async def test_bash_asks_about_what_is_not_safe_and_says_how_it_ended(
    agent: Agent, tmp_path: Path
) -> None:
    (tmp_path / "here").touch()
    listed = await agent("bash", command="ls -la")
    made = await agent("bash", command="touch made; exit 3")
    long = await agent("bash", command="seq 1 1000")
    agent.person.allows = False
    refused = await agent("bash", command="touch refused")

    assert listed.startswith("Exit Code: 0\n\nOutput:\n")
    assert " here\n" in listed
    assert made == "Exit Code: 3\n\nOutput:\n"
    numbers = "".join(f"{number}\n" for number in range(1, 1001))
    marker = "\n [...Results were too long, truncated...]"
    assert long == f"Exit Code: 0\n\nOutput:\n{numbers[:200]}{marker}"
    assert refused.startswith("User did not approve command execution")
    assert agent.person.asked == ["touch made; exit 3", "touch refused"]
    assert (tmp_path / "made").exists()
    assert not (tmp_path / "refused").exists()


@pytest.mark.proves("S2-51", "S2-54", "S2-55", "S2-56", "S2-67", "S2-68", "S2-69", "S2-70", "S2-79")
async def test_a_session_from_its_start_to_its_end(agent: Agent) -> None:
    tag = new_tag()
    started = await agent("terminal_start", command=f"cat # {tag}", stdin="one")
    position = int(started.split("Position: ")[1].split("\n")[0])
    said = await agent("terminal_continue", sessionId="term-1", stdin="two")
    listed = await agent("terminal_list")
    stopped = await agent("terminal_stop", sessionId="term-1")

    assert started.startswith(
        f"Terminal Session Started\nID: term-1\nCommand: cat # {tag}\nPosition:"
    )
    assert started.endswith("\n\nOutput:\none\none\n")
    assert said.startswith(
        f"Terminal Session: term-1\nPosition: {position + 10}\nComplete: false\n"
    )
    assert said.endswith("\n\nOutput:\ntwo\ntwo\n")
    assert listed.splitlines()[0] == "Active Terminal Sessions:"
    assert listed.splitlines()[2].startswith("term-1       | cat")
    assert len(listed.splitlines()) == 3
    assert stopped == "Terminal session term-1 terminated."
    assert await agent("terminal_list") == "No active terminal sessions."
    await nobody_left(tag)


@pytest.mark.proves("S2-72", "S2-71")
async def test_what_has_ended_is_told_once_and_then_forgotten(agent: Agent) -> None:
    ended = await agent("terminal_start", command="echo bye; exit 4")
    await agent("terminal_start", command="echo; cat")
    await agent.service.reset("agent")

    assert ended.endswith("Exit Code: 4\n\nOutput:\nbye\n")
    for session in ("term-1", "term-2"):
        assert await agent("terminal_continue", sessionId=session) == f"Session {session} not found"


@pytest.mark.proves("T2-11")
async def test_a_provider_of_two_methods_has_bash_which_still_asks(agent: Agent) -> None:
    agent.service.register_terminal_provider("echo", Echo())
    agent.service.set_active_terminal("echo", "agent")
    said = await agent("bash", command="rm -rf build")
    agent.person.allows = False

    assert said == "Exit Code: 0\n\nOutput:\nrm -rf build"
    assert "did not approve" in await agent("bash", command="rm -rf other")
    assert "not supported by this provider" in await agent("terminal_start", command="cat")
    assert agent.person.asked == ["rm -rf build", "rm -rf other"]


@pytest.mark.proves("S2-41", "S2-42")
@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("bash", {}, "command is missing"),
        ("bash", {"command": 3}, "command must be a text in quotes, not 3"),
        ("bash", {"command": "ls", "cwd": "/"}, "cwd is no parameter; known: command"),
        ("terminal_continue", {"sessionId": "term-9"}, "Session term-9 not found"),
        ("terminal_stop", {"sessionId": "\0"}, "Session \0 not found"),
        ("terminal_start", {"command": "a\0b"}, "NUL"),
        ("terminal_list", {"x": "y"}, "x is no parameter"),
    ],
)
async def test_a_wrong_call_is_answered_and_changes_nothing(
    agent: Agent, tool: str, arguments: dict[str, object], says: str
) -> None:
    assert says in await agent(tool, **arguments)
    assert await agent("terminal_list") == "No active terminal sessions."


@pytest.mark.proves("T2-16", "S2-46", "S2-2")
async def test_bash_has_a_minute_unless_the_agent_has_another_limit(tmp_path: Path) -> None:
    events: list[Event] = []
    config = Config.of(state_dir=str(tmp_path / "state"))
    async with TerminalService(TERMINAL, config, tmp_path, events.append) as service:
        (bash, *_) = tools_of(service)
        service.attach("usual")
        service.attach("hasty", {"bash": {"timeoutSeconds": 4}})
        await bash.execute({"command": "true"}, "usual")
        late = await bash.execute({"command": "echo begun; sleep 60"}, "hasty")

    started = [event.limits.total for event in events if isinstance(event, RunStarted)]
    assert started == [60, 4]
    assert "timed out after 4 s" in late
    assert "begun\n" in late


# The plugin


class App:
    """A program with services, to which a chat may come later."""

    def __init__(self) -> None:
        self.services: list[TerminalService] = []
        self.tools: list[str] = []
        self._waiting: list[Callable[[Chat], None]] = []

    def add_service(self, service: TerminalService) -> None:
        self.services.append(service)

    def when_service(self, name: str, then: Callable[[Chat], None]) -> None:
        assert name == "chat"
        self._waiting.append(then)

    def open_chat(self) -> None:
        for then in self._waiting:
            then(self)

    def add_tools(self, tools: Sequence[ServiceTool]) -> None:
        self.tools += [tool.name for tool in tools]


@pytest.mark.proves("S2-81")
def test_the_plugin_adds_the_service_if_it_is_configured_and_tools_once_there_is_a_chat() -> None:
    app, plugin = App(), TerminalPlugin()

    assert plugin.install(app, {"something": "else"}) is None
    assert app.services == []
    service = plugin.install(app, {"terminal": TERMINAL})
    assert app.services == [service]
    assert app.tools == []
    app.open_chat()
    assert app.tools == [
        "bash", "terminal_start", "terminal_continue", "terminal_stop", "terminal_list"
    ]  # fmt: skip
    # Its own release, as the seed's 0.2.0 was the seed's.
    assert (plugin.name, plugin.version) == ("shelltie", metadata.version("shelltie"))
    assert plugin.description == "Runs shell commands with limits, safety and sessions."
    assert plugin.config_schema["type"] == "object"


@pytest.mark.parametrize(
    ("terminal", "fits"),
    [
        (TERMINAL, True),
        ({"agentDefaults": {"provider": "local", "bash": {"timeoutSeconds": 5}}, **TERMINAL}, True),
        ({**TERMINAL, "safeCommands": ["^ls"]}, True),
        ({}, False),
        ({**TERMINAL, "agentDefaults": {}}, False),
        ({**TERMINAL, "agentDefaults": {"provider": "local", "colour": 1}}, False),
        ({**TERMINAL, "agentDefaults": {"provider": "local", "bash": {"cropOutput": -1}}}, False),
        ({**TERMINAL, "safeCommands": "ls"}, False),
        ({**TERMINAL, "providers": {"local": {"type": 3}}}, False),
        ([], False),
    ],
)
def test_the_schema_says_what_is_taken(terminal: Mapping[str, object], fits: bool) -> None:
    checks = jsonschema.Draft202012Validator(dict(TerminalPlugin.config_schema))
    app = App()

    assert checks.is_valid({"terminal": terminal}) is fits
    if fits:
        TerminalPlugin().install(app, {"terminal": terminal})
    else:
        with pytest.raises(ConfigWrong):
            TerminalPlugin().install(app, {"terminal": terminal})
    assert bool(app.services) is fits
