"""Judges lines that an agent types into a shell or interpreter.

A line counts when it may be run: then all of it is judged that has been sent and not been finished
yet, in each of its readings.
"""

from dataclasses import replace

from anyio import to_thread

from shelltie.model import Command
from shelltie.running.options import Requester
from shelltie.running.supervisor import Supervisor
from shelltie.sessions.line_readings import LINE_MAX, may_run, readings
from shelltie.sessions.session import Session

_LONG = 4096  # bytes; the event loop goes on while more is read in all its ways


async def admit(
    supervisor: Supervisor,
    session: Session,
    reader: Command,
    data: bytes,
    requester: Requester,
    *,
    end: bool = False,
) -> None:
    """Let this be typed for the command that reads it; `end` is the end of all input.

    Whoever calls holds `session.typing` until it has been sent.
    Raises: CommandDenied; then it may not.
    """
    pieces = (*session.unfinished, data)
    line = b"".join(pieces)
    if (end or len(line) > LINE_MAX or may_run(data)) and line.strip():
        found = (
            await to_thread.run_sync(readings, pieces) if len(line) > _LONG else readings(pieces)
        )
        command = replace(reader, stdin=line)
        await supervisor.admission.let_type(session.run, command, found, requester)
