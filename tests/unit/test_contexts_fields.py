"""What a caller may ask of a task context."""

import pytest

from shelltie.contexts import fields
from shelltie.contexts.fields import limits_for
from shelltie.environment.child import sift
from shelltie.errors import WrongFields
from shelltie.model import Limits
from shelltie.settings.all_settings import TaskLimits

BASE = sift({"PATH": "/usr/bin:/bin", "HOME": "/home/me"})


@pytest.mark.parametrize("task", ["a", "BUILD-001", "a.b_c-1", "-", "." * 128, "123"])
@pytest.mark.proves("C-36")
def test_a_good_task_id_has_nothing_wrong(task: str) -> None:
    assert fields.wrong_task(task) is None


@pytest.mark.parametrize("task", ["", "a b", "a/b", "ä", "a\n", "\0", "٣", "." * 129])
@pytest.mark.proves("C-36")
def test_a_bad_task_id_is_told_what_it_should_be(task: str) -> None:
    assert "letters" in (fields.wrong_task(task) or "")


@pytest.mark.parametrize("agent", ["agent-1", "claude@host", "org/agent:2", "a+b"])
def test_agents_have_the_names_that_agents_have(agent: str) -> None:
    assert fields.wrong_agent(agent) is None


@pytest.mark.parametrize("agent", ["", " ", "a b", "a;b", "$x", "`", "a\n", "\ud800"])
def test_an_odd_agent_is_refused(agent: str) -> None:
    assert fields.wrong_agent(agent) is not None


@pytest.mark.parametrize(
    ("value", "told"), [(None, "is missing"), (3, "not 3"), (True, "not True"), ([], "not []")]
)
def test_what_is_no_text_is_named(value: object, told: str) -> None:
    for check in (fields.wrong_task, fields.wrong_agent, fields.wrong_session):
        assert told in (check(value) or "")


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(WrongFields, match=r"task is missing.*; agent is bad") as caught:
        fields.check(task="is missing: give it", fine=None, agent="is bad")

    assert list(caught.value.fields) == ["task", "agent"]
    assert caught.value.code == "INVALID_PARAMETERS"


def test_secrets_and_our_own_names_are_taken_out() -> None:
    given = {"API_KEY": "x", "NODE_ENV": "test", "CAWS_TASK_ID": "mine", "NOTE": "ghp_" + "a" * 36}

    assert fields.wrong_variables(given, BASE) == {}
    assert fields.sanitized(given, BASE) == {"NODE_ENV": "test"}


def test_each_variable_that_is_refused_is_named() -> None:
    given = {"PATH": "/evil", "CI": "1", "LD_PRELOAD": "x.so", "": "x"}

    wrong = fields.wrong_variables(given, BASE)

    assert list(wrong) == ["environment.PATH", "environment.LD_PRELOAD", "environment.''"]
    assert "environment.pass" in wrong["environment.PATH"]


def test_a_variable_that_the_user_lets_pass_is_no_mistake() -> None:
    base = sift({"PATH": "/usr/bin"}, ["NODE_OPTIONS"])

    assert fields.wrong_variables({"NODE_OPTIONS": "--max-old-space-size=4096"}, base) == {}


@pytest.mark.parametrize(
    ("asked", "limits", "held", "clamped"),
    [
        (None, TaskLimits(), 60.0, False),
        (None, TaskLimits(default=600.0), 300.0, True),
        (120.0, TaskLimits(), 120.0, False),
        (600.0, TaskLimits(), 300.0, True),
        (600.0, TaskLimits(most=900.0), 600.0, False),
        (0.1, TaskLimits(), 0.1, False),
    ],
)
@pytest.mark.proves("T4-10", "C-22")
def test_a_time_is_at_most_what_is_allowed(
    asked: float | None, limits: TaskLimits, held: float, *, clamped: bool
) -> None:
    found = limits_for(asked, limits)

    assert (found.total, found.silence, found.clamped) == (held, None, clamped)
    assert bool(found.notes) is clamped


def test_a_time_says_where_it_came_from() -> None:
    assert limits_for(None, TaskLimits()) == Limits(60.0, None, "default of task sessions")
    assert limits_for(600.0, TaskLimits()).notes == (
        "the timeout of 10m was lowered to 5m, the most that is allowed",
    )
