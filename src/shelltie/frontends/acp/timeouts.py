"""Timeout policy of ACP terminals: the call decides, else its session, else the host.

Without a rule there is no limit: the agent that drives the terminal has its own clock. Pure.
"""

from collections.abc import Mapping
from dataclasses import field
from pathlib import PurePosixPath

from shelltie.basics.frozen import frozen
from shelltie.basics.times import seconds
from shelltie.model import Escalation, Limits
from shelltie.shell.split import segments, strip_prefixes

_TEXT_MAX = 32 * 1024  # what is longer is not looked at, so that no text keeps the event loop busy


@frozen
class TerminalPolicy:
    """Seconds, by the name of the program and for all others; `None` is no limit.

    `escalation` is how a terminal is ended; `None` leaves that to the settings.
    """

    timeout: float | None = None
    commands: Mapping[str, float] = field(default_factory=dict)
    escalation: Escalation | None = None

    def of(self, text: str) -> tuple[float, str] | None:
        """The limit for a command and what it comes from; the longest of several programs'."""
        named = [(self.commands[name], name) for name in programs(text) if name in self.commands]
        if named:
            span, name = max(named)
            return span, f"for {name}"
        return None if self.timeout is None else (self.timeout, "for every command")


def programs(text: str) -> list[str]:
    """The names of the programs that a text starts, as far as they are plain."""
    words = (strip_prefixes(segment).split() for segment in segments(text[:_TEXT_MAX]))
    return [PurePosixPath(found[0]).name for found in words if found]


def limits_of(
    text: str, asked: float | None, session: TerminalPolicy | None, usual: TerminalPolicy
) -> Limits:
    """The limits of one terminal, and where they come from."""
    if asked is not None:
        return Limits(asked or None, None, "timeoutMs of the call")
    for policy, whose in ((session, "session policy"), (usual, "terminal policy")):
        found = None if policy is None else policy.of(text)
        if found is not None:
            return Limits(found[0] or None, None, f"{whose}, {found[1]}")
    return Limits(None, None, "no limit is set")


def command_timeouts(entries: tuple[str, ...]) -> dict[str, float]:
    """Seconds by program, from `cargo=600`.

    Raises: ValueError, with a message for whoever wrote it.
    """
    found: dict[str, float] = {}
    for entry in entries:
        name, equals, text = entry.partition("=")
        try:
            span = seconds(float(text), name) if equals and name else None
        except ValueError:
            span = None
        if span is None:
            raise ValueError(f"{entry!r} must be a program and its seconds, as in cargo=600")
        found[name.strip()] = span
    return found
