"""A run on another machine, whose connection may break (reachability, limits that hold there)."""

import time

from shelltie.events import ReachChanged
from shelltie.keeper import protocol
from shelltie.model import ProcessRow
from shelltie.providers.provider import FarProcess, Prepared
from shelltie.running import activity
from shelltie.running.run import Run

_LATER = 3.0  # seconds after which its keeper ends what we should have ended


class PlaceRun(Run):
    """A run whose processes are on another machine. While that is out of reach our clocks stand
    still, and its keeper there keeps the total limit.
    """

    _why_lost = ""

    def begin(self, prepared: Prepared) -> None:
        """See `Run`."""
        self.at = self.provider
        super().begin(prepared)

    def processes(self) -> list[ProcessRow]:
        """See `Run`: none of this machine."""
        return []

    def extend(self, by: float) -> None:
        """See `Run`. Its keeper knows, too."""
        super().extend(by)
        self._limit_keeper()

    def _new_observer(self, leash: int) -> activity.Observer | None:  # noqa: ARG002
        """Its processes are none of ours: what has their numbers here is something else."""
        return None

    def _hear(self, word: protocol.LeashWord) -> None:
        match word:
            case protocol.Started():
                self._limit_keeper()
                super()._hear(protocol.Started(0, 0))
            case protocol.Stuck():
                told = ", ".join(map(str, word.pids))
                self._why_lost = f"SIGKILL has not ended {told} at {self.provider}"
            case protocol.Noted():
                self._why_lost = word.message
                super()._hear(word)
            case protocol.Lost():
                self.on_lost.clear()  # who is left is on no leash there, and asks nobody here
                if self._ending.exit is None and self._ending.stop_reason is None:
                    self._ending.stop_reason = self._why_lost or "its keeper there was killed"
                super()._hear(word)
            case _:
                super()._hear(word)

    def _note_reach(self, word: protocol.Unreachable | protocol.Reachable) -> None:
        self.reachable = isinstance(word, protocol.Reachable)
        if isinstance(word, protocol.Unreachable):
            message = word.message
            self._alarms.set(self._alarm, None)
        else:
            message = f"{self.provider} can be reached again"
            self._watchdog.last = self._alarms.now()
            self._arm()
        self._ending.warnings.append(message)
        self._publish(
            ReachChanged(self.id, time.time(), self.provider, message, reachable=self.reachable)
        )
        self._turn.beat()

    def _give_up(self) -> None:
        """What cannot be reached cannot be ended by us; its keeper does that."""
        if self.reachable:
            super()._give_up()
        elif isinstance(self._process, FarProcess):
            until = time.strftime("%H:%M:%S", time.localtime(self._process.ends_at))
            self._why_lost = (
                f"it was asked to end while {self.provider} could not be reached: its keeper there"
                f" ends it by {until}, or as soon as the connection is back"
            )
            self.warn(self._why_lost)
            self._process.abandon()

    def _limit_keeper(self) -> None:
        """What we should have ended is ended, though we cannot be heard."""
        total = self.rules.limits.total
        if total is not None and isinstance(self._process, FarProcess):
            grace = sum(step.pause for step in self.rules.escalation)
            self._process.limit(max(0.001, total - self.elapsed) + grace + _LATER)
