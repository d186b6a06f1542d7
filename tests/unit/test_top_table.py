"""Rows of `shelltie top`: what is said of a run at a moment, in the columns that there are."""

import pytest

from shelltie.basics import visible_text
from shelltie.frontends.cli.top import table

NOW = 1000.0


def run(**more: object) -> dict[str, object]:
    limit = {"limit": "silence", "at": NOW + 19, "warnAt": NOW + 5, "span": 60.0}
    row = {"command": "make", "cwd": "/home/me/src", "startedAt": NOW - 130, "deadlines": [limit]}
    return {"runId": "01R", "state": "running", "ended": False, **row, **more}


def text(line: table.Line) -> str:
    return "".join(part for part, _ in line)


@pytest.mark.parametrize(
    ("at", "said", "style"),
    [(0, "0:19", "green"), (6, "ends in 13 s", "yellow"), (11, "ends in 8 s", "red")],
)
def test_the_leash_drains_and_says_when_it_ends(at: float, said: str, style: str) -> None:
    line = table.run_line(run(), "claude", NOW + at, 80, "/home/me")
    bar = next((part, how) for part, how in line if "█" in part)

    assert said in text(line)
    assert "~/src" in text(line)
    assert bar == ("█" * (3 if at == 0 else 2), style)


def test_a_limit_far_away_and_one_that_has_passed_are_told() -> None:
    far = run(deadlines=[{"limit": "total", "at": NOW + 100, "warnAt": NOW - 1, "span": 5000.0}])

    assert "ends in 1:40" in text(table.run_line(far, "x", NOW, 80, ""))
    assert "ends in 0 s" in text(table.run_line(run(), "x", NOW + 99, 80, ""))
    assert "no limit" in text(table.run_line(run(deadlines=[]), "x", NOW, 80, ""))


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ({"state": "finished", "exitCode": 0}, " exit 0"),
        ({"state": "finished", "exitCode": 3}, "✗ exit 3"),
        ({"state": "timed_out", "limit": "silence"}, "✗ timeout (silence)"),
        ({"state": "lost"}, "✗ lost"),
    ],
)
def test_what_has_ended_says_how(end: dict[str, object], said: str) -> None:
    assert said in text(table.run_line(run(ended=True, **end), "x", NOW, 80, ""))


@pytest.mark.parametrize("width", [30, 40, 60, 61, 80, 81, 200])
@pytest.mark.parametrize("command", ["", "ls", "x" * 500, "漢字" * 50, "e\u0301" * 90])
def test_a_line_has_the_width_of_the_terminal_and_columns_stay_in_place(
    width: int, command: str
) -> None:
    row = run(command=command, cwd="/a/" + "長い" * 30)
    line, head = text(table.run_line(row, "an agent", NOW, width, "")), text(table.heading(width))
    asked = {"command": [command, "b"], "expiresAt": NOW + 5, "digest": "d"}

    assert visible_text.cells(line) == visible_text.cells(head) == width
    assert visible_text.cells(text(table.question_line(asked, "a", NOW, width))) == width


def test_what_waits_comes_by_age_and_what_runs_before_what_has_ended() -> None:
    rows: dict[str, dict[str, object]] = {
        "server/s": {"client": "claude"},
        "question/s/b": {"askedAt": 2, "command": ["b"]},
        "question/s/a": {"askedAt": 1, "command": ["a"]},
        "run/s/over": run(ended=True, endedAt=9.0),
        "run/s/old": run(startedAt=1.0, command="npm test"),
        "run/s/young": run(startedAt=2.0),
    }

    questions, runs = table.by_age(rows, "")

    assert questions == ["question/s/a", "question/s/b"]
    assert runs == ["run/s/young", "run/s/old", "run/s/over"]
    assert table.by_age(rows, "NPM") == (questions, ["run/s/old"])


def test_the_agent_is_named_without_its_version() -> None:
    assert table.asker({"client": "claude-code 2.1"}) == "claude-code"
    assert table.asker({}, {"client": "Claude Desktop"}) == "Claude Desktop"
    assert table.asker({}) == "-"


@pytest.mark.parametrize("width", [0, 1, 2, 27, 28])
def test_a_terminal_that_is_too_narrow_for_anything_is_no_error(width: int) -> None:
    asked = {"command": ["rm -rf build"], "expiresAt": NOW + 5, "digest": "d", "cwd": "/home/me"}

    assert text(table.question_line(asked, "claude", NOW, width))
    assert text(table.run_line(run(), "claude", NOW, width, ""))
    assert len(table.describe(asked, NOW, width)) == len(table.describe(run(), NOW, width)) == 2
