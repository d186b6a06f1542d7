"""Which program is run for a command, from where, and what a caller is told otherwise."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shelltie.contexts.allowlist import AllowlistFile, find_allowlist, parse
from shelltie.contexts.argument_filter import FilterLevel
from shelltie.contexts.program_access import Access, Lookup, replaceable
from shelltie.errors import CannotStart, CommandNotAllowed, InvalidParameters, UnsafeArguments

Allow = Callable[..., Access]


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def allow(tmp_path: Path) -> Allow:
    """An access with these entries; each of their programs is in one directory."""

    def made(
        *entries: object, level: FilterLevel = FilterLevel.DEFAULT, relative_paths: bool = False
    ) -> Access:
        file = tmp_path / f"{len(entries)}-{level}-{relative_paths}.json"
        file.write_text(json.dumps(entries), encoding="utf-8")
        for name in parse(json.dumps(entries)).entries:
            program(tmp_path / "bin" / name)
        return Access(
            AllowlistFile(file, "allow.json"),
            str(tmp_path / "bin"),
            level=level,
            relative_paths=relative_paths,
        )

    return made


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such file"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe[\x00", "not UTF-8 text"),
        (b" " * (1024 * 1024 + 1), "larger than 1 MiB"),
        (b'["ls", {"name": "cat", "den": []}]', "[1].den: is not known; did you mean deny?"),
    ],
)
def test_an_unusable_file_allows_nothing_and_says_why(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / "mine.json").write_bytes(content)
    access = Access(find_allowlist(tmp_path, "mine.json"), os.defpath)

    with pytest.raises(CommandNotAllowed) as refused:
        access.check("ls")

    message = str(refused.value)
    assert message.startswith("Command 'ls' is not allowed: no usable allowlist: mine.json: ")
    assert says in message
    assert str(tmp_path) not in message
    assert refused.value.details == {
        "command": "ls",
        "allowedCommands": [],
        "reason": "no_allowlist",
    }


def test_a_program_that_is_not_listed_is_refused_with_the_list(allow: Allow) -> None:
    access = allow("npm", {"name": "git", "allow": ["status"]})

    with pytest.raises(CommandNotAllowed) as refused:
        access.check("rm", ["-rf", "/"])

    assert refused.value.code == "COMMAND_NOT_ALLOWED"
    assert str(refused.value) == "Command 'rm' is not allowed"
    assert refused.value.details == {
        "command": "rm",
        "allowedCommands": ["npm", "git"],
        "reason": "not_listed",
    }


def test_a_name_cannot_hide_what_it_is(allow: Allow) -> None:
    with pytest.raises(CommandNotAllowed) as refused:
        allow("ls").check("ls\u202e\x1b[2J\udc80\ud800")

    assert str(refused.value) == r"Command 'ls\u202e\x1b[2J\udc80\ud800' is not allowed"
    assert json.dumps(refused.value.details, ensure_ascii=False).encode("utf-8")


@pytest.mark.parametrize("command", ["", " \n", None, 3])
def test_no_command_is_a_wrong_parameter(allow: Allow, command: object) -> None:
    with pytest.raises(InvalidParameters):
        allow("ls").check(command)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize("args", ["-rf", b"-rf", None, 3, ["a", 3], {"a": "b"}])
def test_arguments_that_are_no_list_of_texts_are_wrong_parameters(
    allow: Allow, args: object
) -> None:
    with pytest.raises(InvalidParameters, match="args must be a list of texts"):
        allow("ls").check("ls", args)  # type: ignore[arg-type]  # that is the point


def test_a_command_with_its_arguments_in_one_text_is_split_and_then_checked(allow: Allow) -> None:
    access = allow("npm")

    assert access.check("npm install 'a b' c\\ d")[1:] == ("install", "a b", "c d")
    with pytest.raises(CommandNotAllowed, match="'rm' is not allowed"):
        access.check("rm -rf /")
    with pytest.raises(UnsafeArguments):
        access.check("npm test; rm -rf /")
    with pytest.raises(CommandNotAllowed):
        access.check("npm test\nrm -rf /")
    with pytest.raises(CommandNotAllowed):
        access.check("npm test", ["--coverage"])
    with pytest.raises(CommandNotAllowed):
        access.check(f"/{'x' * 300} y")
    with pytest.raises(InvalidParameters, match="No closing quotation"):
        access.check("npm test '")


def test_a_command_of_more_than_1000_characters_is_refused(allow: Allow) -> None:
    access = allow("echo")

    assert access.check("echo " + "x" * 995)
    with pytest.raises(CommandNotAllowed, match="1001 characters") as refused:
        access.check("echo " + "x" * 996)

    assert refused.value.details["reason"] == "too_long"


def test_a_program_is_found_in_absolute_directories_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("one", "two", "bin"):
        program(tmp_path / place / "tool")
    (tmp_path / "one" / "tool").chmod(0o644)
    (tmp_path / "one" / "dir").mkdir()
    monkeypatch.chdir(tmp_path)

    lookup = Lookup(f":.:bin:{tmp_path}/none:{tmp_path}/one:{tmp_path}/two::")

    assert lookup.find("tool") == tmp_path / "two" / "tool"
    assert lookup.find("dir") is None
    assert lookup.find("tool", str(tmp_path / "bin" / "tool")) == tmp_path / "bin" / "tool"
    assert Lookup("").find("tool") is None


def test_a_program_put_before_the_listed_one_later_is_not_run(tmp_path: Path) -> None:
    listed = program(tmp_path / "b" / "tool")
    (tmp_path / "allow.json").write_text('["tool", "new"]', encoding="utf-8")
    access = Access(find_allowlist(tmp_path, "allow.json"), f"{tmp_path}/a:{tmp_path}/b")

    earlier = program(tmp_path / "a" / "tool")
    assert access.check("tool") == (str(listed),)

    listed.unlink()
    assert access.check("tool") == (str(earlier),)
    with pytest.raises(CannotStart):
        access.check("new")
    program(tmp_path / "a" / "new")
    assert access.check("new") == (str(tmp_path / "a" / "new"),)


def test_an_allowed_program_that_is_missing_cannot_start(allow: Allow, tmp_path: Path) -> None:
    access = allow("tool")
    (tmp_path / "bin" / "tool").unlink()

    with pytest.raises(CannotStart) as missing:
        access.check("tool", ["x"])
    with pytest.raises(UnsafeArguments):
        access.check("tool", ["x;"])

    assert (missing.value.code, missing.value.exit_code) == ("EXECUTION_ERROR", 127)
    assert str(missing.value) == "tool is allowed, but not installed on the server"


def test_only_the_path_of_the_program_itself_passes(allow: Allow, tmp_path: Path) -> None:
    access = allow("npm", "git")
    npm = tmp_path / "bin" / "npm"
    program(tmp_path / "evil" / "npm")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / "npm").symlink_to(npm)
    (tmp_path / "link" / "git").symlink_to(npm)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")

    for same in (npm, tmp_path / "link" / "npm", f"{tmp_path}/bin/../bin/./npm"):
        assert access.check(str(same), ["ci"]) == (str(npm), "ci")
    for other in (
        f"{tmp_path}/evil/npm",
        f"{tmp_path}/link/git",
        f"{tmp_path}/none/npm",
        f"{tmp_path}/circle/npm",
        f"/{'x' * 500}/npm",
        "/\0/npm",
        f"{npm}/",
        "./npm",
        "../bin/git",
        "bin/npm",
        "~/npm",
        "NPM",
        "Npm",
        "npm™",
        "npm ",
        "npm\0",
        "nрm",  # noqa: RUF001  a Cyrillic letter
    ):
        with pytest.raises(CommandNotAllowed):
            access.check(other, ["ci"])


def test_a_program_runs_under_the_name_it_was_found_by(tmp_path: Path, allow: Allow) -> None:
    access = allow("ls")
    ls = tmp_path / "bin" / "ls"
    ls.unlink()
    ls.symlink_to(program(tmp_path / "real" / "busybox"))

    assert access.check("ls", ["rm"]) == (str(ls), "rm")


@pytest.mark.proves("C-65")
def test_a_relative_path_passes_only_where_that_is_allowed(allow: Allow, tmp_path: Path) -> None:
    program(tmp_path / "project" / "gradlew")
    cwd = str(tmp_path / "project")
    one = {"name": "gradlew", "allow_relative_path": True}

    for access in (allow(one, "npm"), allow("gradlew", relative_paths=True)):
        assert access.check("./gradlew", ["build"], cwd=cwd) == (f"{cwd}/gradlew", "build")
        with pytest.raises(CannotStart):
            access.check("./x/gradlew", cwd=cwd)
        with pytest.raises(CommandNotAllowed):
            access.check("./gradlew", ["build"])
        with pytest.raises(CommandNotAllowed):
            access.check("./other", cwd=cwd)
    with pytest.raises(CommandNotAllowed, match="write npm"):
        allow(one, "npm").check("./npm", cwd=cwd)


def test_a_path_in_the_list_replaces_the_search(allow: Allow, tmp_path: Path) -> None:
    other = program(tmp_path / "other" / "python3")
    access = allow({"name": "python", "path": str(other), "note": "the system's"})

    assert access.check("python") == (str(other),)
    with pytest.raises(CommandNotAllowed):
        access.check(str(tmp_path / "bin" / "python"))


def test_a_program_that_everybody_could_replace_is_refused(allow: Allow, tmp_path: Path) -> None:
    access = allow("tool")
    place = tmp_path / "bin"

    for path, mode in ((place, 0o777), (place, 0o1777), (tmp_path, 0o777), (place / "tool", 0o757)):
        before = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(CommandNotAllowed, match="everybody could replace it") as refused:
            access.check("tool")
        path.chmod(before)
        assert refused.value.details["reason"] == "replaceable_program"
        assert str(tmp_path) not in str(refused.value)

    assert access.check("tool")


def test_links_through_an_open_directory_are_seen(tmp_path: Path) -> None:
    real = program(tmp_path / "real" / "tool")
    between = tmp_path / "open" / "tool"
    between.parent.mkdir(mode=0o755)
    between.symlink_to(Path("..") / "real" / "tool")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").symlink_to(between)
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")

    assert not replaceable(tmp_path / "bin" / "tool")
    between.parent.chmod(0o777)
    assert replaceable(tmp_path / "bin" / "tool")
    assert not replaceable(real)
    assert replaceable(tmp_path / "a")
    assert replaceable(tmp_path / "none" / "tool")


def test_a_sticky_directory_above_is_fine_for_what_is_ours(tmp_path: Path) -> None:
    tool = program(tmp_path / "bin" / "tool")
    tmp_path.chmod(0o1777)

    assert not replaceable(tool)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a directory away")
def test_a_sticky_directory_above_is_not_enough_for_what_is_somebody_elses(tmp_path: Path) -> None:
    tool = program(tmp_path / "bin" / "tool")
    tmp_path.chmod(0o1777)
    os.chown(tmp_path / "bin", 12345, 12345)

    assert replaceable(tool)


def test_refused_arguments_are_told_with_their_place(allow: Allow) -> None:
    access = allow("npm", {"name": "git", "allow": ["status"]})

    with pytest.raises(UnsafeArguments) as one:
        access.check("npm", ["test", "; $HOME " + "x" * 300])
    with pytest.raises(UnsafeArguments) as together:
        access.check("git", ["push"])

    assert str(one.value).startswith("Argument 2 of 'npm' has ';', '$HOME': no shell is involved")
    assert one.value.code == "UNSAFE_ARGUMENTS"
    assert one.value.details == {
        "command": "npm",
        "index": 1,
        "argument": "; $HOME " + "x" * 192,
        "found": [";", "$HOME"],
        "issues": [
            "Dangerous shell metacharacter detected: ;",
            "Dangerous variable expansion detected",
        ],
    }
    assert str(together.value) == "Arguments of 'git' must be one of these: 'status …'"
    assert "index" not in together.value.details
