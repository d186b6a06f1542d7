"""What a client with a handshake is told of a run whose call was answered while it went on."""

from dataclasses import dataclass
from functools import partial

from anyio.abc import TaskGroup

from shelltie.events import Event, RunEnded
from shelltie.frontends.mcp.call import Context, Subject, owner_of
from shelltie.frontends.mcp.notice import Notices
from shelltie.frontends.mcp.speaker import Speaker
from shelltie.frontends.mcp.told import Told, Wanted, level_of
from shelltie.model import RunId


@dataclass(slots=True)
class _Kept:
    """A run that goes on, and how its client can be reached; `calls` follow it themselves."""

    calls: int = 0
    subject: Subject | None = None
    context: Context | None = None
    speaker: Speaker | None = None


class Afterwards:
    """Tells log messages only: progress ends with its call. What a call follows, the call tells."""

    def __init__(self, notices: Notices, wanted: Wanted) -> None:
        self._notices = notices
        self._wanted = wanted
        self._runs: dict[RunId, _Kept] = {}

    def leave(self, subject: Subject) -> None:
        """A call follows this run itself."""
        if subject.run.outcome is None:
            self._runs.setdefault(subject.run.id, _Kept()).calls += 1

    def take(self, subject: Subject, context: Context) -> None:
        """A call follows this run no longer; whoever made it still may want to know."""
        kept = self._runs.get(subject.run.id)
        if kept is None:
            return
        kept.calls -= 1
        kept.subject, kept.context = subject, context

    def hear(self, event: Event) -> None:
        """A listener of the bus."""
        if isinstance(event, RunEnded):
            self._runs.pop(event.run, None)
        elif isinstance(event, Told) and (kept := self._runs.get(event.run)) is not None:
            self._tell(event, kept)

    def _tell(self, event: Told, kept: _Kept) -> None:
        if kept.calls or kept.subject is None or kept.context is None:
            return
        context = kept.context
        if level_of(event) not in self._wanted.by(owner_of(context), context.protocol_version, {}):
            return
        tasks: TaskGroup = context.lifespan_context
        kept.speaker = kept.speaker or Speaker(tasks)
        notice = self._notices.about(event, kept.subject)
        kept.speaker.say(partial(context.session.send_notification, notice))
