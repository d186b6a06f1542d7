"""MCP log messages (`notifications/message`): payload, level, and logging/setLevel."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from mcp.server.connection import allowed_log_levels
from mcp_types import LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from shelltie.agents.timeout_watchdog import LOGGER_NAME
from shelltie.basics.frozen import frozen
from shelltie.events import Event, LimitNear, LimitReached, SilentButWorking, Unusual
from shelltie.frontends.mcp.request import FollowedRun
from shelltie.frontends.reports.state_names import limit_code
from shelltie.model import Limit
from shelltie.output.redact import Redactor
from shelltie.sessions.registry import Sessions

_log = logging.getLogger(__name__)

RunNotice = LimitNear | SilentButWorking | LimitReached | Unusual
NOTICES = frozenset((LimitNear, SilentButWorking, LimitReached, Unusual))  # the same, for the bus
LevelSet = frozenset[LoggingLevel]
_LEVELS: tuple[LoggingLevel, ...] = get_args(LoggingLevel)  # the mildest first
_USUAL: LoggingLevel = "info"
_CLIENTS_MAX = 10_000
_NEXT_STEPS = {
    Limit.SILENCE: (
        "wait: any output keeps it alive",
        "if it is normally silent this long, give it a longer limit next time",
    ),
    Limit.TOTAL: (
        "wait: what it printed until then is returned",
        "if it works, give it more time next time, or let it do less at once",
    ),
}
_WAIT = ("wait: its limits still hold",)
_ADVICE = {
    "input": ("nobody types here: end it, and give it stdin, or a flag such as -y",),
    "idle": ("look at what it printed; end it if you think that it hangs", *_WAIT),
}


class LogLevels:
    """Which levels each client of the eras with a handshake wants to hear."""

    def __init__(self) -> None:
        self._least: dict[str, LoggingLevel] = {}

    def set(self, owner: str, level: LoggingLevel) -> None:
        """From now on, only this level and what is worse."""
        self._least.pop(owner, None)
        self._least[owner] = level
        while len(self._least) > _CLIENTS_MAX:
            del self._least[next(iter(self._least))]

    def by(self, owner: str, version: str, meta: Mapping[str, object] | None) -> LevelSet:
        """What may be told now; without a handshake each request says so itself."""
        if version in MODERN_PROTOCOL_VERSIONS:
            return allowed_log_levels(version, meta)
        return frozenset(_LEVELS[_LEVELS.index(self._least.get(owner, _USUAL)) :])


def level_of(event: RunNotice) -> LoggingLevel:
    """How bad it is."""
    return "error" if isinstance(event, LimitReached) else "warning"


def data_of(event: RunNotice, task: str, elapsed: float) -> dict[str, object]:
    """What a client can act on. There is nothing of the output in it, and of the command at most
    which kind it is.
    """
    if isinstance(event, Unusual):
        return _unusual(event, task, elapsed)
    limit = Limit.SILENCE if isinstance(event, SilentButWorking) else event.limit
    code, kind = limit_code(limit)
    data: dict[str, object] = {"message": event.message, "kind": kind, "taskId": task}
    if isinstance(event, LimitReached):
        data["code"] = code
    if isinstance(event, LimitNear):
        data["willAbortInMs"] = round(event.left * 1000)
    times = {"idleMs": round(event.idle * 1000), "elapsedMs": round(elapsed * 1000)}
    steps = [] if isinstance(event, LimitReached) else [*_NEXT_STEPS[limit]]
    return {**data, **times, "nextSteps": steps}


def _unusual(event: Unusual, task: str, elapsed: float) -> dict[str, object]:
    return {
        "message": event.message,
        "kind": "unusual",
        "why": event.why,
        "taskId": task,
        "elapsedMs": round(elapsed * 1000),
        "nextSteps": [*_ADVICE.get(event.why, _WAIT)],
    }


def on_stderr(event: Event) -> None:
    """The same for whoever reads the server's log; a listener of the bus."""
    if isinstance(event, LimitReached):
        _log.error("run %s: %s", event.run, event.message)
    elif isinstance(event, LimitNear | SilentButWorking | Unusual):
        _log.warning("run %s: %s", event.run, event.message)


@frozen
class Notices:
    """Writes them; it knows as which session a run goes on."""

    sessions: Sessions

    def about(self, event: RunNotice, subject: FollowedRun) -> LoggingMessageNotification:
        """What the client is told."""
        run = subject.run
        if isinstance(event, Unusual):  # it names the kind of command, and so perhaps a secret
            plain = Redactor(run.surroundings.secrets).audit(event.message)
            event = replace(event, message=plain)
        data = data_of(event, subject.task or run.id, run.elapsed)
        if (session := self.sessions.of_run(run.id)) is not None:
            data["sessionId"] = session.id
        params = LoggingMessageNotificationParams(
            level=level_of(event), logger=LOGGER_NAME, data=data
        )
        return LoggingMessageNotification(params=params)
