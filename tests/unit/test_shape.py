"""What a command is, apart from what it is about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shelltie.shell.shape import program, shape


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cd web && NODE_ENV=test npm run build -- --watch | tail -5", "npm run build"),
        ("git push origin main", "git push"),
        ("git -C /elsewhere push", "git push"),
        ("make -j 4 test", "make test"),
        ("make -j4 test", "make test"),
        ("make PASSWORD=hunter2", "make"),
        ("python -m pytest tests -q", "python -m pytest"),
        (".venv/bin/pytest -k 'a b'", "pytest"),
        ("python3 scripts/train.py --epochs 3", "python3 train.py"),
        ("python -c 'print(1)'", "python -c"),
        ("sudo apt-get install -y foo", "apt-get install"),
        ("for i in 1 2; do cargo build --release; done", "cargo build"),
        ("(cd a; make) && git commit -m 'x y'", "make + git commit"),
        ("npm test; npm test", "npm test"),
        ("npx --yes eslint .", "npx eslint"),
        ("uv run pytest -x", "uv run pytest"),
        ("docker compose up -d", "docker compose up"),
        ("time ./gradlew check", "gradlew check"),
        ("curl -sH 'Authorization: Bearer abc' https://x.y | jq .", "curl"),
        ("a; b; c; d; e", "a + b + c + d"),
        ("ls -la", ""),
        ("cd x; echo done", ""),
        ("$UNKNOWN push", ""),
        ("", ""),
        ("'", ""),
    ],
)
def test_a_shape_is_programs_and_subcommands(text: str, expected: str) -> None:
    assert shape(text) == expected


def test_the_same_command_about_something_else_has_the_same_shape() -> None:
    assert shape("git commit -m 'one'") == shape("cd elsewhere; git commit --amend -m 'two'")


def test_a_name_is_never_empty() -> None:
    assert [program(text) for text in ("npm test", "echo x", "")] == ["npm", "shell", "shell"]


@given(st.text(max_size=300))
def test_any_text_has_a_short_shape_without_what_it_assigns(text: str) -> None:
    found = shape(text)

    assert len(found) < 600
    assert "=" not in found


def test_a_long_text_is_looked_at_only_so_far() -> None:
    assert shape("make " + "x" * 100_000).startswith("make")
