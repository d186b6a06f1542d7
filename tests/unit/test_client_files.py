"""One table of a TOML file, and one block of a YAML file, changed and taken out again."""

import tomllib

import pytest

from shelltie.errors import ConfigWrong
from shelltie.frontends.clients import toml_table, yaml_block

SERVER = ["mcp_servers", "shelltie"]
ENTRY = {"command": "/bin/shelltie", "args": ["mcp"]}
CODEX = """\
# mine
model = "x"

[mcp_servers.other]
command = "o"  # stays
"""
EXTENSION = ["extensions", "shelltie"]
GOOSE = """\
# mine
GOOSE_MODEL: x
extensions:
    developer:   # stays
        enabled: true
        type: builtin

GOOSE_MODE: auto
"""


@pytest.mark.parametrize("text", ["", "# mine\n", CODEX, 'mcp_servers = {o = {command = "x"}}\n'])
def test_a_table_is_added_at_the_end_and_taken_out_again(text: str) -> None:
    if "= {o" in text:
        with pytest.raises(ConfigWrong):
            toml_table.put(text, SERVER, ENTRY)
        return

    new = toml_table.put(text, SERVER, ENTRY)

    assert new.startswith(text.rstrip("\n"))
    assert toml_table.get(new, SERVER) == ENTRY
    assert toml_table.drop(new, SERVER).strip() == text.strip()


def test_a_table_that_is_there_is_changed_and_keeps_what_else_it_has() -> None:
    old = f'{CODEX}\n[mcp_servers.shelltie]\ncommand = "old"\nstartup_timeout_sec = 30\nargs = []\n'
    old += '[mcp_servers.shelltie.env]\nA = "1"\n'

    new = toml_table.put(old, SERVER, ENTRY)

    assert toml_table.get(new, SERVER) == {**ENTRY, "startup_timeout_sec": 30, "env": {"A": "1"}}
    assert tomllib.loads(toml_table.drop(new, SERVER)) == tomllib.loads(CODEX)
    assert toml_table.drop(CODEX, SERVER) == CODEX


@pytest.mark.parametrize("text", ["[", "a = = 1", '"\x00"'])
def test_what_is_not_toml_is_refused(text: str) -> None:
    for edit in (toml_table.drop, toml_table.get):
        with pytest.raises(ConfigWrong, match="not TOML"):
            edit(text, SERVER)


@pytest.mark.parametrize(
    "text", ["", "GOOSE_MODEL: x\n", GOOSE, "extensions: {}\n", "---\nx:\n- a\n"]
)
def test_a_block_is_added_and_taken_out_again(text: str) -> None:
    new = yaml_block.put(text, EXTENSION, {"enabled": True, "cmd": "/a b", "args": ["mcp"]})

    assert yaml_block.get(new, EXTENSION) == {"enabled": True, "cmd": "/a b", "args": ["mcp"]}
    assert new.count("shelltie:") == 1
    left = yaml_block.drop(new, EXTENSION)
    assert left.replace("extensions: {}\n", "") == text.replace("extensions: {}\n", "")
    assert yaml_block.put(new, EXTENSION, {"cmd": "x"}).count("shelltie:") == 1


def test_a_block_as_goose_writes_it_is_understood() -> None:
    block = ["    shelltie:", "        cmd: /bin/shelltie", "        args:", "        - mcp"]
    text = GOOSE.replace("GOOSE_MODE:", "\n".join([*block, "        - 'x'", "GOOSE_MODE:"]))

    assert yaml_block.get(text, EXTENSION) == {"cmd": "/bin/shelltie", "args": ["mcp", "x"]}
    assert "shelltie" not in yaml_block.drop(text, EXTENSION)
    assert "developer:   # stays" in yaml_block.drop(text, EXTENSION)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("extensions: {a: {}}\n", "by hand"),
        ("extensions:\n\ta: 1\n", "tabs"),
        ("extensions:\n- a\n", "by hand"),
        ("extensions:\n  - a\n", "by hand"),
        ("extensions:\n  {a: 1}\n", "by hand"),
        ('{"extensions": {}}\n', "by hand"),
        ("- a\n", "by hand"),
        ("---\na: 1\n...\n", "by hand"),
        ("a: 1\n---\nb: 1\n", "by hand"),
        ("? extensions\n: {}\n", "by hand"),
        ("\ufeffextensions: {}\n", "by hand"),
    ],
)
def test_yaml_of_another_style_is_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigWrong, match=told):
        yaml_block.put(text, EXTENSION, {"cmd": "x"})


@pytest.mark.parametrize("head", ["extensions: # mine", "extensions : {} # mine"])
def test_the_comment_of_the_outer_key_stays(head: str) -> None:
    new = yaml_block.put(f"{head}\nx: 1\n", EXTENSION, {"cmd": "x"})

    assert new.split("\n")[1:3] == ["  shelltie:", '    cmd: "x"']
    assert (new.count("extensions"), "# mine" in new) == (1, True)
    assert "{} # mine" in yaml_block.drop(new, EXTENSION)
