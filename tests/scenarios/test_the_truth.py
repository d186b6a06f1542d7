"""Promise 5: the truth about what ran, where, under which limits, and what to try next."""

import sys
from pathlib import Path

import anyio
import pytest

from shelltie import InvalidParameters, Resources, Terminal, run_sync
from shelltie.frontends.reports.run_report import Result
from tests.conftest import Open, write_policy
from tests.tree import QUICK

SEVEN = (
    ("status", str),
    ("stdout", str),
    ("stderr", str),
    ("exitCode", int),
    ("timeoutReason", str | None),
    ("terminationMode", str | None),
    ("durationMs", int),
)


@pytest.mark.proves("T0-21", "C-29", "S0-32", "S0-35")
async def test_a_failure_is_an_error_with_its_code(terminal: Terminal) -> None:
    result = await terminal.run("exit 3")

    assert (result.status, result.exit_code) == ("error", 3)
    assert (result.timeout_reason, result.termination_mode) == (None, None)


@pytest.mark.proves("T0-22")
async def test_a_command_that_is_not_found_says_so(terminal: Terminal) -> None:
    for command in ("no-such-command-here", ["no-such-command-here"]):
        result = await terminal.run(command)

        assert (result.status, result.exit_code) == ("error", 127)
        assert "not found" in result.stderr
        assert result.timeout_reason is None


@pytest.mark.proves("T0-23")
@pytest.mark.parametrize("command", ["", "  \n\t", None, 3, [], ["ls", 3], "a\0b", "x" * 200_000])
async def test_a_command_that_is_none_starts_nothing(terminal: Terminal, command: object) -> None:
    with pytest.raises(InvalidParameters):
        await terminal.run(command)  # type: ignore[arg-type]  # that is the point

    assert not terminal.supervisor.runs


@pytest.mark.proves("T0-23", "C-3")
@pytest.mark.parametrize("limit", [-1, float("nan"), float("inf"), True, "10", [1]])
async def test_a_timeout_that_is_none_starts_nothing(
    terminal: Terminal, tmp_path: Path, limit: object
) -> None:
    for name in ("timeout", "silence"):
        with pytest.raises(InvalidParameters, match="must be a number of seconds"):
            await terminal.run(f"touch {tmp_path}/started", **{name: limit})  # type: ignore[arg-type]

    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("name", ["", "A=B", "A\0B", 3])
async def test_an_environment_that_is_none_starts_nothing(terminal: Terminal, name: object) -> None:
    with pytest.raises(InvalidParameters, match="env"):
        await terminal.run("true", env={name: "x"})  # type: ignore[dict-item]


@pytest.mark.proves("T0-24", "C-5", "C-1")
@pytest.mark.parametrize("none", [0, None])
async def test_no_timeout_leaves_it_to_the_policy(terminal: Terminal, none: float | None) -> None:
    result = await terminal.run("my-own-tool", timeout=none)

    assert (result.limits.exec_sec, result.limits.silence_sec) == (120, 30)
    assert result.limits.category == "medium"


@pytest.mark.proves("T0-25", "S0-31", "S0-33", "S0-34", "S0-48", "S0-32")
@pytest.mark.parametrize(
    ("command", "ended"),
    [
        ("true", ("success", None, None)),
        ("exit 3", ("error", None, None)),
        ("kill -9 $$", ("error", None, None)),
        ("no-such-command", ("error", None, None)),
        ("sleep 600", ("timeout", "no_output_timeout", "soft")),
        ("trap '' TERM; while :; do echo on; sleep 0.1; done", ("timeout", "exec_timeout", "hard")),
        ("sleep 600 & true", ("success", None, None)),
    ],
)
async def test_all_seven_fields_are_in_every_answer(
    open_terminal: Open, tmp_path: Path, command: str, ended: tuple[str, str | None, str | None]
) -> None:
    escalation = QUICK if "hard" in ended else None

    async with open_terminal(policy_path=write_policy(tmp_path, 9, 5)) as terminal:
        result = (await terminal.run(command, escalation=escalation)).to_json()

    assert list(result)[:7] == [name for name, _ in SEVEN]
    for name, kind in SEVEN:
        assert isinstance(result[name], kind), name
        assert not isinstance(result[name], bool), name
    assert (result["status"], result["timeoutReason"], result["terminationMode"]) == ended


async def test_a_directory_that_is_not_there_starts_nothing(
    terminal: Terminal, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")

    for cwd in (tmp_path / "missing", file):
        result = await terminal.run("pwd", cwd=cwd)

        assert (result.status, result.exit_code, result.stdout) == ("error", 126, "")
        assert str(cwd) in result.stderr


async def test_what_cannot_be_executed_says_so(terminal: Terminal, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo hi", encoding="utf-8")

    result = await terminal.run([str(script)])

    assert (result.status, result.exit_code) == ("error", 126)
    assert "cannot be executed: permission denied" in result.stderr


async def test_death_by_any_signal_is_named(terminal: Terminal) -> None:
    for number, name in ((11, "SIGSEGV"), (6, "SIGABRT"), (9, "SIGKILL"), (40, "SIGRTMIN+6")):
        result = await terminal.run(f"kill -{number} $$")

        assert (result.status, result.exit_code, result.signal) == ("error", 128 + number, name)
        assert result.hint is not None


async def test_the_result_says_what_the_command_was_given(
    terminal: Terminal, tmp_path: Path
) -> None:
    result = await terminal.run("pwd", cwd=tmp_path)

    assert result.stdout == f"{tmp_path}\n"
    assert (result.cwd, result.path_source) == (str(tmp_path), "inherited")
    assert result.shell is not None
    assert result.shell.endswith("bash")
    assert (result.provider, result.isolation) == ("local", "none")


async def test_the_environment_is_prompt_free_and_the_caller_wins(
    open_terminal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_US", "yes")
    async with open_terminal() as own:
        seen = await own.run("env", env={"TERM": "vt100", "FROM_US": None, "EXTRA": "1"})
    variables = dict(line.split("=", 1) for line in seen.stdout.splitlines() if "=" in line)

    assert (variables["TERM"], variables["EXTRA"]) == ("vt100", "1")
    assert "FROM_US" not in variables
    assert (variables["GIT_PAGER"], variables["GIT_TERMINAL_PROMPT"]) == ("cat", "0")
    assert variables["NO_COLOR"] == "1"
    assert variables["PYTHONUNBUFFERED"] == "1"
    assert variables["SHELLTIE_RUN"] == seen.run_id


async def test_the_command_sees_none_of_our_descriptors(
    terminal: Terminal, open_terminal: Open
) -> None:
    async with open_terminal():  # another keeper, more descriptors
        script = "import os; print(sorted(os.listdir('/proc/self/fd')))"
        result = await terminal.run([sys.executable, "-c", script])

    assert result.stdout == "['0', '1', '2', '3']\n"  # 3 is the directory it lists


@pytest.mark.parametrize("configured", ["login", "inherit"])
async def test_the_login_path_is_found_by_asking_the_users_shell(
    open_terminal: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    profile = "echo noise; echo more noise >&2; export PATH=/opt/of/nvm:$PATH; sleep 300 &\n"
    (tmp_path / ".bash_profile").write_text(profile, encoding="utf-8")

    async with open_terminal(environment_path=configured) as terminal:
        result = await terminal.run('echo "$PATH"')

    login = configured == "login"
    assert result.stdout.startswith("/opt/of/nvm:") is login
    assert result.path_source == ("login shell /bin/bash" if login else "inherited")


async def test_a_profile_that_hangs_does_not_hang_us(
    open_terminal: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    (tmp_path / ".bash_profile").write_text("read -p 'Password: ' x; sleep 300\n", encoding="utf-8")

    async with open_terminal(environment_path="login") as terminal:
        result = await terminal.run("echo fine")

    assert result.stdout == "fine\n"
    assert "gave no answer" in result.path_source


@pytest.mark.parametrize(
    ("resources", "command", "shows"),
    [
        (Resources(open_files=77), "ulimit -n", "77\n"),
        (Resources(core=0), "ulimit -c", "0\n"),
        (Resources(cpu_seconds=9), "ulimit -t", "9\n"),
        (Resources(address_space=512 * 1024 * 1024), "ulimit -v", "524288\n"),
        (Resources(processes=5000), "ulimit -u", "5000\n"),
    ],
)
async def test_resource_limits_hold_inside(
    terminal: Terminal, resources: Resources, command: str, shows: str
) -> None:
    result = await terminal.run(command, resources=resources)

    assert result.stdout == shows


async def test_a_busy_loop_ends_at_its_cpu_limit(terminal: Terminal) -> None:
    result = await terminal.run("while :; do :; done", resources=Resources(cpu_seconds=1))

    assert (result.status, result.signal) == ("error", "SIGKILL")


def test_a_program_without_an_event_loop_can_run_a_command() -> None:
    result = run_sync(["printf", "%s|", "a b", "$HOME", "*"])

    assert isinstance(result, Result)
    assert result.stdout == "a b|$HOME|*|"


TEACHES = {
    "echo 'Proceed? [y/N]'; sleep 60": "looks like a question",
    "sleep 60": "no work for",
    "python3 -m http.server 0 >/dev/null 2>&1": "looks like a server",
    "while :; do echo x; sleep 0.1; done": "still printing",
}


async def test_every_timeout_teaches(terminal: Terminal) -> None:
    results: dict[str, Result] = {}

    async def run(command: str) -> None:
        results[command] = await terminal.run(command, timeout=14, silence=12)

    async with anyio.create_task_group() as tasks:
        for command in TEACHES:
            tasks.start_soon(run, command)

    for command, result in results.items():
        assert result.status == "timeout", command
        assert TEACHES[command] in str(result.hint), command
