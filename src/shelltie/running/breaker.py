"""Gives a machine that cannot start anything a rest. Pure: it is told the time."""

from shelltie.model import Outcome, State


class Breaker:
    """Open after so many commands in a row that could not be started, for `pause` seconds.

    Only what is the machine's fault counts. A command that fails is none of its business.
    """

    def __init__(self, failures: int, pause: float) -> None:
        self._most = failures
        self._pause = pause
        self._failed = 0
        self._open_until = 0.0

    def left(self, now: float) -> float:
        """Seconds in which nothing is started; then one command may try."""
        return max(0.0, self._open_until - now)

    def note(self, outcome: Outcome, now: float) -> None:
        """How a command ended."""
        if outcome.state is not State.SPAWN_FAILED or not outcome.may_pass:
            self._failed = 0
            return
        self._failed += 1
        if self._most and self._failed >= self._most:
            self._open_until = now + self._pause
