"""Debounce rule: when output has settled long enough to count as an answer. Pure.

Not before `least`; then as soon as nothing was printed for `settle`; at `most` in any case, counted
from the call. A process that has ended is never waited for, and neither is one that waits for
input: then the answer is there, however soon that is.
"""

from shelltie.model import Sighting
from shelltie.settings.all_settings import Waiting

_QUIET = 0.1  # seconds without output before it is worth asking whether it waits for input
_AGAIN = 0.1  # and until a second look
_PAUSE_MAX = 2.0  # and how often it is asked at least while it neither prints nor waits


AT_ONCE = Waiting(0.0, 0.0, 0.0)


def answer_at(waiting: Waiting, called: float, printed: float | None, *, ended: bool) -> float:
    """The moment to answer at, if nothing more is printed; a moment that has passed means now.

    `printed` is when the last byte since the call came, `ended` that the process has ended and all
    it printed was read.
    """
    if ended:
        return called
    settled = max(called + waiting.least, printed or called) + waiting.settle
    return min(settled, waiting.ends(called))


class Looks:
    """When to look whether a program waits for input, and when that is certain.

    One look may meet a program that is on its way: it has not woken up for what was typed, or waits
    for a moment between two things it does. So two looks in a row must say that it waits, and
    nothing may have been printed or computed between them.
    """

    def __init__(self, now: float) -> None:
        self.next_at = now + _QUIET
        self._pause = _QUIET
        self._before: Sighting | None = None
        self._printed = False

    def heard(self, now: float) -> None:
        """It printed something."""
        self.next_at = now + _QUIET
        self._pause = _QUIET
        self._before = None
        self._printed = True

    def certain(self, now: float, seen: Sighting | None) -> bool:
        """Whether it waits, by this look and the one before."""
        before, self._before = self._before, seen if self._waits(seen) else None
        if self._before is None:
            self.next_at = now + self._pause
            self._pause = min(2 * self._pause, _PAUSE_MAX)
            return False
        self.next_at = now + _AGAIN
        return before is not None and before.foreground_cpu == self._before.foreground_cpu

    def _waits(self, seen: Sighting | None) -> bool:
        """What has printed nothing may still be about to, beside a thread that reads."""
        return seen is not None and seen.waits_for_input and (self._printed or seen.first_thread)
