"""A shell that stays, on a real bash: each command has its own output, end and exit code."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from shelltie import Terminal
from shelltie.basics.safe_regex import compile_pattern
from shelltie.errors import CommandDenied, InvalidParameters, RunOver, SessionBusy
from shelltie.events import CommandJudged, CommandRefused, Event
from shelltie.sessions.registry import Sessions
from shelltie.sessions.shell import CommandEnd, ShellSession, Start, open_shell
from shelltie.settings.all_settings import Waiting
from shelltie.verdict import Rating
from tests.conftest import Open
from tests.tree import new_tag, nobody_left

LONG = Waiting(0.1, 0.3, 20.0)
SHORT = Waiting(0.1, 0.3, 1.0)


class Shells:
    """Opens shells in one terminal."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.sessions = Sessions(terminal.supervisor)

    async def __call__(self, first: str = "true", start: Start = Start()) -> ShellSession:  # noqa: B008
        shell = await open_shell(self.sessions, self.terminal.supervisor, "me", first, start)
        with anyio.fail_after(50):
            self.first = await shell.follow(LONG)
        return shell


@pytest.fixture
async def shells(open_terminal: Open) -> AsyncIterator[Shells]:
    async with open_terminal(
        safety_profiles_session_unknown="allow", safety_profiles_session_dangerous="allow"
    ) as terminal:
        yield Shells(terminal)


@pytest.fixture
async def shell(shells: Shells) -> ShellSession:
    return await shells()


async def run(shell: ShellSession, text: str, waiting: Waiting = LONG) -> CommandEnd:
    with anyio.fail_after(50):
        return await shell.run(text, waiting)


def lines(end: CommandEnd) -> list[str]:
    return end.output.splitlines()


def everything(shell: ShellSession) -> str:
    return shell.session.reading(0).text


@pytest.mark.proves("C-72")
async def test_each_command_has_its_own_output_and_exit_code(shells: Shells) -> None:
    shell = await shells("echo first; false")

    second = await run(shell, "echo $?; echo second >&2; (exit 42)")
    third = await run(shell, "echo $?")

    assert (lines(shells.first), shells.first.exit_code) == (["first"], 1)
    assert (lines(second), second.exit_code, second.ended) == (["1", "second"], 42, True)
    assert (lines(third), third.exit_code) == (["42"], 0)
    assert everything(shell).split() == ["first", "1", "second", "42"]


async def test_what_a_command_changes_stays(shell: ShellSession, tmp_path: Path) -> None:
    await run(shell, f"cd {tmp_path}; declare count=3; export SHOWN=yes; hello() {{ echo hi $1; }}")

    later = await run(shell, "pwd; echo $count; hello you; printenv SHOWN")

    assert lines(later) == [str(tmp_path), "3", "hi you", "yes"]
    assert later.cwd == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "code", "shown"),
    [
        ("echo 'one\ntwo'\necho \"it's\" three", 0, ["one", "two", "it's three"]),
        ("cat <<END\nhere $((1 + 1))\nEND", 0, ["here 2"]),
        ("echo done # a comment at the end", 0, ["done"]),
        ("for i in 1 2; do\n  echo $i\ndone", 0, ["1", "2"]),
        ("echo 'wow!!' !$", 0, ["wow!! !$"]),
        ("return 7", 7, []),
        ("no-such-program-here", 127, None),
        ("echo 'unbalanced", 2, None),
        ("echo )", 2, None),
        ("sh -c 'kill -9 $$'", 137, None),
    ],
)
async def test_any_text_is_one_command_with_one_end(
    shell: ShellSession, text: str, code: int, shown: list[str] | None
) -> None:
    end = await run(shell, text)
    after = await run(shell, "echo alive")

    assert (end.ended, end.exit_code) == (True, code)
    assert shown is None or lines(end) == shown
    assert lines(after) == ["alive"]


async def test_a_text_may_be_longer_than_a_line_of_a_terminal(shell: ShellSession) -> None:
    end = await run(shell, "word=" + "x" * 200_000 + "\necho ${#word}")

    assert lines(end) == ["200000"]


async def test_nothing_but_output_is_ever_shown(shell: ShellSession) -> None:
    await run(shell, "PS1='(venv) '; PS2='> '; stty echo; set -x; echo traced")
    await run(shell, "set +x; echo plain")
    end = await run(shell, 'history | wc -l; echo "[$HISTFILE]"; env | grep -c _shelltie_')

    assert lines(end) == ["0", "[]", "0"]
    for shown in (everything(shell), shell.session.run.output.read(0, 10**6).data.decode()):
        assert "5454" not in shown
        assert "(venv)" not in shown
        assert "bash-" not in shown


async def test_the_nonce_is_in_no_environment_argument_or_file(
    shell: ShellSession, tmp_path: Path
) -> None:
    end = await run(shell, 'echo "$_shelltie_nonce"; tr "\\0" "\\n" </proc/$$/cmdline | wc -l')
    nonce = lines(end)[0]

    found = await run(
        shell,
        f"cat /proc/$$/environ /proc/$$/cmdline /proc/*/cmdline > {tmp_path}/seen; "
        f"env > {tmp_path}/env; cat {tmp_path}/*",
    )

    assert len(nonce) == 32
    assert nonce not in found.output


async def test_a_forged_mark_ends_nothing(shell: ShellSession) -> None:
    forged = "\\033]5454;%s;E;%s;0;/\\a"
    text = f"for n in 1 2 3; do printf '{forged}' {'A' * 32} $n; done; echo more; (exit 9)"

    end = await run(shell, text)

    assert end.exit_code == 9
    assert lines(end)[-1].endswith("more")


async def test_a_mark_that_is_repeated_ends_no_later_command(shell: ShellSession) -> None:
    await run(shell, "true")

    end = await run(shell, "_shelltie_mark E 1; _shelltie_mark E 99; echo still here; (exit 4)")

    assert (lines(end), end.exit_code) == (["still here"], 4)


async def test_megabytes_are_one_output(shell: ShellSession) -> None:
    end = await run(shell, "head -c 3000000 /dev/zero | tr '\\0' z")
    after = await run(shell, "echo after")

    assert end.output == "z" * 3_000_000
    assert lines(after) == ["after"]


@pytest.mark.parametrize("text", ["sleep 60; echo no", "while :; do :; done", "cat; echo no"])
async def test_an_interrupt_ends_the_command_and_not_the_shell(
    shell: ShellSession, text: str
) -> None:
    asked = await run(shell, text, SHORT)

    shell.type(b"\x03")
    with anyio.fail_after(50):
        end = await shell.follow(LONG)
    after = await run(shell, "echo $? alive")

    assert not asked.ended
    assert (end.ended, end.exit_code) == (True, 130)
    assert "no" not in lines(end)
    assert lines(after) == ["130 alive"]


async def test_an_interrupt_at_any_moment_loses_no_end(shell: ShellSession) -> None:
    for pause in range(30):
        shell.begin("sleep 60")
        await anyio.sleep(pause / 10_000)
        shell.type(b"\x03")
        with anyio.fail_after(50):
            while not (await shell.follow(Waiting(0, 0, 0.2))).ended:
                shell.type(b"\x03")

    assert lines(await run(shell, "echo alive")) == ["alive"]


async def test_input_goes_to_the_command_and_is_never_run(
    shell: ShellSession, tmp_path: Path
) -> None:
    asked = await run(shell, 'read -p "Name? " name; echo "Hello $name"')

    shell.type(f"Ada\ntouch {tmp_path}/run-by-the-shell\n".encode())
    with anyio.fail_after(50):
        end = await shell.follow(LONG)
    after = await run(shell, "echo after; cat")

    assert (asked.output, asked.ended, asked.exit_code) == ("Name? ", False, None)
    assert asked.reading.sighting is not None
    assert asked.reading.sighting.waits_for_input
    assert not asked.reading.sighting.password
    assert lines(end)[-1] == "Hello Ada"
    assert after.output.startswith("after")
    assert not (tmp_path / "run-by-the-shell").exists()


async def test_a_password_is_told_apart_here_too(shell: ShellSession) -> None:
    asked = await run(shell, 'read -s -p "Password: " word; echo; echo ${#word}')
    shell.type(b"secret\n")
    with anyio.fail_after(50):
        end = await shell.follow(LONG)

    assert asked.reading.sighting is not None
    assert asked.reading.sighting.password
    assert end.output.split() == ["6"]


async def test_an_end_of_input_ends_a_reader(shell: ShellSession) -> None:
    await run(shell, "cat; echo over", SHORT)

    shell.type(b"line\n", end=True)
    with anyio.fail_after(50):
        end = await shell.follow(LONG)

    assert (lines(end)[-1], end.exit_code) == ("over", 0)


async def test_without_a_command_nobody_reads_input(shell: ShellSession) -> None:
    with pytest.raises(InvalidParameters, match="no command runs"):
        shell.type(b"echo hello\n")


async def test_a_second_command_waits_for_no_one(shell: ShellSession) -> None:
    await run(shell, "sleep 60", SHORT)

    with pytest.raises(SessionBusy, match="ctrl-c"):
        await shell.run("echo second", SHORT)


@pytest.mark.parametrize(
    ("text", "code"), [("echo bye; exit 3", 3), ("set -e; false; echo no", 1), ("exec true", 0)]
)
async def test_the_end_of_the_shell_is_the_end_of_the_session(
    shell: ShellSession, text: str, code: int
) -> None:
    end = await run(shell, text)

    assert (end.ended, end.exit_code, end.reading.complete) == (True, code, True)
    assert "no" not in lines(end)
    with pytest.raises(RunOver, match="has ended"):
        await shell.run("echo again")
    with pytest.raises(RunOver, match="has ended"):
        shell.type(b"again\n")


async def test_a_shell_that_was_replaced_has_not_ended(shells: Shells) -> None:
    tag = new_tag()
    shell = await shells()

    end = await run(shell, f"exec sleep 60.{tag}", SHORT)
    await shells.sessions.stop(shell.session.id, "me")

    assert (end.ended, end.exit_code) == (False, None)
    await nobody_left(tag)


async def test_a_shell_that_stops_itself_can_be_ended(shells: Shells) -> None:
    shell = await shells()

    end = await run(shell, "kill -STOP $$", SHORT)
    with anyio.fail_after(50):
        stopped = await shells.sessions.stop(shell.session.id, "me")

    assert not end.ended
    assert stopped.complete


async def test_what_others_hook_into_the_prompt_hides_no_end(shell: ShellSession) -> None:
    await run(shell, "alias builtin=echo; unset PROMPT_COMMAND; PROMPT_COMMAND='false'; IFS=0123")
    await run(shell, "set -u -f -C -a; unset _shelltie_nonce; unset -f _shelltie_mark")

    end = await run(shell, "echo fine; (exit 5)")

    assert (lines(end), end.exit_code) == (["fine"], 5)


async def test_where_the_shell_prints_does_not_move_the_end(
    shell: ShellSession, tmp_path: Path
) -> None:
    await run(shell, f"exec >{tmp_path}/out 2>&1")
    hidden = await run(shell, "echo hidden; (exit 6)")
    await run(shell, "exec >/dev/tty 2>&1")
    shown = await run(shell, "echo shown")

    assert (hidden.output, hidden.exit_code) == ("", 6)
    assert (tmp_path / "out").read_text(encoding="utf-8") == "hidden\n"
    assert lines(shown) == ["shown"]


async def test_a_job_in_the_background_holds_nobody_up(shell: ShellSession, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = f"(until [ -e {go} ]; do sleep 0.05; done; echo late)"
    begun = await run(shell, f"{job} & echo started")
    go.touch()
    waited = await shell.follow(LONG, compile_pattern("late"))
    jobs = await run(shell, "wait; jobs; echo none")

    assert (begun.ended, lines(begun)[-1]) == (True, "started")
    assert waited.reading.found
    assert lines(jobs)[-1] == "none"


async def test_output_between_commands_is_told_and_can_be_read(
    shell: ShellSession, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    await run(shell, f"set +m; (until [ -e {go} ]; do sleep 0.05; done; echo between) &")
    go.touch()
    with anyio.fail_after(50):
        while "between" not in everything(shell):
            await anyio.sleep(0.02)

    end = await run(shell, "echo own")

    assert lines(end) == ["own"]
    assert end.earlier > 0
    unread = shell.session.reading(end.earlier_from, end.earlier_from + end.earlier)
    assert "between" in unread.text


async def test_a_text_lies_nowhere_when_its_command_has_ended(shell: ShellSession) -> None:
    end = await run(shell, 'ls -ld "$BASH_SOURCE"; ls -ld "${BASH_SOURCE%/*}"; echo "$BASH_SOURCE"')
    file, directory, path = lines(end)

    assert file.startswith("-rw-------")
    assert directory.startswith("drwx------")
    assert not Path(path).exists()
    shell.session.run.stop("test")
    with anyio.fail_after(50):
        await shell.session.run.wait()
    assert not Path(path).parent.exists()


async def test_a_shell_that_cannot_start_says_why(shells: Shells, tmp_path: Path) -> None:
    shell = await shells("true", Start(cwd=str(tmp_path / "missing")))

    assert shells.first.reading.complete
    assert shell.session.run.outcome is not None
    assert "missing" in (shell.session.run.outcome.error or "")


async def test_nothing_is_called_safe_in_a_living_shell(open_terminal: Open) -> None:
    events: list[Event] = []
    async with open_terminal(events.append, safety_profiles_session_unknown="deny") as terminal:
        shells = Shells(terminal)
        with pytest.raises(CommandDenied, match="alias"):
            await shells("ls")

        assert shells.sessions.owned_by("me") == []
    judged = [event for event in events if isinstance(event, CommandJudged)]
    assert [one.verdict.rating for one in judged] == [Rating.UNKNOWN]
    assert any(isinstance(event, CommandRefused) for event in events)


async def test_every_command_is_judged_before_it_is_run(
    open_terminal: Open, tmp_path: Path
) -> None:
    settings = {
        "safety_profiles_session_unknown": "allow",
        "safety_profiles_session_dangerous": "deny",
    }
    async with open_terminal(**settings) as terminal:
        shell = await Shells(terminal)(f"cd {tmp_path}; touch kept")

        with pytest.raises(CommandDenied):
            await shell.run("sudo true")
        after = await run(shell, "ls kept")

    assert lines(after) == ["kept"]


@pytest.mark.parametrize("text", ["", " \n", "a\0b", "x" * 2_000_000])
async def test_what_is_no_text_of_a_command_is_refused(shell: ShellSession, text: str) -> None:
    with pytest.raises(InvalidParameters):
        await shell.run(text)
    assert lines(await run(shell, "echo fine")) == ["fine"]
