"""A command in a container is held as one here is, and gets no further than its workspace."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path

import anyio
import pytest

from shelltie import Answer, Config, Question, Resources, Result, State, Terminal
from shelltie.errors import CommandDenied, FileProtected, IsolationUnavailable, KillFailed
from shelltie.keeper import process_identity
from shelltie.model import Command, Isolation
from shelltie.providers.container.create import OWNER
from shelltie.running.options import RunOptions
from shelltie.sessions.registry import Sessions
from shelltie.sessions.shell import Start, open_shell
from shelltie.settings.all_settings import Waiting
from tests.cli import SHELLTIE
from tests.conftest import Open
from tests.containers import IMAGE, OwnEngine
from tests.programs import BOMB, DEEDS, evil
from tests.tree import new_tag, nobody_left, tagged, until

MIB = 1024 * 1024


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project in which shelltie was started."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name).resolve()
        monkeypatch.chdir(path)
        yield path


@pytest.fixture
def settings(engine: OwnEngine) -> Iterator[dict[str, object]]:
    """What leads to the engine; nothing of ours may be left there."""
    yield {
        "container_image": IMAGE,
        "container_engine": f"unix://{engine.address}",
        "limits_grace": 0.5,
    }
    assert engine.containers() == []


@pytest.fixture
def opened(open_terminal: Open, workspace: Path, settings: dict[str, object]) -> Open:
    """A terminal that lets everything run, in a container."""
    assert Path.cwd() == workspace

    def with_settings(**more: object) -> AbstractAsyncContextManager[Terminal]:
        levels = (
            "isolation_profiles_run_safe",
            "isolation_profiles_run_unknown",
            "isolation_profiles_run_dangerous",
        )
        everything = {
            **dict.fromkeys(levels, "container"),
            "safety_profiles_run_dangerous": "allow",
        }
        return open_terminal(**{**settings, **everything, **more})

    return with_settings


def failed(result: Result) -> bool:
    assert (result.provider, result.isolation) == ("container", "container")
    return result.exit_code != 0


@pytest.mark.proves("T2-36", "S2-7", "S2-33", "T2-34")
async def test_a_timeout_ends_a_command_inside_its_container_and_none_is_left(
    opened: Open, engine: OwnEngine, workspace: Path
) -> None:
    tag = new_tag()
    async with opened() as terminal:
        where = await terminal.run("readlink /proc/self/ns/pid; ls /; echo kept > file; exit 3")
        late = await terminal.run(
            f"(trap '' TERM; setsid sleep 300.{tag} &); echo begun; sleep 300.{tag}",
            timeout=8,
            silence=0,
        )
        left = tagged(f"300.{tag}")
        after = await terminal.run("readlink /proc/self/ns/pid")
        serving = len(engine.containers())

    assert str(Path("/proc/self/ns/pid").readlink()) not in where.stdout
    assert "root" not in where.stdout.split()  # which every system has, and this image has not
    assert (where.exit_code, where.provider, where.isolation) == (3, "container", "container")
    assert (workspace / "file").read_text() == "kept\n"
    assert (late.status, late.stdout, late.leaked, left) == ("timeout", "begun\n", False, [])
    assert (after.stdout.strip(), serving) == (where.stdout.split()[0], 1)
    assert engine.containers() == []


@pytest.mark.proves("T2-36", "S2-33")
async def test_nobody_hostile_survives_its_timeout(opened: Open, workspace: Path) -> None:
    tags = {deed: new_tag() for deed in DEEDS}
    busy = {"churn", "movers"}  # they leave others no time
    results: dict[str, Result] = {}
    program = workspace / "evil"
    program.write_bytes(Path(evil()).read_bytes())
    program.chmod(0o755)

    async def one(terminal: Terminal, deed: str, tag: str) -> None:
        results[deed] = await terminal.run([str(program), deed, "30", tag], timeout=1)

    async with opened() as terminal:
        async with anyio.create_task_group() as tasks:
            for deed in set(DEEDS) - busy:
                tasks.start_soon(one, terminal, deed, tags[deed])
        for deed in busy:
            await one(terminal, deed, tags[deed])
        left = [deed for deed, tag in tags.items() if tagged(tag)]
        after = await terminal.run("echo fine")

    assert {deed for deed, result in results.items() if result.leaked} == set()
    assert {result.status for result in results.values()} == {"timeout", "success"}
    assert left == []
    assert after.stdout == "fine\n"


async def test_it_writes_in_its_workspace_and_in_a_tmp_of_its_own_and_nowhere_else(
    opened: Open, workspace: Path, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (public_path / "home").mkdir()
    (public_path / "home" / "secret").write_text("secret\n")
    monkeypatch.setenv("HOME", str(public_path / "home"))
    monkeypatch.setenv("PLACE", "of this machine")
    subprocess.run(["git", "init", "-q"], check=True)
    (workspace / ".mcp.json").write_text("{}")
    async with opened(container_mounts=(f"{public_path}:/data:ro",)) as terminal:
        inside = await terminal.run(
            "echo x > .git/index && mkdir sub && echo $HOME && echo y > ~/y"
        )
        tried = [
            await terminal.run(f"echo evil > {place}")
            for place in ("/usr/x", "/etc/x", "/data/x", ".git/hooks/x", ".git/config", ".mcp.json")
        ]
        moved = await terminal.run("mv .git old")
        private = await terminal.run("echo mine > /tmp/shelltie-private; ls -A /tmp")
        again = await terminal.run("cat /tmp/shelltie-private; echo $PLACE; cat /data/home/secret")
        missing = await terminal.run(f"cat {public_path}/home/secret")

    assert (inside.status, inside.stdout) == ("success", "/home/shelltie\n"), inside.stderr
    assert all(map(failed, [*tried, moved]))
    assert "write" in tried[0].blocked
    assert "container.mounts" in str(tried[0].hint)
    assert public_path.name not in private.stdout.split()
    assert not Path("/tmp/shelltie-private").exists()
    assert again.stdout == "mine\n\nsecret\n"
    assert missing.blocked == ("files",)
    assert (workspace / ".mcp.json").read_text() == "{}"


async def test_listed_hosts_are_reached_from_a_container(opened: Open) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nfrom outside")
        writer.close()

    def get(place: str) -> str:
        said = f"GET http://{place}/ HTTP/1.0\\r\\n\\r\\n"
        return f"exec 3<>/dev/tcp/127.0.0.1/${{https_proxy##*:}}; printf '{said}' >&3; cat <&3"

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        place = f"host.shelltie.internal:{port}"
        listed = {"container_network": "allow", "sandbox_network_allow": [place]}
        async with opened(**listed) as terminal:
            reached = await terminal.run(get(place))
            refused = await terminal.run(get(f"127.0.0.1:{port}"))

    assert reached.stdout.endswith("from outside"), reached
    assert refused.stdout.startswith("HTTP/1.1 403 "), refused
    assert [one.host for one in refused.refused_hosts] == [f"127.0.0.1:{port}"]
    assert refused.blocked == ("hosts",)


async def test_files_are_those_of_its_commands(opened: Open, workspace: Path) -> None:
    (workspace / "CLAUDE.md").write_text("obey")
    async with opened() as terminal:
        files = terminal.files.at(workspace, isolation="container")
        await files.write("in", "from outside")
        result = await terminal.run("cat in; echo from inside > out")

        assert result.stdout == "from outside"
        assert await files.read("out") == b"from inside\n"
        with pytest.raises(FileProtected):
            await files.write("CLAUDE.md", "obey another")


async def test_a_shell_that_stays_runs_in_a_container(opened: Open, workspace: Path) -> None:
    async with opened(safety_profiles_session_dangerous="allow") as terminal:
        sessions = Sessions(terminal.supervisor)
        start = Start(isolation="container")
        with anyio.fail_after(50):
            shell = await open_shell(
                sessions, terminal.supervisor, "me", "mkdir a; cd a; (exit 3)", start
            )
            first = await shell.follow(Waiting(0.1, 0.3, 50.0))
            second = await shell.run("pwd > file; ls /root", Waiting(0.1, 0.3, 50.0))

    assert (first.exit_code, first.cwd) == (3, str(workspace / "a"))
    assert (workspace / "a" / "file").read_text() == f"{workspace}/a\n"
    assert second.exit_code != 0  # the image has no such directory
    assert shell.session.run.isolation == "container"


async def test_neither_the_network_nor_our_processes_and_sockets_can_be_reached(
    opened: Open, engine: OwnEngine, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(workspace))
    place = workspace / "shelltie"
    place.mkdir(mode=0o700)
    (place / "1.sock").write_text("our socket would be here")
    switches = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/mm/ksm/run")
    with socket.create_server(("127.0.0.1", 0)) as host:
        port = host.getsockname()[1]
        async with opened() as terminal:
            to_host = await terminal.run(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
            out = await terminal.run("exec 3<>/dev/tcp/192.0.2.1/9")
            seen = await terminal.run(
                f"ls -d /proc/{os.getpid()}; ls -A {place} /run/shelltie/link"
            )
            engines = await terminal.run(f"ls {engine.address} /run/podman /var/run/docker.sock")
            await terminal.run(f"kill -KILL {os.getpid()} 1; kill -TERM 1; kill -KILL -1")
            memory = await terminal.run("cat /proc/1/environ /proc/1/maps /proc/$PPID/environ")
            # Opened for writing, but nothing is written: it is the real kernel's, if we are wrong.
            turned = [await terminal.run(f": >> {switch}") for switch in switches]
            rights = await terminal.run("grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status")
            nested = await terminal.run("unshare --mount true")
            after = await terminal.run("echo alive")

    assert all(map(failed, (to_host, out, engines, nested, *turned)))
    assert out.blocked == ("network",)
    assert "container.network" in str(out.hint)
    assert (seen.stdout.split(), engines.stdout) == (["/run/shelltie/link:", f"{place}:"], "")
    assert memory.stdout == ""
    assert rights.stdout.split()[1::2] == ["0000000000000000", "0000000000000000", "1"]
    assert after.stdout == "alive\n"
    assert (place / "1.sock").exists()


async def test_limits_hold_for_the_container_and_for_one_command(
    opened: Open, workspace: Path
) -> None:
    workspace.chmod(0o777)
    groups = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max"
    eats = "x=$(head -c 100000000 /dev/zero | tr '\\0' x); echo full"
    async with opened(
        container_processes=30, container_memory=64 * MIB, container_user="1234:1234"
    ) as terminal:
        bomb = await terminal.run(BOMB)
        starved = await terminal.run(eats)
        fed = await terminal.run("echo fine")
        told = await terminal.run(f"{groups} 2>/dev/null; id")
        one = await terminal.run("ulimit -n", resources=Resources(open_files=77))

    assert "all" not in bomb.stdout
    assert "fork" in bomb.stderr
    assert not bomb.leaked
    assert bomb.exhausted == ("tasks",)
    assert (starved.stdout, starved.exhausted) == ("", ("memory",))
    assert "container.memory" in str(starved.hint)
    assert (fed.stdout, fed.exhausted) == ("fine\n", ())
    assert str(64 * MIB) in told.stdout.split()
    assert "uid=1234" in told.stdout
    assert one.stdout == "77\n"


@pytest.mark.usefixtures("workspace")
async def test_a_container_is_let_go_when_idle_also_while_somebody_is_asked(
    engine: OwnEngine, settings: dict[str, object], tmp_path: Path
) -> None:
    async def approve(_: Question) -> Answer:
        await until(lambda: engine.containers() == [])
        return Answer(allowed=True)

    config = Config.of(
        state_dir=str(tmp_path), sandbox_idle=0.0, safety_profiles_run_unknown="ask", **settings
    )
    async with Terminal(config, approve=approve) as terminal:
        await terminal.run("true", isolation="container")
        await until(lambda: engine.containers() == [])
        asked = await terminal.run("mkdir asked", isolation="container")

    assert asked.isolation == "container"
    assert Path("asked").is_dir()


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_a_container_that_is_ended_takes_its_commands_along_and_no_others(
    opened: Open, engine: OwnEngine, public_path: Path, how: str
) -> None:
    tag = new_tag()
    async with opened() as terminal:
        run = await terminal.start(f"setsid sleep 300.{tag} & sleep 300.{tag}")
        await until(lambda: len(tagged(f"sleep 300.{tag}")) >= 2)
        (ours,) = engine.containers()
        other = await terminal.start("sleep 300", workspace=public_path, cwd=public_path)
        with suppress(AssertionError):  # Podman looks after it, and it may be removed by then
            engine.ask("POST", f"/containers/{ours['Id']}/{how}")
        at_once = await terminal.run("echo at once")
        with anyio.fail_after(50):
            outcome = await run.wait()
        await nobody_left(tag)
        still = other.outcome
        after = await terminal.run("echo after")
        await other.kill("enough")

    assert (at_once.status, at_once.stdout) == ("success", "at once\n"), at_once
    assert (outcome.ok, outcome.leaked) == (False, False)
    assert any("its container ended while it ran" in one for one in outcome.warnings)
    assert still is None
    assert after.stdout == "after\n"


async def test_a_paused_container_gets_no_more_commands_and_is_removed(
    opened: Open, engine: OwnEngine
) -> None:
    def names() -> set[str]:
        return {str(one["Id"]) for one in engine.containers()}

    async with opened() as terminal:
        await terminal.run("true")
        (first,) = names()
        engine.ask("POST", f"/containers/{first}/pause")
        after = await terminal.run("echo after")
        (second,) = names()
        run = await terminal.start("echo begun; sleep 300")
        await until(lambda: run.output.total > 0)
        engine.ask("POST", f"/containers/{second}/pause")
        beside = await terminal.run("echo beside")
        during = names()
        with pytest.raises(KillFailed, match="see whether that is paused"):
            await run.kill("enough")
        await terminal.run("true")
        with anyio.fail_after(50):
            outcome = await run.wait()

    assert (after.stdout, beside.stdout) == ("after\n", "beside\n")
    assert first != second
    assert len(during) == 2
    assert (outcome.ok, outcome.leaked) == (False, False)  # its leash may still say how it died


async def test_an_engine_that_dies_ends_no_command_and_the_next_container_says_so(
    opened: Open, engine: OwnEngine, workspace: Path, public_path: Path
) -> None:
    begun, go = workspace / "begun", workspace / "go"
    async with opened() as terminal:
        run = await terminal.start("touch begun; until [ -e go ]; do sleep 0.1; done")
        await until(begun.exists)
        engine.stop()
        try:
            with pytest.raises(IsolationUnavailable, match="engine"):
                await terminal.run("touch canary", workspace=public_path, cwd=public_path)
            same = await terminal.run("echo same")
            go.touch()
            with anyio.fail_after(50):
                outcome = await run.wait()
        finally:
            engine.start()
        other = await terminal.run("echo other", workspace=public_path, cwd=public_path)

    assert (outcome.state, same.stdout, other.stdout) == (State.FINISHED, "same\n", "other\n")
    assert not (public_path / "canary").exists()


@pytest.mark.proves("T2-36")
async def test_what_a_dead_shelltie_left_is_removed_and_nothing_else(
    opened: Open, engine: OwnEngine, settings: dict[str, object]
) -> None:
    tag = new_tag()
    text = f"(setsid sleep 300.{tag} &) ; sleep 300.{tag}"
    environ = {
        **os.environ,
        "SHELLTIE_CONTAINER_IMAGE": IMAGE,
        "SHELLTIE_CONTAINER_ENGINE": str(settings["container_engine"]),
    }
    words = [*SHELLTIE, "run", "--isolation", "container", "--", text]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, env=environ) as started:  # noqa: ASYNC220  it blocks nobody
        await until(lambda: len(tagged(f"sleep 300.{tag}")) >= 2)
        dead = process_identity.of(started.pid)
        started.send_signal(signal.SIGKILL)
    await nobody_left(tag)
    await until(lambda: engine.containers() == [])
    alive = process_identity.of(os.getpid())
    made = {
        owner: _made(engine, owner)
        for owner in (_label(dead), _label(alive), "garbage", "[1, 2]", "")
    }
    async with opened() as terminal:
        await terminal.run("true")
    left = {str(one["Id"]) for one in engine.containers()}
    for one in left:
        engine.ask("DELETE", f"/containers/{one}?force=true")

    assert left == set(made.values()) - {made[_label(dead)]}


def _label(owner: process_identity.ProcessIdentity) -> str:
    return json.dumps([owner.pid, owner.started, owner.boot, owner.namespace])


def _made(engine: OwnEngine, owner: str) -> str:
    order = {"Image": IMAGE, "Entrypoint": ["true"], "Labels": {OWNER: owner}}
    made = engine.ask("POST", "/containers/create", json.dumps(order).encode())
    assert isinstance(made, dict)
    return str(made["Id"])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"container_image": None}, "container.image"),
        ({"container_image": "no/such:image"}, "podman pull no/such:image"),
        ({"container_image": "../x?y"}, "no name of an image"),
        ({"container_engine": "/no/such.sock"}, "install Docker or Podman"),
        ({"container_engine": "tcp://192.0.2.1:2375"}, "not on this machine"),
        ({"shell": "/bin/zsh"}, "/bin/zsh does not run"),
        ({"container_user": "stranger"}, "stranger"),
        ({"container_mounts": ("/no/such",)}, "does not exist"),
        ({"container_mounts": ("/etc",)}, "add :ro"),
        ({"container_mounts": ("/usr:/proc:ro",)}, "nothing can be put at /proc"),
        ({"container_mounts": ("a:b:c:d",)}, "SOURCE"),
        ({"sandbox_workspace": "/"}, "too wide"),
    ],
)
async def test_what_cannot_be_had_says_what_to_do_and_nothing_runs(
    opened: Open, engine: OwnEngine, workspace: Path, wrong: dict[str, object], said: str
) -> None:
    async with opened(**wrong) as terminal:
        with pytest.raises(IsolationUnavailable, match=said):
            await terminal.run("touch canary")
        left = engine.containers()

    assert not (workspace / "canary").exists()
    assert left == []


async def test_a_socket_where_no_engine_is_says_so(opened: Open, public_path: Path) -> None:
    async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\xff what?\r\n\r\n")
        writer.close()

    async with await asyncio.start_unix_server(babble, public_path / "sock"):
        async with opened(container_engine=str(public_path / "sock")) as terminal:
            with pytest.raises(IsolationUnavailable, match="no container engine answers"):
                await terminal.run("true")


@pytest.mark.proves("T2-34", "D1")
async def test_the_policy_and_auto_take_a_container(
    open_terminal: Open, settings: dict[str, object], workspace: Path
) -> None:
    async with open_terminal(**settings, isolation_profiles_run_unknown="container") as terminal:
        safe = await terminal.run("ls")
        unknown = await terminal.run("mkdir made")
        auto = await terminal.run("ls", isolation="auto")
        with pytest.raises(CommandDenied, match="demands container"):
            await terminal.run("mkdir less", provider="local")
        unasked = await terminal.supervisor.run(Command("mkdir more"), RunOptions(profile="bash"))

    assert (safe.isolation, unknown.isolation, auto.isolation) == ("none", "container", "container")
    assert any("isolation is container, by container" in one for one in auto.warnings)
    assert unasked.isolation is Isolation.CONTAINER
    assert sorted(one.name for one in workspace.iterdir()) == ["made", "more"]


async def test_a_command_cannot_choose_what_the_next_container_shows(
    opened: Open, workspace: Path
) -> None:
    repository, hooks = workspace / "r" / ".git", "h,source=srv"
    for name in ("objects", "refs"):
        (repository / name).mkdir(parents=True)
    (workspace / "r" / hooks).mkdir()
    (repository / "HEAD").write_text("ref: refs/heads/x\n")
    (repository / "config").write_text(f'[core]\n hooksPath = "{hooks}"\n')

    async with opened() as terminal:
        with pytest.raises(IsolationUnavailable, match="Rename it"):
            await terminal.run("ls r/h")


async def test_what_is_swapped_while_a_container_is_made_is_not_shown(
    opened: Open, engine: OwnEngine, workspace: Path, public_path: Path
) -> None:
    (workspace / ".vscode").mkdir()
    secret = public_path / "secret"
    secret.mkdir()

    async def swap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """An engine that takes its time, which somebody uses."""
        answers, asks = await asyncio.open_unix_connection(str(engine.address))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_copied(answers, writer))
            while data := await reader.read(65536):
                if b"/containers/create" in data:
                    (workspace / ".vscode").rename(workspace / "away")
                    (workspace / ".vscode").symlink_to(secret)
                asks.write(data)
            asks.close()

    async with await asyncio.start_unix_server(swap, public_path / "sock"):
        async with opened(container_engine=str(public_path / "sock")) as terminal:
            with pytest.raises(
                IsolationUnavailable, match="was changed while a container was made"
            ):
                await terminal.run("touch .vscode/canary; ls .vscode")

    assert list(secret.iterdir()) == []


async def _copied(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
    target.close()


_LISTENS = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int server = socket(AF_INET, SOCK_STREAM, 0), one;
    if (bind(server, (struct sockaddr *)&here, sizeof here) || listen(server, 5)) return 1;
    while ((one = accept(server, NULL, NULL)) >= 0) write(one, "from inside", 11), close(one);
}
"""


@pytest.mark.proves("D16")
async def test_what_listens_in_a_container_is_reached_at_the_loopback(
    opened: Open, workspace: Path
) -> None:
    (workspace / "listens.c").write_text(_LISTENS)
    compiler = ("cc", "-static", "-o", str(workspace / "listens"))
    subprocess.run([*compiler, str(workspace / "listens.c")], check=True)
    async with opened() as terminal:
        run = await terminal.start(["./listens"], timeout=300, silence=300)
        run.watch_ports()
        await until(lambda: bool(run.ports) or run.outcome is not None, 60)
        (port,) = run.ports or ()
        assert port.outside is not None
        host, _, number = port.outside.partition(":")
        async with await anyio.connect_tcp(host, int(number)) as stream:
            received = b"".join([chunk async for chunk in stream])
        await run.kill("enough")

    assert host == "127.0.0.1"
    assert received == b"from inside"


async def test_a_directory_that_becomes_a_link_leads_nobody_out_of_a_container(
    opened: Open, workspace: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / ".bashrc").write_text("echo mine\n")
    (workspace / "link").symlink_to(victim)
    (workspace / "evil").symlink_to(workspace / "evil.sh")
    plant = (
        "mkdir -p r/.git/objects r/.git/refs d; echo x > evil.sh; mv evil d/.bashrc;"
        " echo 'ref: refs/heads/main' > r/.git/HEAD;"
        f" printf '[include]\\n path = {workspace}/d/.bashrc\\n' > r/.git/config"
    )
    async with opened() as terminal:
        planted = await terminal.run(["sh", "-c", plant])
    async with opened() as terminal:
        await terminal.run(["sh", "-c", "mv d d2; mv link d; sleep 0.3"])

    assert planted.exit_code == 0, planted.stderr
    assert [one.name for one in victim.iterdir()] == [".bashrc"]
    assert (victim / ".bashrc").read_text() == "echo mine\n"
