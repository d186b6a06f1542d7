"""TimeoutWatchdog: total and idle timeouts for a process that the caller started itself.

It has the names and units of the design it follows (milliseconds, `EIDLE`, `abort`). A `Run` needs
none of this: it has both clocks already.
"""

import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from shelltie.basics.times import iso_utc
from shelltie.errors import AlreadyAborted
from shelltie.model import EscalationStep, Limit, Limits, signal_name
from shelltie.output.head_tail import Window
from shelltie.output.text import decode, whole_start
from shelltie.running import messages
from shelltie.running.activity import alive
from shelltie.running.alarms import Alarm, Alarms
from shelltie.running.watchdog import Send, Step, TimeOut, Warn, Watchdog

LOGGER_NAME = "codex-timeout-watchdog"
TAIL_MAX = 65536
EVENTS_MAX = 50

TimeoutReasonName = Literal["inactivity", "deadline", "manual"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProgressUpdate:
    """How far it is: milliseconds elapsed, of the hard timeout."""

    progress_token: str | int | None
    progress: int
    total: int | None
    elapsed_ms: int
    last_activity: str


@dataclass(frozen=True)
class TimeoutWarning:
    """A log message at level warning; `data` says what will happen and when."""

    level: str
    logger: str
    data: dict[str, object]


@dataclass(frozen=True)
class TimeoutError:  # noqa: A001  the name of the design; ours is never imported bare
    """Why the process was ended. `kind` is what to look at."""

    code: Literal["ETIMEDOUT", "EIDLE"]
    kind: Literal["inactivity", "deadline"]
    reason: TimeoutReasonName
    message: str
    idle_ms: int
    wall_clock_ms: int
    started_at: str
    last_activity_at: str
    pid: int | None
    killed: bool
    signal: str | None
    errno: str = "ETIMEDOUT"


@dataclass(frozen=True)
class PartialResults:
    """What there is so far."""

    last_events: tuple[object, ...]
    stdout_tail: str
    stderr_tail: str
    last_activity_at: str
    events_count: int
    events_dropped: int


@dataclass(frozen=True)
class Callbacks:
    """Whom to tell. One that fails or raises never disturbs the watching."""

    on_progress: Callable[[ProgressUpdate], None] | None = None
    on_warning: Callable[[TimeoutWarning], None] | None = None
    on_timeout: Callable[[TimeoutError, PartialResults], None] | None = None
    on_activity: Callable[[], None] | None = None


class TimeoutWatchdog:
    """Watches from the moment it is made; belongs to the running event loop.

    `kill` sends a signal to everything the process is; by default that is its process group, if it
    leads one, and itself otherwise.
    """

    def __init__(
        self,
        pid: int | None,
        *,
        idle_timeout_ms: int = 300_000,
        hard_timeout_ms: int = 1_200_000,
        warn_lead_ms: int = 30_000,
        kill_grace_ms: int = 5_000,
        progress_interval_ms: int = 30_000,
        task_id: str | None = None,
        progress_token: str | int | None = None,
        subject: str = "Command",
        callbacks: Callbacks | None = None,
        kill: Callable[[int], None] | None = None,
    ) -> None:
        self.pid = pid
        self.aborted: TimeoutError | None = None
        self._limits = Limits(hard_timeout_ms / 1000, idle_timeout_ms / 1000, "watchdog", None)
        self._grace = kill_grace_ms / 1000
        self._interval = progress_interval_ms / 1000
        self._task_id = task_id
        self._token = progress_token
        self._subject = subject
        self._callbacks = callbacks or Callbacks()
        self._kill = kill or (lambda number: signal_group(pid, number))
        self._alarms = Alarms()
        self._alarm = Alarm(self._wake)
        self._progress = Alarm(self._report)
        now = self._alarms.now()
        self._dog = Watchdog(self._limits, now, warn_lead=warn_lead_ms / 1000, evidence=False)
        self._offset = time.time() - now  # from our clock to a person's
        self._stdout = Window(0, TAIL_MAX)
        self._stderr = Window(0, TAIL_MAX)
        self._events: deque[object] = deque(maxlen=EVENTS_MAX)
        self._events_count = 0
        self._stopped = False
        self._alarms.set(self._alarm, self._dog.next_at)
        self._alarms.set(self._progress, now + self._interval)

    def record_activity(self) -> None:
        """It lives. Ignored once it was aborted."""
        if self.aborted or self._stopped:
            return
        self._dog.last = self._alarms.now()
        self._tell(self._callbacks.on_activity)

    def record_stdout(self, chunk: bytes) -> None:
        """Output is activity, and its end is kept; also after an abort."""
        self._stdout.append(chunk)
        self.record_activity()

    def record_stderr(self, chunk: bytes) -> None:
        """See `record_stdout`."""
        self._stderr.append(chunk)
        self.record_activity()

    def record_event(self, event: object) -> None:
        """An event is activity; the last 50 are kept."""
        self._events_count += 1
        self._events.append(event)
        self.record_activity()

    def get_partial_results(self) -> PartialResults:
        """What there is so far, at any time."""
        return PartialResults(
            last_events=tuple(self._events),
            stdout_tail=_tail(self._stdout),
            stderr_tail=_tail(self._stderr),
            last_activity_at=self._clock(self._dog.last),
            events_count=self._events_count,
            events_dropped=self._events_count - len(self._events),
        )

    def stop(self) -> None:
        """The process has ended by itself: watch no more, signal nobody."""
        self._stopped = True
        self._alarms.set(self._alarm, None)
        self._alarms.set(self._progress, None)

    def abort(self, reason: TimeoutReasonName) -> TimeoutError | None:
        """End the process now; nothing happens after `stop`.

        Raises: AlreadyAborted the second time.
        """
        if self.aborted:
            raise AlreadyAborted("Watchdog already aborted")
        return None if self._stopped else self._abort(reason, self._alarms.now())

    def _wake(self, now: float) -> None:
        self._follow(self._dog.due(now), now)
        if not self._stopped:
            self._alarms.set(self._alarm, self._dog.next_at)

    def _follow(self, steps: list[Step], now: float) -> None:
        for step in steps:
            match step:
                case Warn():
                    self._warn(step)
                case TimeOut():
                    self._abort("deadline" if step.limit is Limit.TOTAL else "inactivity", now)
                case Send() if self._alive():
                    self._send(step.signal)
                case _:
                    pass

    def _abort(self, reason: TimeoutReasonName, now: float) -> TimeoutError:
        self._alarms.set(self._progress, None)
        error = self._error(reason, now)
        self.aborted = error
        self._tell(self._callbacks.on_timeout, error, self.get_partial_results())
        steps = self._dog.end(
            (
                EscalationStep(signal.SIGTERM, self._grace),
                EscalationStep(signal.SIGKILL, 1.0),
            ),
            now,
        )
        self._follow(steps, now)
        self._alarms.set(self._alarm, None)
        self._alarms.set(self._alarm, self._dog.next_at)
        return self.aborted

    def _error(self, reason: TimeoutReasonName, now: float) -> TimeoutError:
        killed = self._alive()
        inactive = reason == "inactivity"
        return TimeoutError(
            code="EIDLE" if inactive else "ETIMEDOUT",
            kind="inactivity" if inactive else "deadline",
            reason=reason,
            message=self._message(reason),
            idle_ms=round((now - self._dog.last) * 1000),
            wall_clock_ms=round((now - self._dog.started) * 1000),
            started_at=self._clock(self._dog.started),
            last_activity_at=self._clock(self._dog.last),
            pid=self.pid,
            killed=killed,
            signal=signal_name(signal.SIGTERM) if killed else None,
        )

    def _message(self, reason: TimeoutReasonName) -> str:
        if reason == "manual":
            return f"{self._subject} execution was manually aborted."
        limit = Limit.SILENCE if reason == "inactivity" else Limit.TOTAL
        return messages.limit_reached(limit, self._limits, self._subject)

    def _send(self, number: int) -> None:
        try:
            self._kill(number)
        except ProcessLookupError:
            return
        except OSError:
            if self.aborted:
                self.aborted = replace(self.aborted, killed=False, signal=None)
            return
        if self.aborted:
            self.aborted = replace(self.aborted, signal=signal_name(number))

    def _alive(self) -> bool:
        return self.pid is not None and alive(self.pid)

    def _warn(self, step: Warn) -> None:
        elapsed = self._alarms.now() - self._dog.started
        data: dict[str, object] = {
            "message": messages.warning_before_limit(step, elapsed, self._limits),
            "kind": "deadline" if step.limit is Limit.TOTAL else "inactivity",
            "idleMs": round(step.idle * 1000),
            "willAbortInMs": round(step.left * 1000),
            "taskId": self._task_id,
        }
        self._tell(self._callbacks.on_warning, TimeoutWarning("warning", LOGGER_NAME, data))

    def _report(self, now: float) -> None:
        total = self._limits.total
        elapsed = round((now - self._dog.started) * 1000)
        update = ProgressUpdate(
            self._token,
            elapsed,
            None if total is None else round(total * 1000),
            elapsed,
            self._clock(self._dog.last),
        )
        self._alarms.set(self._progress, now + self._interval)
        self._tell(self._callbacks.on_progress, update)

    def _clock(self, at: float) -> str:
        return iso_utc(at + self._offset)

    def _tell(self, callback: Callable[..., None] | None, *news: object) -> None:
        if callback is None:
            return
        try:
            callback(*news)
        except Exception:  # noqa: BLE001  whoever is told must not be able to stop the watching
            _log.debug("a callback of the watchdog failed", exc_info=True)


def _tail(window: Window) -> str:
    tail = window.tail_bytes()
    return decode(whole_start(tail) if window.dropped else tail)


def signal_group(pid: int | None, number: int) -> None:
    """Signal the group that `pid` leads, or `pid` alone; stopped ones are woken so that they die.

    Raises: ProcessLookupError when there is nobody, PermissionError when it may not be done.
    """
    if pid is None:
        raise ProcessLookupError
    leads = os.getpgid(pid) == pid
    send = os.killpg if leads else os.kill
    send(pid, number)
    if number == signal.SIGTERM:
        with suppress(OSError):
            send(pid, signal.SIGCONT)
