"""`shelltie config` as a person uses it."""

import json
import sys
from pathlib import Path

import pytest

from shelltie.settings.config import SETTINGS
from tests.cli import on_terminal, shelltie, text_of


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)


def test_a_setting_is_set_looked_at_and_removed_again() -> None:
    path = Path(text_of("config", "path").strip())
    before = text_of("config", "get", "limits.grace")

    said = text_of("config", "set", "limits.grace", "10")
    after = text_of("config", "get", "limits.grace")
    listed = text_of("config", "list", "limits.grace")
    changed = json.loads(text_of("config", "list", "--changed", "--json"))
    left = text_of("config", "unset", "limits.grace")

    assert (before, after) == ("5.0\n", "10.0\n")
    assert said == f"limits.grace = 10 in {path}\n"
    assert path.read_text(encoding="utf-8").startswith("# Settings of shelltie.")
    assert path.stat().st_mode & 0o777 == 0o600
    assert str(path) in listed
    assert "between SIGTERM and SIGKILL" in listed
    assert [(row["key"], row["value"]) for row in changed] == [("limits.grace", 10.0)]
    assert left == f"limits.grace is not in {path}; now: 5.0\n"


def test_values_are_added_to_a_list() -> None:
    text_of("config", "add", "sandbox.network_allow", "pypi", "example.org")
    said = text_of("config", "add", "sandbox.network_allow", "npm", "pypi")
    held = text_of("config", "get", "sandbox.network_allow")

    assert held == '["pypi", "example.org", "npm"]\n'
    assert said.startswith("sandbox.network_allow = [")


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("set", "limits.garce", "1"), 2, "did you mean limits.grace?"),
        (("get", "nothing.like.it"), 2, "unknown setting nothing.like.it"),
        (("list", "nothing"), 2, "no setting begins with nothing"),
        (("set", "limits.grace", "soon"), 125, "a number of seconds"),
        (("set", "keeper", "rust"), 125, "one of auto, c, python"),
        (("add", "limits.grace", "5"), 2, "is no list"),
        (("add", "sandbox.network_allow", "pipy"), 125, "there is no group 'pipy'"),
        (("add", "sandbox.network_allow", "pypi", ""), 2, "an empty value means nothing"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_written(
    args: tuple[str, ...], code: int, says: str
) -> None:
    done = shelltie("config", *args)

    assert done.returncode == code
    assert says in done.stderr.decode()
    assert not Path(text_of("config", "path").strip()).exists()


def test_a_value_without_effect_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELLTIE_LIMITS_GRACE", "3")

    shadowed = shelltie("config", "set", "limits.grace", "7")
    held_back = shelltie("config", "set", "--project", "output.redact", "true")

    assert "SHELLTIE_LIMITS_GRACE sets it, too" in shadowed.stderr.decode()
    assert "until you run `shelltie trust`" in held_back.stderr.decode()
    assert Path(".shelltie.toml").read_text(encoding="utf-8").endswith("redact = true\n")


def test_an_editor_is_used_and_what_it_leaves_is_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "limits.garce = 1" >> "$1"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    monkeypatch.delenv("VISUAL", raising=False)

    done = shelltie("config", "edit")

    assert done.returncode == 125
    assert "did you mean limits.grace?" in done.stderr.decode()


def test_a_command_of_an_agent_changes_no_setting() -> None:
    tried = shelltie("run", "--", "shelltie config set safety.profiles.run.dangerous allow")
    inside = shelltie("run", "--json", "--", f"{sys.executable} -m shelltie config set keeper c")

    assert tried.returncode == 126  # it is dangerous, and nobody is there to say yes
    assert "only a person may change settings" in json.loads(inside.stdout)["stderr"]
    assert not Path(text_of("config", "path").strip()).exists()


@pytest.mark.parametrize("args", [("config", "list"), ("policy", "show", "--origin")])
def test_every_setting_is_listed_in_lines_that_fit(args: tuple[str, ...]) -> None:
    code, shown = on_terminal(*args, "--color", "never")

    lines = [line.rstrip() for line in shown.splitlines()]
    assert code == 0
    assert all(any(line.strip().startswith(f"{key} =") for line in lines) for key in SETTINGS)
    paths = str(Path(text_of("config", "path").strip()).parent.parent.parent)
    assert not [line for line in lines if len(line) > 80 and paths not in line]


def test_every_file_in_use_is_listed() -> None:
    listed = json.loads(text_of("paths", "--json"))

    names = {"userConfig", "trustedProjects", "approvedCommands", "rules", "projectRules"}
    assert {*names, "sockets1", "journal", "httpTokens"} <= set(listed)
