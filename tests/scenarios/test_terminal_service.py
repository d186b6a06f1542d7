"""TerminalService, with the names and promises of S2."""

import json
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from shelltie import Config
from shelltie.errors import ConfigWrong, InvalidParameters, Misuse, UnknownSession
from shelltie.events import Event, Publish, RunStarted
from shelltie.frontends.service.service import TerminalService
from shelltie.frontends.service.terminal_provider import (
    ExecuteCommandOptions,
    ExecuteCommandResult,
    InteractiveSessionOptions,
    OutputWaitOptions,
)
from tests.tree import new_tag, nobody_left, tagged, until

OPTIONS = ExecuteCommandOptions()
TERMINAL = {"agentDefaults": {"provider": "local"}, "providers": {"local": {"type": "local"}}}
WAIT = OutputWaitOptions(0.1, 20, 20)


def make(tmp_path: Path, publish: Publish | None = None, **changes: object) -> TerminalService:
    config = Config.of(state_dir=str(tmp_path / "state"), safety_profiles_session_unknown="allow")
    return TerminalService({**TERMINAL, **changes}, config, tmp_path, publish)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[TerminalService]:
    async with make(tmp_path) as service:
        service.attach("agent")
        yield service


class Echo:
    """A provider of two methods, which is enough."""

    async def execute_command(
        self,
        command: str,
        args: Sequence[str],
        options: ExecuteCommandOptions,  # noqa: ARG002
    ) -> ExecuteCommandResult:
        said = " ".join([command, *args])
        return ExecuteCommandResult(ok=True, output=said, exit_code=0, stdout=said, stderr="")

    async def run_script(self, script: str, options: ExecuteCommandOptions) -> ExecuteCommandResult:
        return await self.execute_command(script, [], options)


@pytest.mark.proves("S2-14", "S2-15", "S2-16", "S2-57", "S2-58", "S2-62", "S2-37")
async def test_a_service_says_what_it_is_and_gives_an_agent_its_defaults(
    tmp_path: Path,
) -> None:
    providers = {"here": {"type": "local"}, "other": {"type": "local"}}
    service = make(tmp_path, agentDefaults={"provider": "here"}, providers=providers)
    await service.run()
    try:
        state = service.attach("agent")
        active = service.require_active_terminal("agent")
    finally:
        await service.stop()

    assert (service.name, bool(service.description)) == ("TerminalService", True)
    assert service.default_provider == "here"
    assert list(service.terminal_provider_registry) == ["here", "other"]
    assert active is state.local
    assert state.serialize() == {
        "providerName": "here",
        "bash": {"cropOutput": 10_000, "timeoutSeconds": 60},
        "persistent": {"minInterval": 1, "settleInterval": 2, "maxInterval": 30},
    }


@pytest.mark.proves("T2-9", "S2-22", "S2-24", "S2-57", "S2-58", "S2-61", "S2-21")
async def test_a_provider_must_be_named_and_be_there(
    service: TerminalService, tmp_path: Path
) -> None:
    with pytest.raises(ConfigWrong, match="provider is missing"):
        make(tmp_path, agentDefaults={})
    with pytest.raises(Misuse, match="no terminal provider 'docker'"):
        await make(tmp_path, agentDefaults={"provider": "docker"}).run()
    with pytest.raises(ConfigWrong, match=r"providers\.x\.type"):
        make(tmp_path, providers={"x": {"type": "magic"}})
    with pytest.raises(ConfigWrong, match="unknown key colour"):
        make(tmp_path, colour="blue")
    with pytest.raises(ConfigWrong, match="unknown key image"):
        make(tmp_path, providers={"local": {"type": "local", "image": "x"}})
    with pytest.raises(Misuse, match="registered: local"):
        service.set_active_terminal("magic", "agent")
    with pytest.raises(Misuse):
        service.require_terminal_provider_by_name("magic")
    with pytest.raises(Misuse, match="not attached"):
        service.require_active_terminal("stranger")


@pytest.mark.proves("T2-10", "S2-16", "S2-61", "S2-62", "S2-8")
async def test_an_agent_overrides_what_it_names_and_nothing_else(service: TerminalService) -> None:
    state = service.attach("other", {"bash": {"cropOutput": 5}, "persistent": {"maxInterval": 9}})

    assert (state.settings.crop_output, state.settings.timeout) == (5, 60)
    assert (state.settings.waiting.most, state.settings.waiting.settle) == (9, 2)
    assert service.state("agent").settings.crop_output == 10_000  # another agent's is its own
    assert service.state("agent").settings.waiting.most == 30
    wrongs: list[dict[str, object]] = [
        {"bsh": {}},
        {"bash": {"cropOutpt": 1}},
        {"persistent": {"min": 1}},
    ]
    for wrong in wrongs:
        with pytest.raises(ConfigWrong, match="unknown key"):
            service.attach("third", wrong)
    with pytest.raises(ConfigWrong, match="cropOutput"):
        service.attach("third", {"bash": {"cropOutput": "many"}})


@pytest.mark.proves("T2-11", "S2-23", "S2-77", "S2-21", "S2-22", "S2-24")
async def test_a_provider_of_two_methods_is_enough(service: TerminalService) -> None:
    echo = Echo()
    service.register_terminal_provider("echo", echo)
    service.set_active_terminal("echo", "agent")

    result = await service.execute_command("say", ["hi"], OPTIONS, "agent")
    script = await service.run_script("say it", OPTIONS, "agent")

    assert (result.ok, result.output, script.output) == (True, "say hi", "say it")
    assert service.require_terminal_provider_by_name("echo") is echo
    assert service.require_active_terminal("agent") is echo
    service.state("agent").deserialize({"providerName": None})
    with pytest.raises(Misuse, match="no active terminal"):
        service.require_active_terminal("agent")
    service.set_active_terminal("echo", "agent")
    with pytest.raises(Misuse, match="not supported by this provider"):
        service.require_sessions("agent")
    with pytest.raises(InvalidParameters, match="execute_command and run_script"):
        service.register_terminal_provider("none", object())  # type: ignore[arg-type]  # the point


@pytest.mark.needs("bwrap")
@pytest.mark.proves("S2-32", "S2-33", "S2-58")
async def test_a_configured_sandbox_is_one_and_says_so(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    providers = {"box": {"type": "bubblewrap"}, "local": {"type": "local"}}
    async with make(root, agentDefaults={"provider": "box"}, providers=providers) as service:
        service.attach("agent")
        box = service.require_sessions("agent")
        inside = await service.run_script(
            "echo $$ > in; readlink /proc/self/ns/pid", OPTIONS, "agent"
        )
        away = await service.execute_command("touch", ["/usr/shelltie-x"], OPTIONS, "agent")
        service.set_active_terminal("local", "agent")
        outside = await service.run_script("readlink /proc/self/ns/pid", OPTIONS, "agent")
        local = service.require_sessions("agent")

    assert (box.get_isolation_level(), local.get_isolation_level()) == ("sandbox", "none")
    assert inside.ok
    assert inside.stdout != outside.stdout
    assert (root / "in").exists()
    assert not away.ok


@pytest.mark.proves("T2-12", "S2-35")
async def test_a_command_gets_its_arguments_whole(service: TerminalService) -> None:
    plain = await service.execute_command("echo", ["hello"], OPTIONS, "agent")
    spaced = await service.execute_command("printf", ["[%s]", "a b", "c"], OPTIONS, "agent")
    many = await service.execute_command("echo", ["x"] * 100, OPTIONS, "agent")

    assert (plain.ok, plain.output, plain.exit_code) == (True, "hello\n", 0)
    assert (plain.stdout, plain.stderr, plain.error) == ("hello\n", "", None)
    assert spaced.output == "[a b][c]"
    assert many.output.split() == ["x"] * 100


@pytest.mark.proves("T2-13", "C-63", "S2-18", "S2-26")
async def test_a_text_of_words_is_split_and_a_script_is_a_script(
    service: TerminalService, tmp_path: Path
) -> None:
    spaced = tmp_path / "my tool"
    spaced.write_text("#!/bin/sh\necho itself\n", encoding="utf-8")
    spaced.chmod(0o755)

    program = await service.execute_command(str(spaced), [], OPTIONS, "agent")
    words = await service.execute_command("echo 'a b' $HOME", [], OPTIONS, "agent")
    script = await service.run_script("x=3; echo $x | cat && echo $((x + 1))", OPTIONS, "agent")

    assert program.output == "itself\n"
    assert words.output == "a b $HOME\n"
    assert script.output == "3\n4\n"
    with pytest.raises(InvalidParameters, match="cannot be split"):
        await service.execute_command("echo 'a", [], OPTIONS, "agent")


@pytest.mark.proves("T2-14", "S2-2", "S2-35", "S2-1")
async def test_a_failure_is_a_result(service: TerminalService) -> None:
    failed = await service.execute_command("false", [], OPTIONS, "agent")
    missing = await service.execute_command("no-such-program", ["x"], OPTIONS, "agent")
    both = await service.run_script("echo out; echo err >&2; exit 3", OPTIONS, "agent")
    slow = await service.run_script(
        "echo before-timeout; sleep 60; echo after", ExecuteCommandOptions(2), "agent"
    )

    assert (failed.ok, failed.exit_code, failed.error) == (False, 1, None)
    assert (missing.ok, missing.exit_code) == (False, 127)
    assert missing.error
    assert (both.exit_code, both.stdout, both.stderr) == (3, "out\n", "err\n")
    assert sorted(both.output.split()) == ["err", "out"]
    assert (slow.ok, slow.output) == (False, "before-timeout\n")
    assert "timed out" in (slow.error or "")


@pytest.mark.proves("T2-15", "S2-17", "S2-18", "S2-25", "S2-26", "S2-34")
async def test_input_environment_and_directory(service: TerminalService, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    env = {"COLOUR": "blue", "LANG": None}
    options = ExecuteCommandOptions(working_directory="sub", env=env, input="typed")

    text = 'cat; echo; pwd; echo "$COLOUR ${LANG-unset}"'
    script = await service.run_script(text, options, "agent")
    program = await service.execute_command("sh", ["-c", text], options, "agent")
    provider = service.require_active_terminal("agent")
    direct = [
        await provider.run_script(text, options),
        await provider.execute_command("sh", ["-c", text], options),
    ]

    for result in (script, program, *direct):
        assert result.output.split() == ["typed", str(tmp_path / "sub"), "blue", "unset"]


@pytest.mark.proves("T2-16", "S2-2", "S2-1", "S2-17", "S2-34", "C-1")
async def test_the_service_waits_two_minutes_unless_told_otherwise(tmp_path: Path) -> None:
    events: list[Event] = []
    async with make(tmp_path, publish=events.append) as service:
        service.attach("agent")
        await service.run_script("true", OPTIONS, "agent")
        await service.run_script("true", ExecuteCommandOptions(7), "agent")
        await service.execute_command("true", [], ExecuteCommandOptions(8), "agent")

    started = [event for event in events if isinstance(event, RunStarted)]
    assert [event.limits.total for event in started] == [120, 7, 8]


@pytest.mark.proves("T2-17", "S2-37", "S2-39", "S2-40")
async def test_a_state_survives_a_round_trip_and_can_be_shown(service: TerminalService) -> None:
    given = {"bash": {"cropOutput": 7, "timeoutSeconds": 3}, "persistent": {"minInterval": 0.5}}
    state = service.attach("one", given)
    sessions = service.require_sessions("one")
    await sessions.start_interactive_session(InteractiveSessionOptions("sleep 60"))
    copy = service.attach("two")

    copy.deserialize(json.loads(json.dumps(state.serialize())))

    assert copy.settings == state.settings
    assert (copy.settings.crop_output, copy.settings.timeout) == (7, 3)
    assert (copy.settings.waiting.least, copy.provider_name) == (0.5, "local")
    assert copy.serialize() == state.serialize()
    assert state.show() == [
        "Provider: local",
        "Bash: 3 s, 7 characters shown",
        "Active sessions: 1",
        "  term-1: sleep 60",
    ]


@pytest.mark.proves("T2-29", "S2-38", "C-71", "S2-71")
@pytest.mark.parametrize("what", [["chat"], ["chat", "settings", "memory"]])
async def test_a_reset_ends_sessions_and_keeps_the_settings(
    service: TerminalService, what: list[str]
) -> None:
    service.register_terminal_provider("echo", Echo())
    sessions = service.require_sessions("agent")
    tag = new_tag()
    await sessions.start_interactive_session(InteractiveSessionOptions(f"sleep 60.{tag}"))
    service.state("agent").deserialize({"bash": {"cropOutput": 7}, "providerName": "echo"})
    before = service.state("agent").serialize()

    await service.reset("agent", what)

    assert service.state("agent").local.list_sessions() == []
    assert service.state("agent").serialize() == before
    assert (service.state("agent").provider_name, before["providerName"]) == ("echo", "echo")
    await nobody_left(tag)


@pytest.mark.proves("T2-31")
async def test_agents_do_not_see_each_other(service: TerminalService) -> None:
    service.attach("other")
    mine = service.require_sessions("agent")
    session = await mine.start_interactive_session(InteractiveSessionOptions("sleep 60"))

    other = service.require_sessions("other")

    assert other.get_session_status(session) is None
    with pytest.raises(UnknownSession):
        await other.terminate_session(session)
    assert mine.get_session_status(session) is not None


@pytest.mark.proves("S2-27", "S2-28", "S2-29", "S2-32", "S2-36")
async def test_a_session_through_the_provider(service: TerminalService) -> None:
    sessions = service.require_sessions("agent")
    session = await sessions.start_interactive_session(
        InteractiveSessionOptions("read x; echo got $x", pty=False)
    )

    await sessions.send_input(session, "it\n")
    output = await sessions.collect_output(session, 0, WAIT)
    gone = sessions.get_session_status(session)

    assert (output.output, output.new_position) == ("got it\n", 7)
    assert (output.is_complete, output.exit_code) == (True, 0)
    assert gone is None
    assert sessions.get_isolation_level() == "none"


@pytest.mark.proves("S2-27", "S2-29", "S2-30", "S2-31", "S2-36")
async def test_a_session_can_be_looked_at_and_ended(service: TerminalService) -> None:
    tag, began = new_tag(), time.time()
    sessions = service.require_sessions("agent")
    session = await sessions.start_interactive_session(
        InteractiveSessionOptions(f"echo on; setsid sleep 60.{tag} & sleep 60.{tag}", pty=False)
    )
    await until(lambda: len(tagged(tag, "sleep")) == 2)
    await until(
        lambda: (now := sessions.get_session_status(session)) is not None and now.output_length == 3
    )
    output = await sessions.collect_output(session, 1, OutputWaitOptions(0, 0, 0))
    status = sessions.get_session_status(session)
    await sessions.terminate_session(session)

    assert isinstance(session, str)
    assert (output.output, output.new_position, output.is_complete) == ("n\n", 3, False)
    assert output.exit_code is None
    assert status is not None
    assert (status.id, status.running, status.output_length) == (session, True, 3)
    assert status.exit_code is None
    assert began <= status.start_time <= time.time()
    assert sessions.get_session_status(session) is None
    await nobody_left(tag)


@pytest.mark.proves("S2-19", "S2-20", "S2-75", "S2-1")
async def test_the_service_rates_and_splits(service: TerminalService) -> None:
    texts = ("rm -rf /", "my_custom_script.sh", "ls -la")

    assert [await service.get_command_safety_level(text) for text in texts] == [
        "dangerous",
        "unknown",
        "safe",
    ]
    assert service.parse_compound_command("ls -la | grep test") == ["ls", "grep"]


@pytest.mark.proves("T2-30", "S2-73")
async def test_nothing_is_left_when_the_service_stops(tmp_path: Path) -> None:
    tag = new_tag()
    async with make(tmp_path) as service:
        service.attach("agent")
        sessions = service.require_sessions("agent")
        for _ in range(3):
            await sessions.start_interactive_session(
                InteractiveSessionOptions(f"trap '' TERM; setsid sleep 90.{tag} & sleep 90.{tag}")
            )

    await nobody_left(tag)
