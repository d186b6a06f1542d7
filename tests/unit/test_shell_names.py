import pytest

from shelltie.shell.parse import parse_compound_command, split_compound_words


@pytest.mark.proves("T2-7", "S2-4", "S2-20", "C-62")
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("cd frontend/chat && bun add x", ["cd", "bun"]),
        ("npm install; yarn build && npm test", ["npm", "yarn", "npm"]),
        ("ls -la | grep test", ["ls", "grep"]),
        ("ls > f", ["ls"]),
        ('echo "a" >> f', ["echo"]),
        ("&& || ; |", []),
        ("echo `grep t R | head -1`", ["echo", "grep", "head"]),
        ("echo 'a && b; c | d'", ["echo"]),
        ('echo "a && b; c | d"', ["echo"]),
        ("cmd1 && cmd2 || cmd3; cmd4 | cmd5 >> file", ["cmd1", "cmd2", "cmd3", "cmd4", "cmd5"]),
        ("for f in a b; do cat $f; done", ["cat"]),
        ("$PROGRAM x", ["$PROGRAM"]),
        ("", []),
    ],
)
def test_names_are_the_programs_in_order(text: str, names: list[str]) -> None:
    assert parse_compound_command(text) == names


@pytest.mark.proves("T2-8", "S2-76", "C-62")
def test_words_are_as_they_were_written() -> None:
    text = 'git add . && git commit -m "test" || echo "failed"'

    assert split_compound_words(text) == [
        *("git", "add", "."),
        *("git", "commit", "-m", '"test"'),
        *("echo", '"failed"'),
    ]
