import math

import pytest

from shelltie.agents.advice import FailedTask, advise
from shelltie.agents.agent_limits import agent_limits
from shelltie.errors import InvalidParameters
from shelltie.frontends.reports.agent_report import name_of, suggestions
from shelltie.settings.all_settings import AgentTaskSettings


@pytest.mark.parametrize(
    ("idle", "hard", "applied"),
    [
        (None, None, (300, 1200)),
        (1000, None, (60, 1200)),
        (10**9, None, (1800, 1200)),
        (None, 1, (300, 300)),
        (None, 10**9, (300, 3600)),
        (0, 0, (60, 300)),
        (10**400, 10**400, (1800, 3600)),
        (90_000, 600_000.5, (90, 600.0005)),
    ],
)
@pytest.mark.proves("T3-15", "S3-46", "S3-47", "S3-52", "S3-72", "C-2", "C-1", "S3-4", "S3-5")
def test_limits_are_moved_into_their_range(
    idle: object, hard: object, applied: tuple[float, float]
) -> None:
    limits = agent_limits(idle, hard)

    assert (limits.silence, limits.total) == pytest.approx(applied)
    asked = [value for value in (idle, hard) if value is not None]
    inside = [90_000, 600_000.5]
    assert limits.clamped == (bool(asked) and asked != inside)
    assert bool(limits.notes) >= limits.clamped


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1, True, "60000", [1], {}])
@pytest.mark.proves("T3-15", "C-3")
def test_what_is_no_number_of_milliseconds_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidParameters, match="idleTimeoutMs"):
        agent_limits(wrong)
    with pytest.raises(InvalidParameters, match="hardTimeoutMs"):
        agent_limits(None, wrong)


@pytest.mark.proves("T3-16", "S3-69")
def test_a_mode_has_limits_of_its_own_and_the_caller_beats_it() -> None:
    assert _both(agent_limits(mode="read-only")) == (120, 600)
    assert _both(agent_limits(mode="workspace-write")) == (300, 1200)
    assert _both(agent_limits(mode="cloud")) == (None, None)
    assert _both(agent_limits(90_000, None, "read-only")) == (90, 600)
    assert _both(agent_limits(None, 900_000, "cloud")) == (None, 900)
    assert agent_limits(mode="cloud").source == "mode cloud"


def _both(limits: object) -> tuple[float | None, float | None]:
    return limits.silence, limits.total  # type: ignore[attr-defined]  # a Limits


@pytest.mark.proves("C-17", "C-14")
def test_who_says_what_is_kept() -> None:
    caps = AgentTaskSettings(idle=5, idle_min=1, idle_max=10, hard=8, hard_min=1, hard_max=8)

    assert agent_limits(caps=caps).literal is False
    assert agent_limits(2_000, caps=caps).literal is True
    assert "never fires" in agent_limits(9_000, caps=caps).notes[0]


@pytest.mark.parametrize(
    ("seen", "action", "retry"),
    [
        (FailedTask("inactivity", 3, False, {"type": "tests started"}, ""), "retry_longer", True),
        (
            FailedTask("deadline", 9, False, {"type": "authentication failed"}, ""),
            "fix_authentication",
            False,
        ),
        (FailedTask("inactivity", 0, True, None, ""), "different_approach", False),
        (FailedTask("inactivity", 0, False, None, "Loading"), "different_approach", False),
        (FailedTask("deadline", 9, False, {"type": "turn"}, ""), "retry_longer", True),
        (FailedTask("exit", 0, False, None, "HTTP 429 Too Many Requests"), "wait_and_retry", True),
        (FailedTask("exit", 0, False, None, "getaddrinfo ENOTFOUND api"), "check_network", True),
        (FailedTask("exit", 0, False, None, "open: Permission denied"), "fix_permissions", False),
        (FailedTask("exit", 0, False, None, "Segfault"), "read_error", False),
        (FailedTask("spawn", 0, True, None, ""), "fix_command", False),
        (
            FailedTask("exit", 0, False, None, "bash: line 1: login: command not found\n", 127),
            "install_program",
            False,
        ),
        (
            FailedTask("exit", 0, False, None, "sh: 1: codex: not found", 127),
            "install_program",
            False,
        ),
        (
            FailedTask("exit", 0, False, None, "a: command not found\nand more", 127),
            "read_error",
            False,
        ),
        (FailedTask("exit", 0, False, None, "a: command not found", 1), "read_error", False),
    ],
)
@pytest.mark.proves("S3-51")
def test_what_was_seen_last_says_whether_to_try_again(
    seen: FailedTask, action: str, retry: bool
) -> None:
    advice = advise(seen)

    assert (advice.action, advice.retry) == (action, retry)
    assert advice.why


@pytest.mark.proves("S3-25", "C-28")
def test_a_program_is_called_by_its_name() -> None:
    assert name_of("codex exec --json -") == "Codex CLI"
    assert name_of("A=1 /usr/local/bin/claude -p") == "Claude Code"
    assert name_of("./agent.py") == "agent.py"
    for text in (
        "for i in 1 2; do codex exec $i; done",
        "(cd x && codex)",
        "if true; then codex; fi",
    ):
        assert name_of(text) == "Codex CLI"
    for text in ("$AGENT -p", "while :; do :; done", "[[ -f x ]]", ""):
        assert name_of(text) == "The command"
    assert suggestions("The command")[1] == "Check its logs for errors"
    assert suggestions("Codex CLI") == [
        "Increase timeout for this task type",
        "Check Codex CLI logs for errors",
        "Verify network connectivity",
        "Try with smaller scope or simpler task",
    ]
