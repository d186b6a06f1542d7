"""What isolation has blocked is told, and can run outside with one yes, if the policy lets it."""

import contextlib
import os
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from anyio import fail_after
from mcp import Client

from shelltie import Answer, CommandDenied, Config, InvalidParameters, Question, Terminal
from shelltie.errors import RefusedByPerson
from shelltie.frontends.acp.terminal_host import TerminalHost
from tests.asking import not_on_a_leash
from tests.cli import shelltie
from tests.conformance.servers import server_of
from tests.conformance.test_mcp_trial import text_of
from tests.served import person

pytestmark = pytest.mark.needs("bwrap", "curl")


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that a sandbox shows, and in which nothing can be written there."""
    for name in ("home", "project", "shown"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "shown"


class Asked:
    """A person who says the same to all questions."""

    def __init__(self, *, allows: bool = True) -> None:
        self.questions: list[Question] = []
        self.allows = allows

    def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        return Answer(allowed=self.allows, by="me")

    @property
    def told(self) -> list[str]:
        """Why each was asked, in its first words."""
        return [one.verdict.reasons[0].message for one in self.questions]


@contextlib.asynccontextmanager
async def opened(shown: Path, asked: Asked, **settings: object) -> AsyncIterator[Terminal]:
    state = str(shown.parent / "state")
    config = Config.of(state_dir=state, sandbox_readable=[str(shown)], **settings)
    async with Terminal(config, approve=asked) as terminal:
        yield terminal


async def test_a_blocked_command_runs_outside_after_one_question_that_says_what_blocked_it(
    shown: Path,
) -> None:
    asked, text = Asked(), f"echo done > {shown}/file"
    async with opened(shown, asked) as terminal:
        blocked = await terminal.run(text, isolation="sandbox")
        on_trial = await terminal.run(text, trial=True)
        assert not asked.questions
        assert not [*shown.iterdir()]
        outside = await terminal.run(text, isolation="outside")
        other = await terminal.run(text, isolation="outside", env={"OTHER": "1"})
        asked.allows = False
        with pytest.raises(RefusedByPerson, match="outside of any isolation"):
            await terminal.run(f"{text}2", isolation="outside")

    for result in (blocked, on_trial):
        assert (result.isolation, result.blocked) == ("sandbox", ("write",))
        assert result.tried_outside is not None
        assert result.tried_outside.writes == (f"{shown}/file",)
        assert result.outside == "ask"
    assert (outside.isolation, outside.outside, outside.exit_code) == ("none", None, 0)
    assert (shown / "file").read_text() == "done\n"
    assert other.exit_code == 0
    first, second, third = asked.told
    assert f"It tried to write {shown}/file" in first
    assert first.endswith("with a yes it now runs outside of any isolation, as you")
    assert "kept it" not in second + third  # that was not this command
    assert {one.provider for one in asked.questions} == {"local"}
    assert not (shown / "file2").exists()


async def test_what_the_policy_demands_is_not_left_unless_the_settings_let_a_yes_do_it(
    shown: Path,
) -> None:
    asked, text = Asked(), f"mkdir {shown}/made"
    demanded = {"isolation_profiles_run_unknown": "sandbox"}
    async with opened(shown, asked, **demanded) as terminal:
        kept = await terminal.run(text)
        with pytest.raises(CommandDenied, match="demands isolation sandbox"):
            await terminal.run(text, isolation="outside")
        with pytest.raises(InvalidParameters):
            await terminal.run(text, isolation="outside", trial=True)
        assert not asked.questions
        assert not [*shown.iterdir()]
    async with opened(shown, asked, **demanded, isolation_outside=True) as terminal:
        offered = await terminal.run(text)
        outside = await terminal.run(text, isolation="outside")
    async with opened(shown, asked, safety_profiles_run_unknown="deny") as terminal:
        with pytest.raises(CommandDenied, match="the policy refuses"):
            await terminal.run(text, isolation="outside")

    assert (kept.outside, kept.blocked) == ("never", ("write",))
    assert "cannot be run outside" in str(kept.hint)
    assert (offered.outside, offered.isolation) == ("ask", "sandbox")
    assert outside.exit_code == 0
    assert len(asked.questions) == 1
    assert (shown / "made").is_dir()


async def test_an_agent_reads_the_offer_takes_it_and_a_person_is_asked(shown: Path) -> None:
    asked, text = Asked(), f"touch {shown}/file"
    async with opened(shown, asked) as terminal:
        config = Config.of(state_dir=str(shown.parent / "state"))
        async with Client(server_of(terminal, config)) as client:
            with fail_after(100):
                blocked = await client.call_tool("run", {"command": text, "isolation": "sandbox"})
                offline = await client.call_tool(
                    "run", {"command": "curl -sS https://example.org/", "isolation": "sandbox"}
                )
                outside = await client.call_tool("run", {"command": text, "isolation": "outside"})

    assert 'the same call of run with isolation "outside"' in text_of(blocked)
    assert f"It tried to write {shown}/file" in text_of(blocked)
    told = blocked.structured_content
    assert told is not None
    assert (told["outside"], told["triedOutside"]["writes"]) == ("ask", [f"{shown}/file"])
    wanted = offline.structured_content
    assert wanted is not None
    assert wanted["triedOutside"]["hosts"] == ["example.org"]
    assert "it had no network, so of the hosts" in text_of(offline)
    assert not outside.is_error
    assert (shown / "file").exists()
    assert len(asked.questions) == 1


@not_on_a_leash
async def test_the_command_line_prints_the_command_that_asks_at_the_terminal(
    shown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_SANDBOX_READABLE", str(shown))
    text = f"echo $WORD > {shown}/file"
    wish = ("run", "--env", "WORD=a b", "--env", "API_TOKEN=geheim")
    blocked = shelltie(*wish, "--isolation", "sandbox", "--", text)
    offered = next(
        line for line in blocked.stderr.decode().splitlines() if "--isolation outside" in line
    )
    command = shlex.split(offered)
    assert command[0] == "shelltie"
    async with person(*command[1:]) as somebody:
        await somebody.sees("outside of any isolation")
        await somebody.sees("Run this?")
        somebody.types("y\n")
        code = await somebody.leaves()
    monkeypatch.setenv("SHELLTIE_ISOLATION_PROFILES_RUN_UNKNOWN", "sandbox")
    kept = shelltie("run", "--", f"mkdir {shown}/made")

    assert "geheim" not in offered
    assert code == 0
    assert (shown / "file").read_text() == "a b\n"
    assert b"cannot be run outside" in kept.stderr
    assert b"--isolation outside" not in kept.stderr
    assert not (shown / "made").exists()


def test_a_project_that_nobody_trusts_can_demand_isolation_and_not_lift_it(
    shown: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_SANDBOX_READABLE", str(shown))
    demand = '[isolation]\noutside = true\n[isolation.profiles.run]\nunknown = "sandbox"\n'
    Path(".shelltie.toml").write_text(demand)

    kept = shelltie("run", "--", f"mkdir {shown}/made")
    outside = shelltie("run", "--isolation", "outside", "--", f"mkdir {shown}/made")

    assert b"cannot be run outside" in kept.stderr
    assert b"cannot be run outside" in outside.stderr
    assert outside.returncode == 126
    assert os.listdir(shown) == []  # noqa: PTH208  names alone


async def test_the_strict_tool_and_sessions_offer_it_too(shown: Path) -> None:
    asked, text = Asked(), f"mkdir {shown}/made"
    isolated = {f"isolation_profiles_{one}_unknown": "sandbox" for one in ("bash", "session")}
    allowed = {"safety_profiles_bash_unknown": "allow", "isolation_outside": True}
    async with opened(shown, asked, **isolated, **allowed) as terminal:
        config = Config.of(state_dir=str(shown.parent / "state"))
        async with Client(server_of(terminal, config)) as client:
            with fail_after(100):
                bash = await client.call_tool("bash", {"command": text})
                start = {"command": text, "maxWait": 60, "waitFor": "it never prints that"}
                session = await client.call_tool("terminal_start", start)
                shell = {"command": text, "mode": "shell", "isolation": "outside"}
                refused = await client.call_tool("terminal_start", shell)
                assert not asked.questions
                outside = await client.call_tool(
                    "terminal_start", {**start, "isolation": "outside"}
                )

    assert 'the tool run with this command and isolation "outside"' in text_of(bash)
    assert (bash.structured_content or {})["outside"] == "ask"
    assert 'terminal_start with this command and isolation "outside"' in text_of(session)
    assert f"It tried to write {shown}/made" in text_of(session)
    assert "not for a shell" in text_of(refused)
    assert not outside.is_error
    assert (shown / "made").is_dir()
    assert len(asked.questions) == 1


async def test_an_editor_offers_it_too(shown: Path) -> None:
    asked, text = Asked(), f"mkdir {shown}/made"
    async with opened(shown, asked) as terminal, TerminalHost(terminal.supervisor) as host:
        host.open_session("s", Path.cwd())
        with fail_after(100):
            blocked = await host.create_terminal("s", text, isolation="sandbox")
            await host.wait_for_terminal_exit("s", blocked.terminal_id)
            said = await host.terminal_output("s", blocked.terminal_id)
            outside = await host.create_terminal("s", text, isolation="outside")
            await host.wait_for_terminal_exit("s", outside.terminal_id)
        with pytest.raises(InvalidParameters, match="isolation"):
            await host.create_terminal("s", text, isolation="anything")

    assert '"isolation": "outside" in _meta' in said.output
    assert (shown / "made").is_dir()
    assert len(asked.questions) == 1
