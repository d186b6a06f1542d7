"""A sandboxed command works in its workspace, and gets no further than that."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import psutil
import pytest

from shelltie import Resources, Result, State, Terminal
from shelltie.providers.bubblewrap import mounts
from tests.cli import SHELLTIE
from tests.conftest import Open
from tests.programs import BOMB, DEEDS, evil
from tests.sandboxes import become_nobody
from tests.tree import new_tag, nobody_left, own_children, tagged, until

pytestmark = pytest.mark.needs("bwrap", "setpriv", "unshare")

_SECRETS = (
    *(".ssh/id_ed25519", ".aws/credentials", ".kube/config", ".docker/config.json"),
    *(".gnupg/private-keys-v1.d/key", ".npmrc", ".netrc", ".pypirc", ".git-credentials"),
    *(
        ".config/gh/hosts.yml",
        ".config/google-chrome/Default/Cookies",
        ".mozilla/firefox/x/key4.db",
    ),
    *(".claude/.credentials.json", ".codex/auth.json", ".config/shelltie/config.toml"),
    *(".cargo/credentials.toml", "notes.txt"),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home full of secrets."""
    for name in _SECRETS:
        file = tmp_path / "home" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("secret\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def workspace(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project in which shelltie was started; anybody may enter it."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name).resolve()
        assert home not in path.parents
        path.chmod(0o755)
        monkeypatch.chdir(path)
        yield path


@pytest.fixture
def opened(open_terminal: Open, workspace: Path) -> Open:
    """A terminal that lets everything run, in a sandbox."""
    assert Path.cwd() == workspace

    def with_settings(**settings: object) -> AbstractAsyncContextManager[Terminal]:
        everything = {
            "safety_profiles_run_dangerous": "allow",
            "isolation_profiles_run_dangerous": "sandbox",
            "isolation_profiles_run_unknown": "sandbox",
            "isolation_profiles_run_safe": "sandbox",
            "sandbox_readable": (sys.base_prefix,),
            "limits_grace": 0.5,
        }
        return open_terminal(**{**everything, **settings})

    return with_settings


def python(text: str) -> list[str]:
    """A program in the language that is certainly there."""
    return [os.path.realpath(sys.executable), "-I", "-S", "-c", text]


def failed(result: Result) -> bool:
    assert (result.provider, result.isolation) == ("bubblewrap", "sandbox")
    return result.exit_code != 0


@pytest.mark.proves("T2-35", "S2-7", "S2-33")
async def test_it_writes_in_its_workspace_and_in_a_tmp_of_its_own_and_nowhere_else(
    opened: Open, workspace: Path, home: Path, public_path: Path
) -> None:
    outside = public_path / "outside"
    async with opened() as terminal:
        inside = await terminal.run("echo kept > file && mkdir sub && echo x > sub/y")
        tried = [
            await terminal.run(f"echo x > {place}")
            for place in (home / "x", home / ".bashrc", "/etc/shelltie-x", "/usr/x", "/x", outside)
        ]
        private = await terminal.run("echo mine > /tmp/shelltie-private && ls -A /tmp")
        again = await terminal.run("cat /tmp/shelltie-private")

    assert inside.status == "success"
    assert (workspace / "file").read_text() == "kept\n"
    assert all(map(failed, tried))
    assert not any(Path(place).exists() for place in (home / "x", "/etc/shelltie-x", outside))
    assert "write" in tried[0].blocked
    assert "sandbox.writable" in str(tried[0].hint)
    assert public_path.name not in private.stdout.split()
    assert again.stdout == "mine\n"
    assert not Path("/tmp/shelltie-private").exists()


@pytest.mark.parametrize("user", ["root", "nobody"])
async def test_no_secret_of_the_home_is_there(
    opened: Open, home: Path, user: str, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if user == "nobody":
        become_nobody(public_path, monkeypatch)
    places = " ".join(str(home / name) for name in _SECRETS)
    async with opened(sandbox_readable=()) as terminal:
        found = await terminal.run(f"for f in {places}; do [ -e $f ] && cat $f; done; ls -A ~")

    assert "secret" not in found.stdout
    assert not {"notes.txt", ".ssh", ".aws", ".claude"} & {*found.stdout.split()}


async def test_the_secrets_of_the_system_and_the_kernels_switches_are_out_of_reach(
    opened: Open,
) -> None:
    async with opened() as terminal:
        shadow = await terminal.run("cat /etc/shadow")
        # Opened for writing, but nothing is written: it is the real kernel's, if we are wrong.
        switches = [
            await terminal.run(f": >> {place}")
            for place in (
                "/proc/sys/kernel/core_pattern",
                "/proc/sysrq-trigger",
                "/proc/sys/vm/swappiness",
            )
        ]
        rights = await terminal.run("grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status")
        nested = await terminal.run("unshare --user --map-root-user true")

    assert failed(shadow)
    assert all(map(failed, switches))
    assert rights.stdout.split()[1::2] == ["0000000000000000", "0000000000000000", "1"]
    assert failed(nested)


_CONNECT = "import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
_OWN = (
    "import socket; s = socket.create_server(('127.0.0.1', 0));"
    "socket.create_connection(s.getsockname(), 5); print('reached')"
)


async def test_what_waits_for_a_network_is_told_that_there_is_none(opened: Open) -> None:
    async with opened() as terminal:
        stalls = "npm() { sleep 600; }; npm install left-pad"
        result = await terminal.run(stalls, isolation="sandbox", silence=1)
        retries = await terminal.run("echo $npm_config_fetch_retries", isolation="sandbox")
    async with opened(sandbox_network="on") as terminal:
        usual = await terminal.run("echo $npm_config_fetch_retries", isolation="sandbox")

    assert (result.timeout_reason, result.blocked) == ("no_output_timeout", ("network",))
    assert "there is no network there" in str(result.hint)
    assert (retries.stdout, usual.stdout) == ("0\n", "\n")


@pytest.mark.parametrize("network", ["off", "loopback", "on"])
async def test_the_network_is_what_the_policy_says(opened: Open, network: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as host:
        async with opened(sandbox_network=network) as terminal:
            to_host = await terminal.run(python(_CONNECT.format(port=host.getsockname()[1])))
            to_itself = await terminal.run(python(_OWN))
            if network != "on":  # else nobody answers, for minutes
                out = await terminal.run(
                    python("import socket; socket.socket().connect(('192.0.2.1', 9))")
                )
                assert failed(out)
                assert network == "off" or out.blocked == ("network",)
                assert network == "off" or "no network" in str(out.hint)

    assert (to_host.status == "success") == (network == "on")
    assert (to_itself.stdout == "reached\n") == (network != "off")


async def test_our_processes_can_neither_be_signalled_nor_traced(opened: Open) -> None:
    attach = "import ctypes; raise SystemExit(ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0)"
    victim = subprocess.Popen(["sleep", "300"])  # noqa: ASYNC220  it blocks nobody
    try:
        async with opened() as terminal:
            seen = await terminal.run(f"ls -d /proc/{victim.pid} /proc/{os.getpid()}")
            await terminal.run(f"kill -KILL {victim.pid} {os.getpid()}")
            await terminal.run("kill -KILL 1; kill -TERM 1; kill -KILL -1")
            traced = await terminal.run(python(attach.replace("== 0", "!= -1")))
            memory = await terminal.run("cat /proc/1/environ /proc/1/maps /proc/$PPID/environ")
            after = await terminal.run("echo alive")

        assert not [word for word in seen.stdout.split() if word.endswith(str(os.getpid()))]
        assert victim.poll() is None
        assert traced.exit_code == 0
        assert memory.stdout == ""
        assert after.stdout == "alive\n"
    finally:
        victim.kill()
        victim.wait(10)


async def test_our_socket_cannot_be_reached_even_from_where_it_would_be_seen(
    opened: Open, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(workspace))
    place = workspace / "shelltie"
    place.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as ours:
        ours.bind(str(place / "1.sock"))
        ours.listen()
        connect = f"import socket; socket.socket(socket.AF_UNIX).connect('{place}/1.sock')"
        async with opened() as terminal:
            found = await terminal.run(f"ls -A {place}; rm -rf {place}; mv {place} other")
            reached = await terminal.run(python(connect))

    assert found.stdout == ""
    assert failed(reached)
    assert (place / "1.sock").exists()


async def test_what_git_and_agents_obey_cannot_be_changed(opened: Open, workspace: Path) -> None:
    git = ["git", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q"], check=True)
    (workspace / ".mcp.json").write_text("{}")
    (workspace / ".claude").mkdir()
    tries = (
        "echo evil > .git/hooks/pre-commit",
        "git config core.hooksPath /tmp",
        "mv .git old && cp -r old .git",
        "rm -rf .git/hooks && mkdir .git/hooks",
        "echo evil > .mcp.json",
        "mv .claude other",
        "echo '{}' > .claude/settings.json",
    )
    async with opened(sandbox_writes="live") as terminal:
        results = [await terminal.run(text) for text in tries]
        commit = await terminal.run(
            "echo 1 > a && git add a && git -c user.name=x -c user.email=x@y commit -qm one"
        )

    assert all(map(failed, results))
    assert (workspace / ".mcp.json").read_text() == "{}"
    assert not (workspace / "old").exists()
    assert commit.status == "success", commit.stderr


async def test_a_linked_work_tree_can_commit(
    opened: Open, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, tree = workspace / "repository", workspace / "tree"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C"]
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    subprocess.run([*git, str(repository), "commit", "-q", "--allow-empty", "-m", "0"], check=True)
    subprocess.run([*git, str(repository), "worktree", "add", "-q", str(tree)], check=True)
    monkeypatch.chdir(tree)
    async with opened() as terminal:
        commit = await terminal.run(
            "echo 1 > a && git add a && git -c user.name=x -c user.email=x@y commit -qm one"
        )
        hook = await terminal.run(f"echo evil > {repository}/.git/hooks/pre-commit")
        away = await terminal.run(f"echo x > {repository}/file")

    assert commit.status == "success", commit.stderr
    assert failed(hook)
    assert away.isolation == "sandbox"
    assert not (repository / "file").exists()


async def test_a_bomb_meets_the_limit_of_processes(
    opened: Open, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become_nobody(public_path, monkeypatch)
    async with opened(sandbox_readable=()) as terminal:
        result = await terminal.run(BOMB, resources=Resources(processes=20))

    assert "all" not in result.stdout
    assert "fork" in result.stderr
    assert not result.leaked


async def test_without_a_limit_of_the_call_the_sandbox_has_one(
    opened: Open, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become_nobody(public_path, monkeypatch)
    async with opened(sandbox_readable=(), sandbox_processes=20) as terminal:
        result = await terminal.run(BOMB)

    assert "all" not in result.stdout
    assert "fork" in result.stderr


async def test_the_input_of_a_command_is_no_room_to_write(opened: Open) -> None:
    async with opened() as terminal:
        tried = await terminal.run(
            ["sh", "-c", "echo more >&0; echo more >> /dev/stdin; cat"], stdin="given"
        )

    assert tried.stdout == "given"
    assert tried.stderr.count("error") == 2


async def test_what_is_written_to_tmp_has_an_end(opened: Open) -> None:
    async with opened(sandbox_tmp_size=8 * 1024 * 1024) as terminal:
        result = await terminal.run("head -c 9000000 /dev/zero > /tmp/big")

    assert failed(result)
    assert "No space left" in result.stderr


@pytest.mark.proves("T2-35")
async def test_what_this_system_lacks_is_not_missed_inside(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "_SYSTEM", (*mounts._SYSTEM, "/lib64-of-another"))

    async with opened() as terminal:
        result = await terminal.run("ls -d /usr /lib64-of-another")

    assert result.stdout == "/usr\n"
    assert "No such file" in result.stderr
    assert failed(result)


@pytest.mark.xdist_group("hundreds of processes")
@pytest.mark.proves("T2-35")
async def test_nobody_hostile_survives_the_timeout(
    opened: Open, workspace: Path, keeper: str
) -> None:
    tags = {deed: new_tag() for deed in DEEDS}
    busy = {"churn", "movers"}  # they leave others no time
    ends: dict[str, tuple[str, bool, bool]] = {}
    program = workspace / "evil"
    program.write_bytes(Path(evil()).read_bytes())
    program.chmod(0o755)

    async def one(terminal: Terminal, deed: str) -> None:
        result = await terminal.run([str(program), deed, "30", tags[deed]], timeout=1)
        ends[deed] = result.status, result.leaked, bool(tagged(tags[deed]))

    async with opened(keeper=keeper) as terminal:
        async with anyio.create_task_group() as tasks:
            for deed in set(DEEDS) - busy:
                tasks.start_soon(one, terminal, deed)
        for deed in busy:
            await one(terminal, deed)
        next_one = await terminal.run("echo fine")

    clean = [(status, False, False) for status in ("timeout", "success", "error")]
    assert {deed: end for deed, end in ends.items() if end not in clean} == {}
    assert next_one.stdout == "fine\n"


@pytest.mark.proves("T2-35")
@pytest.mark.usefixtures("workspace")
def test_the_sandbox_ends_with_its_parent() -> None:
    tag = new_tag()
    words = ["run", "--isolation", "sandbox", "--", f"(setsid sleep 300.{tag} &) ; sleep 300.{tag}"]
    with subprocess.Popen([*SHELLTIE, *words], stderr=subprocess.DEVNULL) as shelltie:
        anyio.run(until, lambda: len(tagged(f"300.{tag}")) >= 3, 20)

        shelltie.send_signal(signal.SIGKILL)

    anyio.run(nobody_left, tag, 20)


def sandboxes() -> list[psutil.Process]:
    """The sandboxes below us; one that is just ending is none."""
    found = []
    for one in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.name() == "bwrap" and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


async def test_one_sandbox_serves_many_commands_and_ends_when_idle(opened: Open) -> None:
    async with opened(sandbox_idle=6) as terminal:
        await terminal.run("true")
        first = sandboxes()
        await terminal.run("true")
        second = sandboxes()
        await until(lambda: not sandboxes())
        again = await terminal.run("echo again")

    assert len(first) == 1
    assert first == second
    assert again.stdout == "again\n"
    assert sandboxes() == []


async def test_a_sandbox_that_is_shot_takes_its_commands_along_and_the_next_gets_another(
    opened: Open,
) -> None:
    tag = new_tag()
    async with opened() as terminal:
        run = await terminal.start(f"setsid sleep 300.{tag} & sleep 300.{tag}")
        await until(lambda: len(tagged(f"sleep 300.{tag}")) >= 2)
        sandboxes()[0].kill()
        with anyio.fail_after(50):
            outcome = await run.wait()
        await nobody_left(tag)
        after = await terminal.run("echo after")

    assert (outcome.state, outcome.leaked) == (State.KILLED, False)
    assert after.stdout == "after\n"


async def test_a_sandbox_whose_keeper_was_stopped_from_outside_goes_on(opened: Open) -> None:
    async with opened(sandbox_writes="live") as terminal:
        await terminal.run("true")
        (bwrap,) = own_children()
        (keeper,) = bwrap.children()
        bwrap.suspend()
        keeper.suspend()
        await until(lambda: keeper.status() == bwrap.status() == psutil.STATUS_STOPPED)

        after = await terminal.run("echo after", timeout=30)

    assert (after.status, after.stdout) == ("success", "after\n")
    assert any("keeper had been stopped" in warning for warning in after.warnings)


async def test_a_run_in_a_sandbox_is_known_by_the_pids_of_this_side(opened: Open) -> None:
    tag = new_tag()
    async with opened() as terminal:
        run = await terminal.start(f"exec sleep 300.{tag}")
        await until(lambda: run.pid is not None and bool(tagged(f"300.{tag}")))
        seen = run.look()
        pids = [process.pid for process in tagged(f"300.{tag}")]
        await run.kill("enough")

    assert run.pid in pids
    assert seen is not None
    assert seen.processes == 1


_KEYRING = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
numbers = {"x86_64": 250, "aarch64": 219}
answer = libc.syscall(numbers[os.uname().machine], 0, -3, 0)  # the id of the session's keyring
print(answer >= 0, ctypes.get_errno())
"""
_FOREIGN = """
import socket
for family in (40, 38, 17):  # of a hypervisor, of the kernel's ciphers, of raw packets
    try:
        socket.socket(family, socket.SOCK_STREAM if family == 40 else socket.SOCK_RAW).close()
        print("made")
    except OSError as error:
        print(error.errno)
"""


async def test_the_keyrings_of_the_user_are_not_there(opened: Open) -> None:
    async with opened() as terminal:
        asked = await terminal.run(python(_KEYRING))

    assert asked.stdout == f"False {errno.ENOSYS}\n"


@pytest.mark.parametrize("network", ["loopback", "on"])
async def test_no_socket_leads_past_its_network(opened: Open, network: str) -> None:
    async with opened(sandbox_network=network) as terminal:
        tried = await terminal.run(python(_FOREIGN))

    assert tried.stdout.split() == [str(errno.EAFNOSUPPORT)] * 3
