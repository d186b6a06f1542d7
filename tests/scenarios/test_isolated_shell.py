"""A shell that stays, in a sandbox: as one outside, but for what it can reach."""

from pathlib import Path

import anyio
import pytest

from shelltie import Terminal
from shelltie.errors import CommandDenied, InvalidParameters, IsolationUnavailable
from shelltie.sessions.registry import Sessions
from shelltie.sessions.shell import CommandEnd, ShellSession, Start, open_shell
from shelltie.sessions.shell_pipe import PASSED_TEXT_MAX
from shelltie.settings.all_settings import Waiting
from tests.conftest import Open
from tests.sandboxes import become_nobody, forbid_namespaces

pytestmark = pytest.mark.needs("bwrap")

LONG = Waiting(0.1, 0.3, 50.0)
ISOLATED = Start(isolation="sandbox")
ANYTHING = {"safety_profiles_session_dangerous": "allow"}


pytestmark = pytest.mark.usefixtures("workspace")


async def opened(terminal: Terminal, first: str, start: Start = ISOLATED) -> ShellSession:
    sessions = Sessions(terminal.supervisor)
    return await open_shell(sessions, terminal.supervisor, "me", first, start)


async def told(shell: ShellSession) -> CommandEnd:
    with anyio.fail_after(50):
        return await shell.follow(LONG)


def said(end: CommandEnd) -> str:
    return end.output.replace("\r\n", "\n")  # it is on a terminal


async def run(shell: ShellSession, text: str) -> CommandEnd:
    with anyio.fail_after(50):
        return await shell.run(text, LONG)


@pytest.mark.parametrize("user", ["root", "nobody"])
async def test_it_is_like_one_outside(
    open_terminal: Open,
    workspace: Path,
    public_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: str,
) -> None:
    if user == "nobody":
        become_nobody(public_path, monkeypatch)
    (workspace / "sub").mkdir()
    (workspace / "sub").chmod(0o777)
    async with open_terminal(**ANYTHING) as terminal:
        shell = await opened(terminal, "echo first; (exit 7)")
        first = await told(shell)
        kept = await run(
            shell, 'echo $?; cd sub; declare n=3; export SHOWN=yes; f() { echo "$1"; }'
        )
        later = await run(shell, "pwd; echo $n $(printenv SHOWN); f 'a  *'")
        lines = await run(
            shell, 'cat <<E\nit\'s "here" $n\nE\nfor i in 1 2\ndo echo ü$i\ndone; false'
        )
        shell.begin("read -r line; echo got $line")
        while not (reading := await told(shell)).ended:
            shell.type(b"typed\n")
        wrong = await run(shell, "nosuchprogram; echo $?\nif")
        traced = await run(shell, "set -x; true; set +x; set -e; set +e")
        inside = await run(
            shell, "echo x > /etc/never; ls -A ~; hostname; test -e /run/shelltie; echo $?"
        )
        number = await run(shell, "exec {fd}<<<kept; echo $fd")
        after = await run(shell, "cat <&$fd; echo written > file")

    assert (said(first), first.exit_code) == ("first\n", 7)
    assert (said(kept), kept.cwd, kept.exit_code) == ("7\n", str(workspace / "sub"), 0)
    assert said(later).splitlines()[:3] == [str(workspace / "sub"), "3 yes", "a  *"]
    assert (said(lines), lines.exit_code) == ('it\'s "here" 3\nü1\nü2\n', 1)
    assert "got typed" in said(reading)
    assert "127" in said(wrong).split()
    assert "syntax error" in said(wrong)
    assert shell.session.run.isolation == "sandbox"
    assert "Read-only file system" in said(inside)
    assert said(inside).split()[-2:] == ["sandbox", "1"]
    assert int(said(number)) < 100
    assert said(after) == "kept\n"
    assert (workspace / "sub" / "file").read_text() == "written\n"
    everything = shell.session.reading(0).text.replace("\r\n", "\n")
    assert "_shelltie" not in everything.replace(said(traced), "")
    assert "5454" not in everything


async def test_an_interrupt_ends_the_command_and_nothing_of_its_text_is_run(
    open_terminal: Open, workspace: Path
) -> None:
    async with open_terminal(**ANYTHING) as terminal:
        shell = await opened(terminal, "true")
        await told(shell)
        for _ in range(5):
            shell.begin("echo begun; sleep 300; 'touch interrupted'; touch interrupted")
            shell.type(b"\x03")  # at any moment, also before it was read
            ended = False
            while not ended:  # the first may have come too early, and be lost
                with anyio.move_on_after(1):
                    ended = (await told(shell)).ended
                if not ended:
                    shell.type(b"\x03")
        after = await run(shell, "echo alive")

    assert said(after) == "alive\n"
    assert list(workspace.iterdir()) == []


async def test_the_policy_decides_where_it_runs(
    open_terminal: Open, workspace: Path, public_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demands = {"isolation_profiles_session_unknown": "sandbox"}
    async with open_terminal(**demands) as terminal:
        shell = await opened(terminal, "hostname", Start())
        where = said(await told(shell))
        with pytest.raises(CommandDenied):  # dangerous: nobody can be asked
            await shell.run("rm -rf /srv/x", LONG)
    strict = {"isolation_profiles_session_dangerous": "container", **ANYTHING}
    async with open_terminal(**strict) as terminal:
        shell = await opened(terminal, "true")
        await told(shell)
        with pytest.raises((CommandDenied, IsolationUnavailable), match="container"):
            await shell.run("rm -rf /srv/x", LONG)
        with pytest.raises(InvalidParameters, match="longer than"):
            await shell.run("x" * (PASSED_TEXT_MAX + 1), LONG)
        longest = await run(shell, "echo done #" + "x" * (PASSED_TEXT_MAX - 20))
    forbid_namespaces(public_path, monkeypatch)
    async with open_terminal() as terminal:
        with pytest.raises(IsolationUnavailable):
            await opened(terminal, "touch never")

    assert where == "sandbox\n"
    assert said(longest) == "done\n"
    assert not (workspace / "never").exists()
