import pytest

from shelltie.running.hints import withheld_hint


@pytest.mark.parametrize(
    ("text", "said", "names"),
    [
        ("gh pr list", "", ["GITHUB_TOKEN"]),
        ("cd x && /usr/bin/gh api user", "", ["GITHUB_TOKEN"]),
        ("aws s3 ls", "", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]),
        ("git push origin main", "", ["SSH_AUTH_SOCK"]),
        ("git -C x fetch", "", ["SSH_AUTH_SOCK"]),
        ("ssh host uptime", "", ["SSH_AUTH_SOCK"]),
        ("psql -c 'select 1'", "", ["DATABASE_URL"]),
        ("npx prisma migrate deploy", "", ["DATABASE_URL"]),
        ('curl -H "Authorization: token $GITHUB_TOKEN" https://x.y', "", ["GITHUB_TOKEN"]),
        ("echo ${DATABASE_URL:?}", "", ["DATABASE_URL"]),
        ("python app.py", "KeyError: 'DATABASE_URL'", ["DATABASE_URL"]),
    ],
)
def test_a_command_that_wanted_what_it_did_not_get_is_told(
    text: str, said: str, names: list[str]
) -> None:
    withheld = (
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "GITHUB_TOKEN"),
        "SSH_AUTH_SOCK",
    )

    told = withheld_hint(text, withheld, said, "/home/me/.config/shelltie/config.toml")

    assert told is not None
    assert all(name in told for name in names)
    assert "environment.pass in /home/me/.config/shelltie/config.toml" in told


@pytest.mark.parametrize(
    "text",
    [
        "make test",
        "git diff --exit-code",
        "ls gh-pages",
        "cat ssh.md",
        "GITHUB_TOKEN=x ./tool",
        "echo MY_GITHUB_TOKEN_2",
    ],
)
def test_others_are_not_told(text: str) -> None:
    assert withheld_hint(text, ("GITHUB_TOKEN", "SSH_AUTH_SOCK", "AWS_ACCESS_KEY_ID")) is None


def test_nothing_withheld_nothing_told() -> None:
    assert withheld_hint("gh pr list", ()) is None


def test_not_more_than_a_few_are_named() -> None:
    told = withheld_hint("aws s3 ls", [f"AWS_KEY_{i}" for i in range(50)])

    assert told is not None
    assert told.count("AWS_KEY_") == 4
