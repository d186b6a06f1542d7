"""A command gets no secret of ours: not in its environment, and not by looking into us."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shelltie import InvalidParameters, Terminal
from tests.conftest import Open
from tests.tree import new_tag

ROOT = Path(__file__).resolve().parents[2]
IS_ROOT = os.geteuid() == 0
AS_NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")

NAME = f"CANARY_{new_tag()}_TOKEN"  # somebody else may run these tests just now
# Says who has the secret in its environment, by pid, in every way that needs no debugger; and
# whether the descriptors of its leash can be seen. Its own text does not match the pattern.
LOOK = r"""
for place in /proc/[0-9]*; do
  if tr '\0' '\n' < $place/environ | grep -q '@NAME@'; then echo ${place#/proc/}; fi
done 2>/dev/null
pid=$PPID
while [ "$pid" -gt 0 ]; do
  if grep -qa '@NAME@' /proc/$pid/environ; then echo $pid; fi
  pid=$(sed 's/.*) . //; s/ .*//' /proc/$pid/stat)
done 2>/dev/null
ps eww -e -o pid,command 2>/dev/null | awk '/@NAME@/ { print $1 }'
ls /proc/$PPID/fd >/dev/null 2>&1 && echo leash is open
exit 0
""".replace("@NAME@", f"{NAME[:-1]}[N]")
SERVER = """
import os, sys
import anyio
from shelltie.keeper.link import Link
from shelltie.keeper.binaries import choose
from shelltie.keeper.hardening import hide_this_process
from tests.leashes import output_of

async def main():
    link = Link(*choose(sys.argv[1]))
    print(os.getpid())
    print((await output_of(link, "sh", "-c", sys.argv[3])).decode())
    await link.close()

if sys.argv[2] == "hidden":
    assert hide_this_process()
anyio.run(main)
"""


def seen_by_a_command(keeper: str, how: str, *become: str) -> tuple[str, set[str]]:
    """The pid of a server with a secret, and what a command of its finds."""
    python_path = os.pathsep.join([str(ROOT), str(ROOT / "src"), *sys.path])
    done = subprocess.run(
        [*become, sys.executable, "-c", SERVER, keeper, how, LOOK],
        env={**os.environ, NAME: "s3cret", "PYTHONPATH": python_path},
        cwd="/",
        capture_output=True,
        timeout=50,
        check=True,
    )
    pid, *found = done.stdout.decode().splitlines()
    return pid, {line for line in found if line}


@pytest.fixture(params=["c", "python"])
def any_keeper(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.needs("setpriv", "ps")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can hide a process")
@pytest.mark.skipif(not IS_ROOT, reason="needs root, to be somebody else")
def test_nobody_finds_our_secrets_in_any_process() -> None:
    _, found = seen_by_a_command("c", "hidden", *AS_NOBODY)

    assert found == set()


@pytest.mark.needs("setpriv", "ps")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can hide a process")
@pytest.mark.skipif(not IS_ROOT, reason="needs root, to be somebody else")
def test_a_server_that_does_not_hide_is_an_open_book_but_keeper_and_leash_are_not() -> None:
    server, found = seen_by_a_command("c", "open", *AS_NOBODY)

    assert found == {server}


@pytest.mark.needs("ps")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can hide a process")
@pytest.mark.skipif(IS_ROOT, reason="nothing is hidden from root")
def test_no_process_of_the_same_user_finds_our_secrets(any_keeper: str) -> None:
    _, found = seen_by_a_command(any_keeper, "hidden")

    assert found == set()


@pytest.mark.needs("ps")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can hide a process")
@pytest.mark.skipif(not IS_ROOT, reason="needs root")
def test_root_sees_the_server_but_keeper_and_leash_have_nothing(any_keeper: str) -> None:
    server, found = seen_by_a_command(any_keeper, "hidden")

    assert found == {server, "leash is open"}


@pytest.mark.proves("T4-5", "C-68", "S4-19")
async def test_a_command_prints_no_secret_of_ours_or_of_the_call(
    open_terminal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "DATABASE_PASSWORD", "DATABASE_URL"]
    names += ["DB_PASSWORD", "API_KEY", "Api_Key", "AUTH_TOKEN", "GITHUB_TOKEN", "SECRET_KEY"]
    ours, theirs = names[::2], names[1::2]
    for name in ours:
        monkeypatch.setenv(name, "of the server")
    for name in ("NODE_ENV", "KEYBOARD_LAYOUT"):
        monkeypatch.setenv(name, "ours")

    async with open_terminal() as terminal:
        given = dict.fromkeys(theirs, "of the call")
        result = await terminal.run("env", env={**given, "CI": "1", "AUTHOR": "me"})

    variables = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
    assert not variables.keys() & set(names)
    assert "of the server" not in result.stdout
    assert "of the call" not in result.stdout
    assert (variables["NODE_ENV"], variables["KEYBOARD_LAYOUT"]) == ("ours", "ours")
    assert (variables["CI"], variables["AUTHOR"]) == ("1", "me")


@pytest.mark.proves("T4-5", "C-68")
@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD"])
async def test_a_call_that_sets_a_loader_starts_nothing(
    terminal: Terminal, tmp_path: Path, name: str
) -> None:
    with pytest.raises(InvalidParameters, match=name):
        await terminal.run(f"touch {tmp_path}/started", env={name: "/tmp"})

    assert not (tmp_path / "started").exists()


async def test_nothing_of_the_shell_that_started_us_rewrites_a_command(
    open_terminal: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rc").write_text("echo() { printf 'rewritten '; }\n", encoding="utf-8")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "rc"))
    monkeypatch.setenv("BASH_FUNC_date%%", "() { printf 'rewritten '; }")
    monkeypatch.setenv("CDPATH", "/")

    async with open_terminal() as terminal:
        result = await terminal.run("echo as judged; type -t date", cwd=tmp_path)

    assert result.stdout == "as judged\nfile\n"
