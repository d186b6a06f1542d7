"""What an allowlist file says, and what becomes of one that cannot be used."""

import json
import os
from pathlib import Path

import pytest

from shelltie.basics.validate import InvalidValue
from shelltie.contexts.allowlist import (
    PROJECT_FILE,
    Allowlist,
    AllowlistFile,
    find_allowlist,
    parse,
)

ARRAY = json.loads(
    '["node","npm","pnpm","yarn","git","docker","python","pytest","echo","cat","ls","sleep"]'
)
COMMANDS = json.loads(
    '["node","npm","git","docker","python","pytest","echo","cat","ls","grep","find"]'
)
ABOUT = {"version": "1.0.0", "lastUpdated": "2025-10-13", "securityReview": "APPROVED"}


@pytest.mark.proves("S4-14", "S4-15", "C-64")
def test_both_forms_of_a_file_are_read_and_what_it_says_beside_is_kept() -> None:
    assert list(parse(json.dumps(ARRAY)).entries) == ARRAY

    found = parse(json.dumps({"commands": COMMANDS, **ABOUT}))

    assert list(found.entries) == COMMANDS
    assert found.about == ABOUT


@pytest.mark.proves("C-64")
def test_the_shipped_list_is_the_union_of_both() -> None:
    shipped = find_allowlist(Path("/nowhere"), "builtin").current()

    assert set(shipped.entries) == {*ARRAY, *COMMANDS}
    assert len(shipped.entries) == 14


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("null", "must be a list of commands"),
        ('"ls"', "must be a list of commands"),
        ("{}", "commands: is missing"),
        ('{"comands": []}', "commands: is missing; is it comands?"),
        ('{"commands": "ls"}', "commands: must be a list"),
        ('{"commands": [], "commands": ["rm"]}', "'commands': is given twice"),
        ('{"commands": ["git"], "deny": ["-c"]}', "deny: belongs into the entry"),
        ('["ls", 3]', r"\[1\]: must be a name or an object"),
        ('["./npm"]', r"\[0\]: must be the bare name"),
        ('["*"]', r"\[0\]: must be the bare name"),
        ('["npm™"]', r"\[0\]: must be the bare name"),
        ('["npm test"]', r'\[0\]: is a command with arguments.*"allow": \["test"\]'),
        ('["git", {"name": "git", "deny": ["-c"]}]', r"\[1\]: git is listed twice"),
        ('[{"deny": ["-c"]}]', r"\[0\]: name is missing"),
        ('[{"name": "git", "denny": ["-c"]}]', r"\[0\]\.denny: is not known; did you mean deny\?"),
        ('[{"name": "git", "x": 1}]', r"\[0\]\.x: is not known; known: name, path, allow"),
        ('{"commands": [{"name": "git", "deny": "-c"}]}', r"commands\[0\]\.deny: must be a list"),
        ('[{"name": "git", "deny": []}]', r"\[0\]\.deny: is empty"),
        ('[{"name": "git", "deny": [1]}]', r"\[0\]\.deny: must be a text"),
        ('[{"name": "git", "deny": ["--"]}]', r"\[0\]\.deny: must be an option or a word"),
        ('[{"name": "git", "deny": ["a b c"]}]', r"\[0\]\.deny: must be an option or a word"),
        ('[{"name": "git", "allow": [""]}]', r"\[0\]\.allow: an empty text would allow everything"),
        ('[{"name": "git", "allow": ["\'"]}]', r"\[0\]\.allow: .*cannot be split"),
        ('[{"name": "git", "free_text_after": ["m"]}]', "must be an option like -m"),
        ('[{"name": "git", "path": "bin/git"}]', r"\[0\]\.path: must be the absolute path"),
        ('[{"name": "git", "allow_relative_path": 1}]', "must be true or false"),
        (json.dumps([f"p{n}" for n in range(1001)]), "1001 commands, more than 1000"),
    ],
)
def test_a_mistake_anywhere_is_named_and_refuses_the_file(text: str, says: str) -> None:
    with pytest.raises(InvalidValue, match=says):
        parse(text)


def test_comments_and_the_same_name_again_are_no_mistakes() -> None:
    assert list(parse('\ufeff[ // ours\n "ls", "ls" /* twice */]').entries) == ["ls"]


@pytest.mark.proves("S4-13")
def test_the_projects_file_is_the_default(tmp_path: Path) -> None:
    assert PROJECT_FILE == "apps/tools/caws/tools-allow.json"
    (tmp_path / PROJECT_FILE).parent.mkdir(parents=True)
    (tmp_path / PROJECT_FILE).write_text('["ls"]', encoding="utf-8")
    (tmp_path / "mine.json").write_text('["cat"]', encoding="utf-8")

    assert list(find_allowlist(tmp_path, None).current().entries) == ["ls"]
    assert list(find_allowlist(tmp_path, "mine.json").current().entries) == ["cat"]
    assert list(find_allowlist(tmp_path, str(tmp_path / "mine.json")).current().entries) == ["cat"]


def test_what_is_no_file_does_not_hold_anybody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text("[]", encoding="utf-8")

    problems = [
        find_allowlist(tmp_path, name).current().problem
        for name in ("fifo", ".", "file/mine.json", "a\0b", "x" * 5000, "/dev/zero")
    ]

    assert problems[0] == "fifo: not a regular file"
    assert problems[-1] == "zero: not a regular file"  # where it is, is nobody's business
    assert None not in problems


@pytest.mark.parametrize("worse", [None, "[", '["cat", "rm -rf"]'])
def test_a_file_that_becomes_unusable_takes_everything_back(
    tmp_path: Path, worse: str | None
) -> None:
    path = tmp_path / "mine.json"
    path.write_text('["ls"]', encoding="utf-8")
    file = AllowlistFile(path, "mine.json")
    assert list(file.current().entries) == ["ls"]

    if worse is None:
        path.unlink()
    else:
        path.write_text(worse, encoding="utf-8")
    assert file.current().entries == {}
    assert file.current().problem

    path.write_text('["cat"]', encoding="utf-8")
    assert file.current() == Allowlist(parse('["cat"]').entries)


def test_a_change_that_hides_its_time_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('["ls"]', encoding="utf-8")
    os.utime(path, (1, 1))
    file = AllowlistFile(path, "mine.json")

    path.write_text('["rm"]', encoding="utf-8")
    os.utime(path, (1, 1))

    assert list(file.current().entries) == ["rm"]
