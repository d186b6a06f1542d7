"""A log message about a run, as it goes to a client."""

from dataclasses import replace

from mcp_types import LoggingMessageNotification, LoggingMessageNotificationParams

from shelltie.events import Unusual
from shelltie.frontends.mcp.call import Subject
from shelltie.frontends.mcp.told import Told, data_of, level_of
from shelltie.frozen import frozen
from shelltie.output.redact import Redactor
from shelltie.running.sessions import Sessions
from shelltie.running.timeout_watchdog import LOGGER_NAME


@frozen
class Notices:
    """Writes them; it knows as which session a run goes on."""

    sessions: Sessions

    def about(self, event: Told, subject: Subject) -> LoggingMessageNotification:
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
