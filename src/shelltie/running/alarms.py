"""Timer heap: one timer of the event loop for the deadlines of all runs."""

import asyncio
import heapq
import itertools
from collections.abc import Callable


class Alarm:
    """A time at which one owner wants to be woken. Owned by `Alarms`."""

    __slots__ = ("at", "wake")

    def __init__(self, wake: Callable[[float], None]) -> None:
        self.wake = wake
        self.at: float | None = None


class Alarms:
    """Wakes owners at their times.

    Setting an alarm to a later time is free: it still rings at the old time, and the owner, who is
    asked again what is due, sets it anew. So output moves a deadline without touching the heap.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heap: list[tuple[float, int, Alarm]] = []
        self._order = itertools.count()
        self._stale = 0
        self._timer: asyncio.TimerHandle | None = None

    def now(self) -> float:
        """The monotonic clock all deadlines are on."""
        return self._loop.time()

    def set(self, alarm: Alarm, at: float | None) -> None:
        """Ring at `at` at the latest; `None` never rings again."""
        if alarm.at is not None:
            if at is not None and alarm.at <= at:
                return
            self._stale += 1
        alarm.at = at
        if at is not None:
            heapq.heappush(self._heap, (at, next(self._order), alarm))
        if self._stale > 64 and self._stale * 2 > len(self._heap):
            self._tidy()
        elif at is not None:  # what is cancelled stays in the heap: the first is the same
            self._schedule()

    def _tidy(self) -> None:
        """Forget cancelled entries once they are the majority, so that short runs leave nothing."""
        self._heap = [entry for entry in self._heap if entry[2].at == entry[0]]
        heapq.heapify(self._heap)
        self._stale = 0
        self._schedule()

    def _schedule(self) -> None:
        first = self._heap[0][0] if self._heap else None
        if self._timer is not None:
            if first is not None and self._timer.when() <= first and not self._timer.cancelled():
                return
            self._timer.cancel()
            self._timer = None
        if first is not None:
            self._timer = self._loop.call_at(first, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._heap and self._heap[0][0] <= now:
            at, _, alarm = heapq.heappop(self._heap)
            if alarm.at == at:
                alarm.at = None
                self._loop.call_soon(alarm.wake, now)  # whatever one does, the others are woken
            else:
                self._stale -= 1
        self._schedule()
