"""Raw output: the bytes of a run as they were printed, the text of a session; at most so much.

A `Result` has text that was cleaned for a model; a framework wants the bytes, and cleans itself.
"""

from collections.abc import Sequence
from typing import Unpack

from shelltie.basics.frozen import frozen
from shelltie.frontends.api import Options, Terminal
from shelltie.frontends.reports.run_report import Result, report
from shelltie.model import Stream
from shelltie.running.run import Run
from shelltie.sessions.session import Session, SessionReading


@frozen
class RawResult:
    """A result with the ends of its streams; `both` has them in order of arrival."""

    result: Result
    stdout: bytes
    stderr: bytes
    both: bytes
    lost: int
    """How many bytes at the beginning are in none of them: there were more than the limit."""

    @property
    def timed_out(self) -> bool:
        """One of the two limits ended it."""
        return self.result.status == "timeout"

    @property
    def exit_code(self) -> int:
        """As a shell says it: 128 and the number of the signal that ended it."""
        return self.result.exit_code

    @property
    def why(self) -> str:
        """What ended it, and what to do next: for the message of an exception."""
        return self.result.hint or self.result.error or self.result.status


async def run_raw(
    terminal: Terminal, command: str | Sequence[str], limit: int, **options: Unpack[Options]
) -> RawResult:
    """Run a command to its end. Whoever is cancelled here has ended everything it started.

    Raises: InvalidParameters, CommandDenied, CannotStart; then nothing was started.
    """
    run = await terminal.start(command, **options)
    await terminal.supervisor.attend(run)
    return read_raw(run, limit)


def read_raw(run: Run, limit: int) -> RawResult:
    """What a run has printed, `limit` bytes of each stream at most: the last ones."""
    stdout, stderr, both = (
        run.output.view(stream, 0, limit) for stream in (Stream.STDOUT, Stream.STDERR, None)
    )
    lost = both.total - len(both.tail)
    return RawResult(report(run), stdout.tail, stderr.tail, both.tail, lost)


def bounded_text(session: Session, reading: SessionReading, most: int) -> str:
    """What a session printed from the start of a reading on, without the middle of what is too
    long.
    """
    start, stop = reading.start, reading.position
    if stop - start <= most and reading.end == stop:
        return reading.text
    head, tail = session.text(start, start + most // 2), session.text(stop - most // 2, stop)
    lost = stop - start - len(head) - len(tail)
    return f"{head}\n[{lost} characters are left out]\n{tail}"
