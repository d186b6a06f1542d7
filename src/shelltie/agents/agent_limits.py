"""Timeouts for agent tasks: defaults by mode (read-only, …), and the server's own caps. Pure.

Agents think for minutes without a word, so their limits are longer than those of commands.
"""

import math

from shelltie.basics.frozen import frozen
from shelltie.basics.times import human_duration
from shelltie.errors import InvalidParameters
from shelltie.model import Limits
from shelltie.settings.all_settings import AgentTaskSettings

# Seconds of silence and in all. What runs elsewhere has limits of its own there.
MODES: dict[str, tuple[float | None, float | None]] = {
    "read-only": (120.0, 600.0),
    "workspace-write": (300.0, 1200.0),
    "cloud": (None, None),
}


@frozen
class AllowedRange:
    """What a limit may be; seconds."""

    least: float
    most: float


def agent_limits(
    idle_ms: object = None,
    hard_ms: object = None,
    mode: str | None = None,
    caps: AgentTaskSettings = AgentTaskSettings(),  # noqa: B008  frozen
) -> Limits:
    """The limits that hold. What is out of range is moved to the nearest, and that is said.

    Raises: InvalidParameters for what is no number of milliseconds.
    """
    idle, hard = MODES[mode] if mode else (caps.idle, caps.hard)
    idle_span = AllowedRange(caps.idle_min, caps.idle_max)
    hard_span = AllowedRange(caps.hard_min, caps.hard_max)
    silence, idle_note = _clamped(idle_ms, "idleTimeoutMs", idle_span, idle)
    total, hard_note = _clamped(hard_ms, "hardTimeoutMs", hard_span, hard)
    notes = [note for note in (idle_note, hard_note) if note]
    clamped = bool(notes)
    if silence is not None and total is not None and silence >= total:
        notes.append(f"the inactivity limit never fires: {human_duration(total)} in all end first")
    given = idle_ms is not None or hard_ms is not None
    source = "the call" if given else f"mode {mode}" if mode else "agent tasks"
    literal = idle_ms is not None
    return Limits(total, silence, source, mode, literal, clamped, tuple(notes))


def _clamped(
    given: object, name: str, span: AllowedRange, usual: float | None
) -> tuple[float | None, str | None]:
    if given is None:
        return (None if usual is None else min(max(usual, span.least), span.most)), None
    wrong = isinstance(given, bool) or not isinstance(given, int | float)
    if wrong or not math.isfinite(_float(given)) or given < 0:  # type: ignore[operator]  # a number
        raise InvalidParameters(f"{name} must be a number of milliseconds, not {given!r}")
    wanted = _float(given) / 1000
    held = min(max(wanted, span.least), span.most)
    if held == wanted:
        return held, None
    way = "raised" if held > wanted else "lowered"
    return held, f"{name} {given} was {way} to {round(held * 1000)}"


def _float(number: object) -> float:
    """Also of an integer that no float can hold, which is just very long."""
    assert isinstance(number, int | float)
    return float(min(number, 10**15)) if isinstance(number, int) else number
