"""What is rated safe is made safe: in a read-only view a wrong rating does no harm."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from anyio import fail_after
from mcp import Client

from shelltie import CommandDenied, Config, assemble
from shelltie.environment.masked_places import IN_HOME, IN_PROJECT, IN_SYSTEM
from shelltie.errors import IsolationUnavailable
from shelltie.frontends.cli.main import main
from shelltie.frontends.reports.run_report import report
from shelltie.frontends.service.service import TerminalService
from shelltie.frontends.service.terminal_provider import ExecuteCommandOptions
from shelltie.safety.protected_names import secrecy
from shelltie.verdict import Rating
from tests.conformance.servers import server_of
from tests.conftest import Open
from tests.sandboxes import become_older

# Rules of a user who errs: none of these only reads.
_WRONG = """
[[rule]]
command = "touch, tee, dd, python3, kill, mv"
verdict = "safe"
flags   = "any"
operands = "text*"
"""
OURS = str(Path("/proc/self/ns/pid").readlink())
WHERE = "readlink /proc/self/ns/pid"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a key, whose owner has rules that are wrong."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("secret\n", encoding="utf-8")
    rules = tmp_path / "xdg-config" / "shelltie" / "rules"
    rules.mkdir(parents=True)
    (rules / "wrong.toml").write_text(_WRONG, encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    return home


@pytest.mark.usefixtures("home")
@pytest.mark.proves("T2-5")
@pytest.mark.parametrize("text", ["touch canary", "echo x | tee canary", "mv victim canary"])
async def test_a_wrong_safe_changes_nothing(text: str, open_terminal: Open, home: Path) -> None:
    (home / "victim").write_text("kept", encoding="utf-8")

    async with open_terminal(safety_enforce="auto", safety_profiles_run_unknown="deny") as terminal:
        with fail_after(60), pytest.raises(CommandDenied, match="read-only view"):
            await terminal.run(text)

    assert (home / "victim").read_text(encoding="utf-8") == "kept"
    assert not (home / "canary").exists()


async def test_what_the_view_stopped_runs_again_as_unknown(open_terminal: Open, home: Path) -> None:
    async with open_terminal(safety_enforce="auto") as terminal:
        with fail_after(60):
            first = await terminal.run("echo x | tee -a canary")
            second = await terminal.run("echo x | tee -a canary")

    assert (first.verdict, first.status, len(first.attempts)) == ("unknown", "success", 2)
    assert any("read-only view" in warning for warning in first.warnings)
    assert (second.verdict, second.status, second.attempts) == ("unknown", "success", ())
    assert (home / "canary").read_text(encoding="utf-8") == "x\nx\n"


@pytest.mark.usefixtures("home")
async def test_what_is_only_started_says_what_stopped_it(open_terminal: Open) -> None:
    async with open_terminal(safety_enforce="auto") as terminal:
        with fail_after(60):
            run = await terminal.start("touch canary")
            await run.wait()

    result = report(run)
    assert (result.blocked, result.verdict) == (("write",), "unknown")
    assert "nothing was changed" in (result.hint or "")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", ["~/.ssh/id_rsa", "/etc/shadow"])
async def test_secrets_cannot_be_read(name: str, open_terminal: Open) -> None:
    code = f"import os; open(os.path.expanduser({name!r})).read()"
    async with open_terminal(safety_enforce="auto", safety_profiles_run_unknown="deny") as terminal:
        with fail_after(60), pytest.raises(CommandDenied, match="credentials"):
            await terminal.run(["python3", "-c", code])


@pytest.mark.usefixtures("home")
async def test_a_secret_that_comes_later_is_masked_too(open_terminal: Open, home: Path) -> None:
    async with open_terminal(safety_enforce="auto", safety_profiles_run_unknown="deny") as terminal:
        with fail_after(60):
            assert (await terminal.run("ls")).status == "success"
            (home / ".netrc").write_text("secret\n", encoding="utf-8")
            code = f"print(open({str(home / '.netrc')!r}).read())"
            with pytest.raises(CommandDenied, match="credentials"):
                await terminal.run(["python3", "-c", code])


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("family", ["AF_INET", "AF_UNIX", "AF_NETLINK"])
async def test_nothing_is_sent(family: str, open_terminal: Open) -> None:
    code = f"import socket; socket.socket(socket.{family})"
    async with open_terminal(safety_enforce="auto", safety_profiles_run_unknown="deny") as terminal:
        with fail_after(60), pytest.raises(CommandDenied, match="network"):
            await terminal.run(["python3", "-c", code])


@pytest.mark.usefixtures("home")
async def test_nobody_outside_is_signalled(open_terminal: Open) -> None:
    async with open_terminal(safety_enforce="auto") as terminal:
        with fail_after(60):
            result = await terminal.run(f"kill -0 {os.getpid()}")

    assert result.status == "error"
    assert "No such process" in result.stderr


@pytest.mark.usefixtures("home")
async def test_ordinary_commands_are_as_they_were(open_terminal: Open, home: Path) -> None:
    (home / "project").mkdir()
    (home / "project" / "a").touch()
    (home / "a").write_text("1\n2\n", encoding="utf-8")
    async with open_terminal() as confined, open_terminal(safety_enforce="off") as free:
        with fail_after(120):
            for text in (
                "cat a",
                "false",
                "ls -la project",
                "cat missing",
                "pwd; echo $HOME",
                "head -c 1 a",
            ):
                one, other = await confined.run(text), await free.run(text)
                assert one.verdict == "safe"
                assert (one.stdout, one.stderr, one.exit_code) == (
                    *(other.stdout, other.stderr),
                    other.exit_code,
                )
            fed = await confined.run("wc -c", stdin="12345")
            elsewhere, here = await confined.run(WHERE), await free.run(WHERE)

    assert fed.stdout.strip() == "5"
    assert elsewhere.stdout.strip() != here.stdout.strip() == OURS
    assert (elsewhere.provider, elsewhere.isolation) == ("local", "none")


@pytest.mark.usefixtures("home")
async def test_what_must_see_processes_sees_them(open_terminal: Open) -> None:
    async with open_terminal(safety_enforce="auto") as terminal:
        with fail_after(60):
            result = await terminal.run(f"ps -o pid= -p {os.getpid()}")

    assert result.stdout.strip() == str(os.getpid())


@pytest.mark.usefixtures("home")
async def test_an_explicit_level_is_no_way_around_the_view(open_terminal: Open) -> None:
    async with open_terminal(safety_enforce="auto") as terminal:
        with fail_after(60):
            asked = await terminal.run(WHERE, isolation="none")
            named = await terminal.run(WHERE, provider="local")

    assert OURS not in (asked.stdout.strip(), named.stdout.strip())


@pytest.mark.usefixtures("home")
async def test_a_run_in_the_view_is_ended_in_time(open_terminal: Open) -> None:
    async with open_terminal(safety_enforce="auto", limits_grace=0.5) as terminal:
        with fail_after(60):
            result = await terminal.run("sleep 300", timeout=1)

    assert result.status == "timeout"


@pytest.mark.usefixtures("home")
async def test_without_a_sandbox_safe_is_only_a_judgement_and_that_is_told_once(
    open_terminal: Open,
) -> None:
    async with open_terminal(safety_enforce="auto", sandbox_bwrap="/nonexistent/bwrap") as terminal:
        with fail_after(60):
            first, second = await terminal.run("pwd"), await terminal.run("pwd")

    assert any("only a judgement" in warning for warning in first.warnings)
    assert (first.status, second.status, second.warnings) == ("success", "success", ())


@pytest.mark.usefixtures("home")
async def test_where_it_is_required_nothing_safe_runs_without_a_view(open_terminal: Open) -> None:
    settings = {"sandbox_bwrap": "/nonexistent/bwrap", "safety_enforce": "required"}
    async with open_terminal(**settings) as terminal:
        with fail_after(60), pytest.raises(IsolationUnavailable, match="required"):
            await terminal.run("pwd")


@pytest.mark.parametrize("name", [*(f"~/{name}" for name in IN_HOME), *IN_PROJECT, *IN_SYSTEM])
def test_what_is_masked_is_secret_to_the_rules_as_well(name: str) -> None:
    masked_alone = ("/etc/shelltie", "/sys/kernel/debug", "/sys/kernel/tracing")

    assert name in masked_alone or any(
        secrecy(path) is not Rating.SAFE for path in (name, f"{name}/x")
    )


async def test_doctor_lists_what_was_wrongly_rated_safe(
    open_terminal: Open,
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHELLTIE_STATE_DIR", str(home.parent / "state"))
    assert main(["doctor", "--rules"]) == 0
    async with open_terminal(safety_enforce="auto") as terminal:
        with fail_after(60):
            await terminal.run("touch canary")

    assert (home / "canary").exists()
    assert main(["doctor", "--rules"]) == 1
    assert "touch canary\n    it was rated safe" in capsys.readouterr().out


@pytest.mark.needs("bwrap")
async def test_an_older_bubblewrap_makes_a_view_too(
    open_terminal: Open, home: Path, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become_older(public_path, monkeypatch)
    (home / ".netrc").write_text("secret\n", encoding="utf-8")
    reading = f"print(open({str(home / '.netrc')!r}).read())"
    async with open_terminal(safety_profiles_run_unknown="deny") as terminal:
        with fail_after(60):
            listed = await terminal.run(f"ls -A {home / '.ssh'}")
            with pytest.raises(CommandDenied, match="credentials"):
                await terminal.run(["python3", "-c", reading])

    assert (listed.stdout, listed.warnings) == ("", ())


@pytest.mark.usefixtures("home")
async def test_bubblewrap_that_fails_is_not_tried_for_every_command(
    open_terminal: Open, public_path: Path
) -> None:
    tried, bwrap = public_path / "tried", public_path / "bwrap"
    bwrap.write_text(f"#!/bin/sh\necho >> {tried}; echo 'bwrap: no' >&2; exit 1\n", "utf-8")
    bwrap.chmod(0o755)
    async with open_terminal(sandbox_bwrap=str(bwrap)) as terminal:
        with fail_after(60):
            results = [await terminal.run("echo x") for _ in range(3)]

    assert [result.stdout for result in results] == ["x\n"] * 3
    assert tried.read_text("utf-8") == "\n"


async def test_over_mcp_and_in_a_service_it_runs_again_as_well(
    open_terminal: Open, home: Path, tmp_path: Path
) -> None:
    settings: dict[str, object] = {"safety_profiles_bash_unknown": "allow"}
    async with open_terminal(**settings) as terminal:
        async with Client(server_of(terminal, Config.of(**settings))) as client:
            with fail_after(60):
                answer = await client.call_tool("bash", {"command": "echo x | tee canary"})
    config = Config.of(state_dir=str(tmp_path / "service"))
    providers = {"agentDefaults": {"provider": "local"}, "providers": {"local": {"type": "local"}}}
    async with TerminalService(providers, config, home) as service:
        service.attach("agent")
        with fail_after(60):
            result = await service.run_script(
                "echo y | tee other", ExecuteCommandOptions(), "agent"
            )

    assert answer.structured_content is not None
    assert answer.structured_content["exitCode"] == 0
    assert any("read-only view" in told for told in answer.structured_content["warnings"])
    assert (home / "canary").read_text(encoding="utf-8") == "x\n"
    assert (result.ok, (home / "other").read_text(encoding="utf-8")) == (True, "y\n")


async def test_the_secrets_of_a_project_read_as_zeros(open_terminal: Open, home: Path) -> None:
    ours, theirs = home / "ours", home / "theirs"
    for project in (ours, theirs):
        project.mkdir()
        (project / ".env").write_text("TOKEN=secret\n", encoding="utf-8")
        (project / "main.py").write_text("TOKEN\n", encoding="utf-8")
    for words in (("init", "-q"), ("add", ".env", "main.py")):
        subprocess.run(("git", *words), cwd=theirs, check=True)
    async with open_terminal() as terminal:
        with fail_after(60):
            searched = await terminal.run("grep -r TOKEN .", cwd=ours)
            listed = await terminal.run("stat -c '%s %a' .env", cwd=ours)
            tracked = await terminal.run("git status --short", cwd=theirs)
            (ours / ".env.local").write_text("TOKEN=secret\n", encoding="utf-8")
            again = await terminal.run("grep -rc secret .", cwd=ours)

    assert (searched.stdout, searched.exit_code) == ("./main.py:TOKEN\n", 0)
    assert listed.stdout == "13 644\n"
    assert tracked.stdout == "A  .env\nA  main.py\n"
    assert sorted(again.stdout.split()) == ["./.env.local:0", "./.env:0", "./main.py:0"]


@pytest.mark.usefixtures("home")
async def test_on_other_systems_safe_is_only_a_judgement_too(
    open_terminal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = SimpleNamespace(platform="darwin", modules=sys.modules)
    monkeypatch.setattr(assemble, "sys", elsewhere)
    async with open_terminal() as terminal, open_terminal(safety_enforce="required") as strict:
        with fail_after(60):
            told, again = await terminal.run("pwd"), await terminal.run("pwd")
            with pytest.raises(IsolationUnavailable, match="needs Linux"):
                await strict.run("pwd")

    assert any("only a judgement" in warning for warning in told.warnings)
    assert again.warnings == ()
