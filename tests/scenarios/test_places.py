"""Commands at a place of the settings, over ssh: who may, what they get, what is told of them."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client

from shelltie import CannotStart, CommandDenied, Config, InvalidParameters
from shelltie.basics.frozen import replace
from shelltie.events import Event, ReachChanged, RunStarted
from shelltie.frontends.api import Terminal
from shelltie.keeper import lasting_link
from shelltie.model import State
from shelltie.settings.places import Place, PlaceRules
from tests.conformance.servers import server_of
from tests.ssh_server import SshServer, ssh_server
from tests.tree import new_tag, nobody_left, tagged, until

_HOME = pwd.getpwuid(os.getuid()).pw_dir
pytestmark = pytest.mark.needs("sshd")


@pytest.fixture
def server() -> Iterator[SshServer]:
    with ssh_server() as server:
        yield server


@asynccontextmanager
async def terminal_at(
    places: Mapping[str, Place], events: list[Event] | None = None, **rules: tuple[str, ...]
) -> AsyncIterator[Terminal]:
    config = replace(Config(), places=places, place=PlaceRules(**rules))
    hear = None if events is None else events.append
    async with Terminal(config, publish=hear) as terminal:
        yield terminal


async def test_a_command_at_a_place_has_that_machines_surroundings_and_none_of_ours(
    server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THIS_MACHINE", "1")
    async with terminal_at({"web1": server.place(directory="/usr")}) as terminal:
        home = await terminal.run(
            "pwd; echo [$OF_THIS_MACHINE] [$GIVEN] [$FROM_RC] $HOME", env={"GIVEN": "x"}, at="web1"
        )
        below = await terminal.run("pwd", cwd="lib", at="web1")
        failed = await terminal.run("echo out; echo err >&2; exit 3", at="web1")
        typed = await terminal.run("cat", stdin="in\n", at="web1")

    assert home.stdout == f"/usr\n[] [x] [] {_HOME}\n"
    assert (home.at, home.provider, home.isolation, home.cwd) == ("web1", "web1", "none", "/usr")
    assert below.stdout == "/usr/lib\n"
    assert (failed.stdout, failed.stderr, failed.exit_code) == ("out\n", "err\n", 3)
    assert typed.stdout == "in\n"
    assert server.connections == 1


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"at": "web2"}, InvalidParameters, "there are web1, off"),
        ({"at": ""}, InvalidParameters, "no place ''"),
        ({"at": "local"}, InvalidParameters, "no place 'local'"),
        ({"at": "web1", "isolation": "sandbox"}, InvalidParameters, "web1 has isolation none"),
        ({"at": "web1", "trial": True}, InvalidParameters, "no trials"),
        ({"at": "web1", "provider": "local"}, InvalidParameters, "no other providers"),
        ({"at": "off"}, CannotStart, "host 127.0.0.1 cannot be reached"),
    ],
)
async def test_a_place_that_cannot_be_is_an_error_and_nothing_runs(
    server: SshServer, options: dict[str, object], error: type[Exception], says: str
) -> None:
    places = {"web1": server.place(), "off": server.place(port=1)}

    async with terminal_at(places) as terminal:
        with pytest.raises(error, match=says):
            await terminal.run("touch /tmp/x", **options)  # type: ignore[arg-type]
        other = await terminal.run("echo here")

    assert other.stdout == "here\n"
    assert server.connections == 0


async def test_a_policy_forbids_places_and_demands_them(server: SshServer) -> None:
    places = {"web1": server.place(), "web2": server.place()}

    async with terminal_at(places, forbid=("web1",)) as terminal:
        with pytest.raises(CommandDenied, match="forbids commands at web1"):
            await terminal.run("true", at="web1")
    async with terminal_at(places, forbid=("*",)) as terminal:
        with pytest.raises(CommandDenied, match="forbids commands at web2"):
            await terminal.run("true", at="web2")
    async with terminal_at(places, demand=("web2",)) as terminal:
        with pytest.raises(CommandDenied, match="demands that commands run at web2"):
            await terminal.run("true", at="web1")
        demanded = await terminal.run("true")

    assert demanded.at == "web2"


async def test_what_looks_safe_there_is_only_so_if_no_file_matters(server: SshServer) -> None:
    async with terminal_at({"web1": server.place()}) as terminal:
        safe = await terminal.run("echo a; true", at="web1")
        reads = await terminal.run("cat /etc/hostname; true", at="web1")
        with pytest.raises(CommandDenied):
            await terminal.run("rm -rf /srv/data", at="web1")

    assert (safe.verdict, reads.verdict) == ("safe", "unknown")


async def test_a_limit_ends_the_whole_tree_there(server: SshServer) -> None:
    tag = new_tag()

    async with terminal_at({"web1": server.place()}) as terminal:
        result = await terminal.run(
            f"(setsid sleep 300.{tag} &); echo on; sleep 300.{tag}", timeout=2, at="web1"
        )

    assert (result.status, result.timeout_reason) == ("timeout", "exec_timeout")
    assert result.stdout == "on\n"
    assert not tagged(tag)


async def test_a_lost_connection_is_told_and_the_run_is_picked_up(
    server: SshServer,
) -> None:
    events: list[Event] = []

    async with terminal_at({"web1": server.place()}, events) as terminal:
        run = await terminal.start("echo one; sleep 1; echo two; exit 4", at="web1")
        await until(lambda: run.output.total > 0)
        server.refuse()
        server.kill_connections()
        await until(lambda: not run.reachable)
        server.accept()
        outcome = await run.wait()
        printed = run.output.view(None, 0, 100).tail

    told = [event for event in events if isinstance(event, ReachChanged)]
    assert (outcome.exit.code, printed) == (4, b"one\ntwo\n")
    assert [event.reachable for event in told] == [False, True], told
    assert "is lost" in told[0].message
    assert sum(isinstance(event, RunStarted) for event in events) == 1


async def test_what_is_not_reached_again_ends_with_what_is_known(
    server: SshServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting_link, "_ENDS_WITHIN", 1.0)
    tag = new_tag()

    async with terminal_at({"web1": server.place(lease=3.0)}) as terminal:
        lost = await terminal.start(f"echo on; sleep 300.{tag}", at="web1")
        await until(lambda: lost.output.total > 0)
        server.refuse()
        server.kill_connections()
        outcome = await lost.wait()
        await nobody_left(tag)

    assert (outcome.state, outcome.leaked) == (State.KILLED, True)
    assert "could not be reached again" in str(outcome.stop_reason)
    assert "ended everything by now" in str(outcome.stop_reason)


async def test_who_ends_what_is_out_of_reach_is_told_when_it_is_over_there(
    server: SshServer,
) -> None:
    tag = new_tag()

    async with terminal_at({"web1": server.place(lease=20.0)}) as terminal:
        run = await terminal.start(f"echo on; sleep 300.{tag}", at="web1")
        await until(lambda: run.output.total > 0)
        server.refuse()
        server.kill_connections()
        await until(lambda: not run.reachable)
        with anyio.fail_after(60):
            outcome = await run.kill("somebody asked")
        server.accept()

    assert outcome.leaked
    assert any("its keeper there ends it by" in warning for warning in outcome.warnings)
    await nobody_left(tag)


def run_cli(server: SshServer, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    place = server.place()
    keys = "".join(
        f"{name} = {getattr(place, name)!r}\n"
        for name in ("host", "port", "user", "identity", "known_hosts", "config")
    )
    settings = tmp_path / "config" / "shelltie"
    settings.mkdir(parents=True, exist_ok=True)
    text = f'[places.web1]\nkind = "ssh"\n{keys}'
    (settings / "config.toml").write_text(text, encoding="utf-8")
    env = {
        **os.environ,
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    program = [sys.executable, "-m", "shelltie", *words]
    return subprocess.run(
        program, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_command_line_runs_at_a_place_and_names_it(server: SshServer, tmp_path: Path) -> None:
    ran = run_cli(server, tmp_path, "run", "--at", "web1", "--json", "--", "pwd; exit 5")
    wrong = run_cli(server, tmp_path, "run", "--at", "web2", "--", "pwd")

    told = json.loads(ran.stdout)
    assert (ran.returncode, told["stdout"], told["at"]) == (5, f"{_HOME}\n", "web1")
    assert wrong.returncode != 0
    assert "there is no place 'web2': there are web1" in wrong.stderr


async def test_an_agent_runs_at_a_place_and_types_into_a_session_there(server: SshServer) -> None:
    config = replace(Config(), places={"web1": server.place()})
    async with Terminal(config) as terminal, Client(server_of(terminal, config)) as client:
        ran = await client.call_tool("run", {"command": "pwd; exit 3", "at": "web1"})
        started = await client.call_tool(
            "terminal_start", {"command": "read x; stty size; echo got $x", "at": "web1"}
        )
        session = {"sessionId": (started.structured_content or {})["id"]}
        typed = await client.call_tool(
            "terminal_continue", {**session, "stdin": "word", "waitFor": "got", "maxWait": 60}
        )
        shell = await client.call_tool(
            "terminal_start", {"command": "true", "mode": "shell", "at": "web1"}
        )

    told, said = ran.structured_content or {}, typed.structured_content or {}
    assert (told["stdout"], told["exitCode"], told["at"]) == (f"{_HOME}\n", 3, "web1")
    assert "24 80\ngot word" in said["output"]
    assert "runs here" in (shell.structured_content or {})["error"]


async def test_nothing_goes_on_there_after_its_server_was_killed_and_its_lease_is_over(
    server: SshServer, tmp_path: Path
) -> None:
    tag = new_tag()
    run_cli(server, tmp_path, "paths")  # writes the settings
    config = tmp_path / "config" / "shelltie" / "config.toml"
    config.write_text(config.read_text(encoding="utf-8") + "lease = 3.0\n", encoding="utf-8")
    env = {
        **os.environ,
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    words = ["run", "--at", "web1", "--", f"setsid sleep 300.{tag} & sleep 300.{tag}"]
    words = [sys.executable, "-m", "shelltie", *words]
    with subprocess.Popen(words, env=env) as program:  # noqa: ASYNC220  it is killed
        await until(lambda: len([pid for pid in tagged(tag) if pid != program.pid]) >= 2)
        program.kill()
        program.wait(30)

    await nobody_left(tag)
