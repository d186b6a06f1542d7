"""The other commands: what DESIGN 6 promises to scripts and people, with real processes."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from shelltie.frontends.cli import checkup
from shelltie.frontends.cli.main import main
from shelltie.settings.layers import load
from tests.cli import SHELLTIE, carriers, on_terminal, shelltie, start, text_of

SEED = Path(__file__).parents[1] / "corpus" / "terminal_timeout_policy.json"


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


# Wrong usage and wrong settings


@pytest.mark.proves("T0-23")
@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("run", "missing command"),
        ("run --total ten -- ls", "write 90s, 10m, 1h, 250ms"),
        ("run --total -1 -- ls", "--total"),
        ("run --total nan -- ls", "not a duration"),
        ("run --silence 5x -- ls", "not a duration"),
        ("run --silence 1e9 -- ls", "not a duration"),
        ("run --grace inf -- ls", "not a duration"),
        (f"run --total {'9' * 400} -- ls", "not a duration"),
        ("run --total", "expected one argument"),
        ("run --env NOVALUE -- ls", "write NAME=value"),
        ("run --env =x -- ls", "write NAME=value"),
        ("run --stdin /no/such/file -- cat", "cannot be read"),
        ("run --provider moon -- ls", "there are local, bubblewrap"),
        ("run --color aut -- ls", "did you mean 'auto'?"),
        ("run --color sometimes -- ls", "unknown --color"),
        ("run --jsn -- ls", "did you mean '--json'?"),
        ("check", "command is empty"),
        ("check --jsonl ls", "from stdin"),
        ("check --json --jsonl", "not allowed with"),
        ("policy", "required: ACTION"),
        ("policy shwo", "did you mean 'show'?"),
        ("policy init extra", "unknown argument 'extra'"),
        ("paths --jason", "did you mean '--json'?"),
        ("doctor -- x", "unknown option '--'"),
        ("completion tcsh", "use bash, zsh, fish"),
        ("pollicy", "did you mean 'policy'?"),
        ("acp", "name the agent"),
        ("--verson", "did you mean '--version'?"),
    ],
)
def test_wrong_usage_is_explained(args: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(args.split())

    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert said in shown.err
    assert "Traceback" not in shown.err


@pytest.mark.parametrize("args", [("run", "--", "echo x"), ("check", "ls"), ("mcp",), ()])
def test_a_wrong_setting_is_named_in_one_line(args: tuple[str, ...]) -> None:
    Path(".shelltie.toml").write_text("[limits]\ngrase = 3\n", encoding="utf-8")

    done = shelltie(*args)

    assert done.returncode == 125
    assert done.stdout == b""
    assert done.stderr.count(b"\n") == 1
    assert b"did you mean limits.grace?" in done.stderr


def test_every_help_fits_a_narrow_terminal() -> None:
    commands = ["", "run", "check", "policy", "policy init", "policy show", "doctor", "completion"]
    for command in commands:
        shown = text_of(*command.split(), "--help")
        assert shown.startswith("usage: shelltie")
        assert max(map(len, shown.splitlines())) <= 80, command
    assert text_of("--version").startswith("shelltie")


# Starting without a command


def test_a_person_is_welcomed() -> None:
    code, shown = on_terminal()

    assert code == 0
    assert len(shown.splitlines()) <= 15
    assert all(f"shelltie {word}" in shown for word in ("demo", "run", "doctor"))


def test_a_server_at_a_terminal_says_what_it_waits_for() -> None:
    master, slave = pty.openpty()
    with subprocess.Popen([*SHELLTIE, "mcp"], stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        shown = b""
        while b"\n" not in shown:
            shown += os.read(master, 4096)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    os.close(master)

    assert "waiting for an MCP client on stdin; ctrl-c ends it" in shown.decode()


@pytest.mark.parametrize("args", [(), ("mcp",)])
def test_a_program_is_served(args: tuple[str, ...]) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    with start(*args) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(hello).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.wait(40) == 0

    assert answer["result"]["serverInfo"]["name"] == "shelltie"


def test_a_run_does_not_import_mcp() -> None:
    script = (
        "import sys; from shelltie.frontends.cli.main import main;"
        "code = main(['run', '--', 'true']); print(code, 'mcp' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=40, check=False
    )

    assert done.stdout == b"0 False\n"


@pytest.mark.parametrize("words", [["check", "ls"], ["ps"], ["pending"], ["approve", "000000"]])
def test_who_runs_nothing_loads_no_engine_and_no_event_loop(words: list[str]) -> None:
    dear = ("asyncio", "anyio.abc", "shelltie.running.supervisor")
    script = (
        "import sys; from shelltie.frontends.cli.main import main;"
        f"main({words!r}); print([one for one in {dear!r} if one in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=40, check=False
    )

    assert done.stdout.endswith(b"[]\n"), done


def test_a_run_imports_no_place_that_it_does_not_use_and_nothing_that_reads_the_journal() -> None:
    unused = ("providers.bubblewrap", "providers.container", "record.queries", "record.recovery")
    script = (
        "import sys; from shelltie.frontends.cli.main import main;"
        f"code = main(['run', '--', 'true']); used = {unused!r};"
        "print(code, [one for one in used if 'shelltie.' + one in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "SHELLTIE_SAFETY_ENFORCE": "off"},  # else `true` has a read-only view
        capture_output=True,
        timeout=40,
        check=False,
    )

    assert done.stdout == b"0 []\n"


# check


@pytest.mark.proves("T0-5")
def test_check_says_limits_and_where_they_came_from() -> None:
    answer = json.loads(text_of("check", "--json", "npm install && ls"))
    shown = text_of("check", "npm install && ls")

    assert list(answer) == ["command", "verdict", "decision", "reasons", "limits"]
    assert (answer["verdict"], answer["decision"]) == ("unknown", "allow")
    assert {reason["code"] for reason in answer["reasons"]} == {"runs_code"}
    assert (answer["limits"]["execSec"], answer["limits"]["silenceSec"]) == (600, 60)
    assert answer["limits"]["source"] == "category long"
    assert answer["limits"]["pattern"]
    assert "10m" in shown
    assert "category long" in shown


@pytest.mark.parametrize(
    ("text", "key"), [("rm -rf ..", "irreversible"), ("rm -rf build", "dangerous")]
)
def test_check_names_the_key_that_decides(
    text: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELLTIE_SAFETY_PRESET", "relaxed")

    assert f"(safety.profiles.run.{key})" in text_of("check", text)


def test_check_says_of_a_listed_command_that_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELLTIE_SAFETY_RATING_MODE", "listed")

    listed, both, neither = (text_of("check", it) for it in ("npm ci", "npm ci; ls", "ls"))

    assert "safe" in listed
    assert "trusted because listed, not known to be read-only: npm\n" in listed
    assert "not known to be read-only: npm; the rest is read-only" in " ".join(both.split())
    assert "every command in it is known to be read-only" in neither


def test_check_answers_each_line_and_survives_bad_ones() -> None:
    deep = b"[" * 100_000
    lines = [b'{"command": "ls"}', b"nonsense", b'{"command": 5}', b"[]", b"", b'{"command": " "}']
    lines += [b'{"command": "a\\u0000b"}', b"\xff\xfe", deep, b'{"command": "cargo test"}']

    shown = text_of("check", "--jsonl", stdin=b"\n".join(lines))

    answers = [json.loads(line) for line in shown.splitlines()]
    assert ["error" in answer for answer in answers] == [False, *[True] * 8, False]
    assert answers[0]["limits"]["category"] == "quick"


# policy


def test_policy_init_writes_a_file_that_is_then_in_force() -> None:
    file = Path("config/terminal_timeout_policy.json")

    first, second = shelltie("policy", "init"), shelltie("policy", "init")

    assert (first.returncode, second.returncode) == (0, 1)
    assert b"--force" in second.stderr
    assert "fine" in text_of("policy", "check")
    assert "no traps" in text_of("policy", "lint")
    assert text_of("policy", "show").startswith(f"{file.resolve()}: loaded\n")
    file.write_text("{}", encoding="utf-8")
    assert shelltie("policy", "init", "--force").returncode == 0
    assert "fine" in text_of("policy", "check")


@pytest.mark.proves("T0-8", "T0-10")
def test_policy_check_and_lint_name_what_is_wrong() -> None:
    seed = json.loads(SEED.read_text(encoding="utf-8"))
    Path("bad.json").write_text(json.dumps(seed | {"default_category": "moon"}), encoding="utf-8")
    Path("garbage.json").write_text("{", encoding="utf-8")

    lint = shelltie("policy", "lint", str(SEED))

    assert (lint.returncode, b"lsof" in lint.stdout) == (1, True)
    assert shelltie("policy", "check", str(SEED)).returncode == 0
    for name in ("bad.json", "garbage.json", "absent.json"):
        done = shelltie("policy", "check", name)
        assert (done.returncode, done.stderr) == (1, b"")
        assert done.stdout


def test_policy_show_has_every_setting_with_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELLTIE_LIMITS_GRACE", "7")

    answer = json.loads(text_of("policy", "show", "--origin", "--json"))
    shown = text_of("policy", "show", "--origin")

    assert answer["settings"]["limits.grace"] == {"value": 7, "origin": "SHELLTIE_LIMITS_GRACE"}
    assert answer["categories"]["long"]["execSec"] == 600
    assert "SHELLTIE_LIMITS_GRACE" in shown


def test_policy_schema_is_json() -> None:
    assert json.loads(text_of("policy", "schema"))["$schema"]


# doctor, paths, demo, completion


def test_doctor_runs_a_real_command() -> None:
    shown = text_of("doctor")
    answer = json.loads(text_of("doctor", "--json"))

    assert "test command finished in" in shown
    assert answer["ok"] is True
    names = {finding["name"] for finding in answer["findings"]}
    assert {"python", "keeper", "subreaper", "login PATH", "free pids", "state"} <= names


def test_doctor_fits_a_terminal_and_marks_nothing_good_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name)
    config = tmp_path / ".config" / "shelltie" / "config.toml"
    config.parent.mkdir(parents=True)

    code, shown = on_terminal("doctor", "--color", "never")
    config.write_text("limits.garce = 1\n", encoding="utf-8")
    _, wrong = on_terminal("doctor", "--color", "never")

    lines = [line.rstrip() for line in shown.splitlines()]
    assert code == 0
    assert "  · user           no ~/.config/shelltie/config.toml" in lines
    assert any(line.startswith("  · container ") for line in lines)
    assert any(line.startswith("  ✓ file           the one that shelltie comes") for line in lines)
    # Only a path of pytest's own may be longer than a line.
    assert not [line for line in lines if len(line) > 80 and "/" not in line]
    marks = [line.split()[:2] for line in wrong.splitlines() if line.startswith("  ")]
    assert ["✗", "user"] in marks
    assert ["✓", "user"] not in marks


@pytest.mark.parametrize("wrong", ["circle", "file"])
def test_doctor_finds_a_state_directory_that_can_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "file").write_text("no directory", encoding="ascii")
    monkeypatch.setenv("SHELLTIE_STATE_DIR", str(tmp_path / wrong))
    monkeypatch.setenv("SHELLTIE_AUDIT_ANCHOR", str(tmp_path))

    found = list(checkup.settings_of(load(tmp_path)))

    levels = {one.name: one.level for one in found}
    assert (levels["state"], levels["journal"], levels["anchor"]) == ("bad", "bad", "bad")


def test_doctor_finds_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".shelltie.toml").write_text('shell = "/bin/zsh"\n', encoding="utf-8")
    ignored = text_of("doctor")
    monkeypatch.setenv("SHELLTIE_LIMITS_GRACE", "soon")
    wrong = shelltie("doctor")

    assert "shell may only tighten" in " ".join(ignored.split())
    assert wrong.returncode == 1
    assert "✗ wrong" in wrong.stdout.decode()


def test_paths_says_what_exists() -> None:
    answer = json.loads(text_of("paths", "--json"))

    assert answer["shippedPolicy"]["exists"] is True
    assert answer["projectConfig"] == {"path": str(Path.cwd() / ".shelltie.toml"), "exists": False}
    assert all(entry["path"] in text_of("paths") for entry in list(answer.values())[:1])


@pytest.mark.proves("T0-18")
def test_the_demo_ends_in_time_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tag = f"TAG_{uuid.uuid4().hex}"
    monkeypatch.setenv(tag, "1")

    done = subprocess.run([*SHELLTIE, "demo"], capture_output=True, timeout=40, check=False)

    shown = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert "0 of 5 processes left" in shown
    assert "⚠ No output" in shown
    assert " install claude " in shown
    assert carriers(tag) == []


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("shelltie pol", "policy"),
        ("shelltie policy sh", "show"),
        ("shelltie run --sil", "--silence"),
        ("shelltie run --color a", "auto always"),
        ("shelltie completion b", "bash"),
    ],
)
def test_bash_completes(line: str, offered: str) -> None:
    Path("script").write_text(text_of("completion", "bash"), encoding="utf-8")
    words = line.split()
    script = f"""source ./script; complete -p shelltie
        COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}
        _shelltie; echo "${{COMPREPLY[*]}}" """

    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, timeout=40, check=False
    )

    declared, replied = done.stdout.decode().splitlines()
    assert declared.endswith("-F _shelltie shelltie")
    assert replied == offered
    assert done.stderr == b""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_script(shell: str) -> None:
    Path("script").write_text(text_of("completion", shell), encoding="utf-8")

    assert "--silence" in Path("script").read_text(encoding="utf-8").replace(
        "-l silence", "--silence"
    )
    if shutil.which(shell):
        subprocess.run([shell, "-n", "script"], check=True, timeout=40)


@pytest.mark.parametrize("command", ["completion bash", "policy show", "--help", "check --json ls"])
def test_a_closed_pipe_is_no_reason_to_complain(command: str) -> None:
    with start(*command.split()) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.wait(40)
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_colours_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    on_pipe, always = text_of("check", "ls"), text_of("check", "--color", "always", "ls")
    _, shown = on_terminal("check", "ls")
    _, never = on_terminal("check", "--color", "never", "ls")
    monkeypatch.setenv("NO_COLOR", "1")
    _, respected = on_terminal("check", "ls")

    assert ["\033[" in text for text in (on_pipe, always, shown, never, respected)] == [
        *(False, True, True, False, False)
    ]
