"""Install into the files of agents and editors, and out of them; nothing is half-written."""

import json
import os
import shlex
import tomllib
from pathlib import Path

import pytest

from shelltie.errors import CannotStart
from shelltie.frontends.cli.main import main
from shelltie.frontends.clients import changes, registry
from tests.cli import SHELLTIE, shelltie

FILES = {
    "claude": ".claude.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "zed": ".config/zed/settings.json",
    "goose": ".config/goose/config.yaml",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
}
BEFORE = {"codex": "# mine\n", "goose": "# mine\n", "claude": '{"numStartups": 3}\n'}
PATH = os.environ["PATH"]
SETTINGS = '// mine\n{\n  "theme": "x"\n}\n'
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which each client has a file, and no client's program is found."""
    home, nothing = tmp_path / "home", tmp_path / "bin"
    nothing.mkdir()
    (nothing / "shelltie-sh").touch(0o755)
    for client, name in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(BEFORE.get(client, SETTINGS), encoding="utf-8")
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(nothing))
    return home


@pytest.mark.parametrize("client", FILES)
def test_a_client_gets_the_server_once_and_loses_it_again(
    client: str, home: Path, capsys: Captured
) -> None:
    file, before = home / FILES[client], BEFORE.get(client, SETTINGS)
    file.chmod(0o640)

    assert main(["install", client, "--print"]) == 0
    printed = capsys.readouterr().out
    untouched = file.read_text(encoding="utf-8")
    assert main(["install", client]) == 0
    once = file.read_text(encoding="utf-8")
    told = capsys.readouterr().out
    assert main(["install", client]) == 0
    twice = capsys.readouterr().out
    after_two = file.read_text(encoding="utf-8")
    assert main(["uninstall", client]) == 0
    left = file.read_text(encoding="utf-8")

    assert untouched == before
    assert str(file) in printed
    assert '"mcp"' in printed
    assert once.startswith(before.rstrip("}\n"))
    assert Path(_command_in(once)).is_absolute()
    assert file.name in told
    assert (twice.strip(), after_two) == (
        told.partition(":")[0].replace("✓", "·") + ": is installed already",
        once,
    )
    assert "shelltie" not in left
    assert left.startswith(before.rstrip("}\n"))
    assert file.stat().st_mode & 0o777 == 0o640
    backup = file.with_name(f"{file.name}.before-shelltie")
    assert backup.read_text(encoding="utf-8") == once  # of the last change


def _command_in(text: str) -> str:
    """The program of our entry, in whichever format."""
    line = next(line for line in text.splitlines() if "command" in line or "cmd:" in line)
    return line.split('"')[-2]


def test_plain_json_is_printed_or_written_where_it_is_wanted(home: Path, capsys: Captured) -> None:
    assert main(["install", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert main(["install", "json", "--file", str(home / "deep" / ".mcp.json")]) == 0
    written = json.loads((home / "deep" / ".mcp.json").read_text(encoding="utf-8"))

    assert written == printed
    assert printed["mcpServers"]["shelltie"]["args"][-1] == "mcp"


@pytest.mark.parametrize(
    ("client", "text", "told"),
    [
        ("zed", "{not json", "line 1 cannot be read"),
        ("zed", '{"context_servers": []}', "context_servers is no object"),
        ("cursor", "[1, 2]", "is no object"),
        ("codex", "a = = 1", "not TOML"),
        ("goose", "extensions: {a: {}}", "by hand"),
        ("windsurf", "\udcff", "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_understood_stays_as_it_is(
    client: str, text: str, told: str, home: Path, capsys: Captured
) -> None:
    file = home / FILES[client]
    file.write_bytes(text.encode("utf-8", "surrogateescape"))

    code = main(["install", client])

    said = capsys.readouterr().err
    assert (code, told in said, str(file) in said) == (125, True, True), said
    assert file.read_bytes() == text.encode("utf-8", "surrogateescape")
    assert sorted(one.name for one in file.parent.iterdir()) == [file.name]


def test_what_cannot_or_must_not_be_written_is_named_and_left(home: Path, capsys: Captured) -> None:
    zed, cursor, desktop, goose, windsurf = (
        home / FILES[name] for name in ("zed", "cursor", "claude-desktop", "goose", "windsurf")
    )
    zed.chmod(0o400)
    elsewhere = home / "dotfiles.json"
    elsewhere.write_text(SETTINGS, encoding="utf-8")
    cursor.unlink()
    cursor.symlink_to(elsewhere)
    desktop.unlink()
    desktop.symlink_to(home / "nowhere")
    goose.unlink()
    goose.parent.rmdir()
    windsurf.unlink()
    windsurf.mkdir()

    codes = {name: main(["install", name]) for name in FILES}

    said = capsys.readouterr().err
    bad = {"zed", "claude-desktop", "goose", "windsurf"}
    assert {name for name, code in codes.items() if code != 0} == bad
    assert f"{zed}: read-only" in said
    assert f"{desktop}: a link to a file that does not exist" in said
    assert f"{goose}: not there; is the client installed" in said
    assert f"{windsurf}: cannot be read: Is a directory" in said
    assert zed.read_text(encoding="utf-8") == SETTINGS
    assert not goose.parent.exists()
    assert cursor.is_symlink()  # those who keep their settings elsewhere keep doing so
    assert '"shelltie"' in elsewhere.read_text(encoding="utf-8")


def test_an_older_entry_is_replaced_and_its_neighbours_stay(home: Path) -> None:
    codex, zed = home / FILES["codex"], home / FILES["zed"]
    codex.write_text('[mcp_servers.shelltie]\ncommand = "old"\nargs = []\n', encoding="utf-8")
    zed.write_text(
        '{"context_servers": {"shelltie": {"command": "old"}, "b": {"command": "c"}}}',
        encoding="utf-8",
    )

    assert [main(["install", name]) for name in ("codex", "zed")] == [0, 0]

    assert tomllib.loads(codex.read_text())["mcp_servers"]["shelltie"]["args"][-1] == "mcp"
    servers = json.loads(zed.read_text())["context_servers"]
    assert servers["shelltie"]["args"][-1] == "mcp"
    assert servers["b"] == {"command": "c"}


def hooks_in(text: str, event: str) -> list[str]:
    """The matchers or commands of an event's entries."""
    items = json.loads(text).get("hooks", {}).get(event, [])
    return [str(one.get("matcher") or one.get("command")) for one in items]


def test_hooks_stand_beside_those_of_others_and_leave_alone(home: Path, capsys: Captured) -> None:
    mine = {"matcher": "Write", "hooks": [{"type": "command", "command": "mine hook claude"}]}
    claude, cursor = home / ".claude/settings.json", home / ".cursor/hooks.json"
    claude.parent.mkdir()
    claude.write_text(json.dumps({"hooks": {"PreToolUse": [mine]}, "env": {"A": "1"}}))
    shown = {}
    for client in ("claude", "codex", "gemini", "cursor"):
        assert main(["install", client, "--hook"]) == 0
        shown[client] = capsys.readouterr().err
        assert main(["install", client, "--hook"]) == 0
        assert capsys.readouterr().out.count("is installed already") == 2
    installed = claude.read_text(encoding="utf-8")
    hooks = {path: path.read_text(encoding="utf-8") for path in (cursor, home / FILES["gemini"])}
    left_out = [main(["install", client, "--hook"]) for client in ("zed", "goose")]
    removed = [main(["uninstall", client]) for client in ("claude", "codex", "gemini", "cursor")]

    (_, ours) = json.loads(installed)["hooks"]["PreToolUse"]
    assert ours["hooks"][0]["args"][-2:] == ["hook", "claude"]
    assert ours["hooks"][0]["onFailure"] == "block"
    assert Path(ours["hooks"][0]["command"]).is_absolute()
    assert json.loads(hooks[cursor])["version"] == 1
    assert json.loads(hooks[cursor])["hooks"]["beforeShellExecution"][0]["failClosed"] is True
    assert hooks[home / FILES["gemini"]].startswith("// mine\n")
    assert "until you trust it" in shown["codex"]
    assert (left_out, removed) == ([2, 2], [0, 0, 0, 0])
    assert json.loads(claude.read_text()) == {"hooks": {"PreToolUse": [mine]}, "env": {"A": "1"}}
    assert hooks_in(cursor.read_text(), "beforeShellExecution") == []


def test_a_hook_of_others_in_one_group_with_ours_stays(home: Path) -> None:
    claude = home / ".claude/settings.json"
    claude.parent.mkdir()
    audit = {"type": "command", "command": "my-audit"}
    old = {"type": "command", "command": "/old/shelltie hook claude"}
    groups = [{"matcher": "Bash", "hooks": [old, audit, old]}, {"matcher": "X", "hooks": [old]}]
    before = json.dumps({"hooks": {"PreToolUse": groups}})
    left = {"matcher": "Bash", "hooks": [audit]}

    claude.write_text(before, encoding="utf-8")
    assert main(["install", "claude", "--hook", "--shell"]) == 0
    installed = json.loads(claude.read_text(encoding="utf-8"))["hooks"]["PreToolUse"]
    kept = claude.with_name("settings.json.before-shelltie").read_text(encoding="utf-8")
    claude.write_text(before, encoding="utf-8")
    assert main(["uninstall", "claude"]) == 0

    assert installed[0] == left
    assert [one["hooks"][0]["args"][-2:] for one in installed[1:]] == [["hook", "claude"]]
    assert kept == before  # though two steps have changed the file
    assert json.loads(claude.read_text(encoding="utf-8")) == {"hooks": {"PreToolUse": [left]}}


def test_a_backup_replaces_a_link_and_a_large_file_is_no_problem(home: Path) -> None:
    file, precious = home / ".mcp.json", home / "precious"
    backup = home / ".mcp.json.before-shelltie"
    before = json.dumps({"history": "x" * 2_000_000})
    precious.write_text("precious", encoding="utf-8")
    backup.symlink_to(precious)
    file.write_text(before, encoding="utf-8")

    assert main(["install", "json", "--file", str(file)]) == 0
    assert (backup.is_symlink(), backup.read_text(encoding="utf-8")) == (False, before)
    assert main(["uninstall", "json", "--file", str(file)]) == 0  # the old backup is large, too

    assert precious.read_text(encoding="utf-8") == "precious"
    assert json.loads(file.read_text(encoding="utf-8")) == json.loads(before)


@pytest.mark.parametrize("client", ["codex", "gemini", "cursor"])
def test_a_hook_is_quoted_for_the_shell(client: str) -> None:
    program = "/tmp/jörg's $x/shelltie"
    hooks = registry.find(client).hooks
    assert hooks is not None

    for entry in hooks.entries([program]).values():
        command = entry["hooks"][0]["command"] if "hooks" in entry else entry["command"]
        assert shlex.split(command) == [program, "hook", client]
        assert command.startswith("'/tmp/jörg")


def test_a_shell_that_cannot_be_started_is_refused(tmp_path: Path) -> None:
    plain, client = tmp_path / "shelltie-sh", registry.find("claude")
    for _ in range(2):  # missing, then not executable
        with pytest.raises(CannotStart, match="shelltie-sh: not there, or not executable"):
            changes.install_shell(client, str(plain), {"HOME": str(tmp_path)})
        plain.touch(0o644)


def test_what_a_person_added_to_our_entry_stays(home: Path) -> None:
    zed, goose = home / FILES["zed"], home / FILES["goose"]
    zed.write_text(
        '{"context_servers": {"shelltie": {"command": "old", "env": {"A": "1"} /* mine */}}}',
        encoding="utf-8",
    )
    goose.write_text(
        "extensions: # mine\n  shelltie:\n    enabled: false\n    args:\n    - old\n"
        "    envs:\n      A: '1'\n    cmd: /old\n    timeout: 5\nX: 1\n",
        encoding="utf-8",
    )

    assert [main(["install", name]) for name in ("zed", "goose")] == [0, 0]

    entry = json.loads(zed.read_text().replace("/* mine */", ""))["context_servers"]["shelltie"]
    assert (entry["env"], entry["args"][-1]) == ({"A": "1"}, "mcp")
    assert "/* mine */" in zed.read_text()
    lines = goose.read_text().splitlines()
    assert [lines[0], lines[-1]] == ["extensions: # mine", "X: 1"]
    assert {"    enabled: false", "    envs:", "      A: '1'", "    timeout: 5"} <= {*lines}
    assert not {"    - old", "    cmd: /old"} & {*lines}
    assert sum(line.startswith("    args:") for line in lines) == 1


@pytest.mark.parametrize("client", ["claude", "gemini"])
def test_additions_stay_where_the_client_would_write_its_entry_anew(
    client: str, home: Path, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / client
    program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    file = home / FILES[client]
    mine = {"command": "/old", "args": [], "env": {"A": "1"}}
    file.write_text(json.dumps({"mcpServers": {"shelltie": mine}}), encoding="utf-8")

    assert main(["install", client]) == 0

    entry = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]["shelltie"]
    assert (entry["env"], entry["args"][-1]) == ({"A": "1"}, "mcp")


def test_a_named_file_is_the_only_one_that_changes(home: Path, capsys: Captured) -> None:
    assert main(["install", "cursor", "--hook"]) == 0
    hooks, other = home / ".cursor/hooks.json", home / "p.json"
    before = hooks.read_text(encoding="utf-8")

    codes = [main([verb, "cursor", "--file", str(other)]) for verb in ("install", "uninstall")]
    refused = main(["install", "cursor", "--file", str(other), "--hook"])

    assert (codes, refused) == ([0, 0], 2)
    assert "--file" in capsys.readouterr().err
    assert hooks.read_text(encoding="utf-8") == before


def test_nothing_changes_if_one_of_the_steps_cannot_be_done(home: Path) -> None:
    claude, server = home / ".claude/settings.json", home / FILES["claude"]
    claude.parent.mkdir()
    for text in ('{"env": {"CLAUDE_CODE_SHELL_PREFIX": "/theirs"}}', '{"hooks": []}'):
        claude.write_text(text, encoding="utf-8")

        assert main(["install", "claude", "--hook", "--shell"]) == 125

        assert claude.read_text(encoding="utf-8") == text
        assert server.read_text(encoding="utf-8") == BEFORE["claude"]


def test_a_shell_prefix_of_somebody_else_stays(home: Path, capsys: Captured) -> None:
    claude = home / ".claude/settings.json"
    claude.parent.mkdir()
    foreign = json.dumps({"env": {"CLAUDE_CODE_SHELL_PREFIX": "/opt/theirs"}})
    claude.write_text(foreign, encoding="utf-8")
    refused = main(["install", "claude", "--shell"]), claude.read_text(encoding="utf-8")
    told = capsys.readouterr().err
    claude.write_text("{}", encoding="utf-8")
    done = main(["install", "claude", "--shell"]), json.loads(claude.read_text(encoding="utf-8"))
    removed = main(["uninstall", "claude"]), json.loads(claude.read_text(encoding="utf-8"))
    nowhere = main(["install", "codex", "--shell"])

    assert refused == (125, foreign)
    assert "CLAUDE_CODE_SHELL_PREFIX is set to /opt/theirs already" in told
    prefix = Path(done[1]["env"]["CLAUDE_CODE_SHELL_PREFIX"])
    assert (done[0], prefix.is_absolute(), prefix.name) == (0, True, "shelltie-sh")
    assert removed == (0, {})
    assert nowhere == 2
    assert "no setting for a shell" in capsys.readouterr().err


def test_doctor_says_what_is_installed_where_and_whether_it_connects(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [main(["install", name]) for name in ("zed", "cursor")] == [0, 0]
    (home / FILES["gemini"]).write_text(
        '{"mcpServers": {"shelltie": {"command": "/bin/false", "args": []}}}', encoding="utf-8"
    )
    (home / FILES["windsurf"]).write_text("{", encoding="utf-8")
    gone = {"command": "/gone/shelltie hook cursor"}
    hooks = json.dumps({"hooks": {"beforeShellExecution": [gone]}})
    (home / ".cursor/hooks.json").write_text(hooks, encoding="utf-8")
    monkeypatch.setenv("PATH", PATH)

    done = json.loads(shelltie("doctor", "--json").stdout)["findings"]

    found = {one["name"]: one for one in done if one["group"] == "clients"}
    assert found["zed"]["level"] == found["cursor"]["level"] == "good"
    assert found["zed"]["text"] == f"shelltie is in {home / FILES['zed']}, and connects"
    assert found["gemini"]["level"] == "bad"
    assert "does not connect: /bin/false gave no answer" in found["gemini"]["text"]
    assert found["gemini"]["remedy"] == "shelltie install gemini"
    assert found["cursor hook"]["level"] == "bad"
    assert "there is no program /gone/shelltie" in found["cursor hook"]["text"]
    assert (found["windsurf"]["level"], "not JSON" in found["windsurf"]["text"]) == ("poor", True)


def test_a_command_of_an_agent_installs_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (home / FILES["zed"]).read_text(encoding="utf-8")
    monkeypatch.setenv("PATH", PATH)
    done = shelltie("run", "--json", "--", *SHELLTIE, "uninstall", "zed")

    assert json.loads(done.stdout)["exitCode"] == 126, done
    assert "only a person" in json.loads(done.stdout)["stderr"]
    assert (home / FILES["zed"]).read_text(encoding="utf-8") == before
