"""SessionReport: the JSON and texts about a session, redacted across reads."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from shelltie.basics.frozen import frozen
from shelltie.basics.times import human_duration
from shelltie.basics.visible_text import inline
from shelltie.errors import CommandDenied, RefusedByPerson, TerminalError, TooManySessions
from shelltie.frontends.reports.run_report import (
    Result,
    kept_from,
    refusal_report,
    status_of,
    termination_mode,
    timeout_reason,
)
from shelltie.model import ForwardedPort, State
from shelltie.output.redact import NEAR, Redactor
from shelltie.output.screen import ScreenText
from shelltie.output.text import clean, crop, last_line
from shelltie.sessions.session import Session, SessionReading
from shelltie.sessions.shell import CommandEnd


@frozen
class RedactedReading:
    """Knows secrets, and what was printed just `before` the piece that is shown."""

    redactor: Redactor
    before: str = ""

    @classmethod
    def about(cls, session: Session, start: int) -> Self:
        """For what a session printed from this place on."""
        before = session.text(max(0, start - NEAR), start)
        return cls(Redactor(session.run.surroundings.secrets), before)

    def prefix(self, text: str, shown: int, *, goes_on: bool) -> str:
        """The first characters of a text; what comes after them may belong to a secret, too."""
        first = len(self.before)
        around = self.before + text[: shown + NEAR]
        (piece,) = self.redactor.pieces(around, [(first, first + shown)], goes_on=goes_on)
        return piece

    def screen(self, shown: ScreenText, columns: int) -> str:
        """A secret that is too long for a row goes on in the next."""
        text, bounds = "", []
        for row in shown.text.split("\n"):
            bounds.append((len(text), len(text) + len(row)))
            text += row if len(row) == columns else f"{row}\n"
        return "\n".join(self.redactor.pieces(text, bounds))


def visible(
    text: str, shown: int, discretion: RedactedReading | None, *, raw: bool, goes_on: bool = False
) -> str:
    """The first characters of a text; if it `goes_on`, more of it will be printed."""
    told = text[:shown]
    if discretion is not None:
        told = discretion.prefix(text, shown, goes_on=goes_on and shown == len(text))
    if raw:
        return told
    cleaned = clean(told.encode("utf-8", "surrogateescape"))
    # Once more: what was between the characters of a secret, such as a colour, is gone now.
    return cleaned if discretion is None else discretion.redactor.text(cleaned)


CROP = 10_000
NOT_APPROVED = "User did not approve command execution"  # a person said no, and nothing else
NOT_RUN = "Not run"
_OUTSIDE = 'terminal_start with this command and isolation "outside".'
_CROPPED = "\n[...Output truncated...]"
_CROPPED_RESULT = "\n [...Results were too long, truncated...]"
_COLUMNS = (12, 30, 8, 7)
_TIMEOUTS = {"exec_timeout": "timeout (total)", "no_output_timeout": "timeout (silence)"}


@dataclass(frozen=True)
class SessionReport:
    """What one call learned about a session.

    `position` counts all characters printed so far; with `truncated`, the rest of what this call
    would have shown can be read from `read_from` on. `skipped` characters are lost for good. In a
    shell, `ended`, `status` and `exit_code` are those of the command, and `cwd` is where the shell
    is. `status` and the two below it say the same as of a run; a `lost` one ended with its server.
    """

    id: str
    command: str
    output: str
    position: int
    complete: bool
    exit_code: int | None
    running: bool
    waiting_for_input: bool
    password: bool
    last_line: str | None
    truncated: bool
    read_from: int | None
    skipped: int
    found: bool | None
    hint: str | None
    warnings: tuple[str, ...] = ()
    isolation: str | None = None  # of a run that was lost it is not known
    ended: bool | None = None
    cwd: str | None = None
    cursor_row: int | None = None
    cursor_column: int | None = None
    status: str = "running"
    timeout_reason: str | None = None
    termination_mode: str | None = None
    cancelled: bool = False
    ports: tuple[ForwardedPort, ...] | None = ()  # of an isolated one; None: none can be reached
    stays: bool = False  # it outlives this server


def session_report(
    session: Session,
    reading: SessionReading,
    *,
    raw: bool = False,
    limit: int = CROP,
    discretion: RedactedReading | None = None,
) -> SessionReport:
    """What a reading says, with at most `limit` characters of output."""
    shown = crop(reading.text, limit, "")
    cut = len(shown) < reading.position - reading.start
    seen, outcome = reading.sighting, session.run.outcome
    waits = seen is not None and seen.waits_for_input
    text = visible(reading.text, len(shown), discretion, raw=raw, goes_on=outcome is None)
    return SessionReport(
        id=session.id,
        command=session.run.command.text,
        output=text + (_CROPPED if cut else ""),
        position=reading.position,
        complete=reading.complete,
        exit_code=None if reading.exit is None else reading.exit.number,
        running=not session.complete,
        waiting_for_input=waits,
        password=waits and seen is not None and seen.password,
        last_line=last_line(text.encode("utf-8", "surrogateescape")) or None if waits else None,
        truncated=cut,
        read_from=reading.start + len(shown) if cut else None,
        skipped=reading.skipped,
        found=reading.found,
        hint=_hint(session, cut=cut, waits=waits),
        warnings=tuple(session.run.warnings[session.warnings_told :]),
        isolation=str(session.run.isolation),
        status=status_of(outcome),
        timeout_reason=timeout_reason(outcome),
        termination_mode=termination_mode(outcome),
        cancelled=outcome is not None and outcome.state is State.KILLED,
        ports=session.run.ports,
        stays=session.run.stays and outcome is None,
    )


def command_report(
    session: Session,
    end: CommandEnd,
    *,
    limit: int = CROP,
    discretion: RedactedReading | None = None,
) -> SessionReport:
    """What a command in a shell has done since the last answer."""
    made = session_report(session, end.reading, limit=limit, discretion=discretion)
    if made.truncated:
        made = _both_ends(session, end.reading, limit, discretion)
    status = made.status
    if end.ended and not session.complete:
        status = "success" if end.exit_code == 0 else "error"
    return replace(
        made,
        status=status,
        command=end.command,
        exit_code=end.exit_code,
        ended=end.ended,
        cwd=end.cwd,
        hint=_command_hint(made, end),
    )


def _both_ends(
    session: Session, reading: SessionReading, limit: int, discretion: RedactedReading | None
) -> SessionReport:
    """What went wrong stands at the end of what a command printed; so that is shown, too."""
    size = limit // 4
    made = session_report(session, reading, limit=limit - size, discretion=discretion)
    start = reading.position - size
    end = session.text(start, reading.position)
    about = None if discretion is None else RedactedReading.about(session, start)
    shown = visible(end, len(end), about, raw=False, goes_on=session.run.outcome is None)
    gap = f"\n[...{start - (made.read_from or start)} characters left out...]\n"
    return replace(made, output=made.output.removesuffix(_CROPPED) + gap + shown)


def screen_report(session: Session, shown: ScreenText, text: str) -> SessionReport:
    """What a terminal shows now; `text` is what may be seen of it."""
    made = session_report(session, session.reading(session.position))
    row, column = shown.cursor_row, shown.cursor_column
    return replace(made, output=text, cursor_row=row, cursor_column=column)


def _command_hint(made: SessionReport, end: CommandEnd) -> str | None:
    if made.hint is not None:
        return made.hint
    if not end.ended:
        return (
            "it has not ended: call terminal_continue without input to wait on, or interrupt it"
            ' with keys ["ctrl-c"]'
        )
    if end.earlier:
        return (
            f"{end.earlier} characters were printed between the commands: read them with"
            f" terminal_output from {end.earlier_from}"
        )
    return None


def _hint(session: Session, *, cut: bool, waits: bool) -> str | None:
    outcome = session.run.outcome
    if outcome is not None and outcome.error:
        return outcome.error
    if outcome is not None and outcome.stop_reason:
        return f"it was ended: {outcome.stop_reason}"
    if outcome is not None and outcome.limit is not None:
        return f"it was ended: timeout ({outcome.limit})"
    if kept := kept_from(session.run, _OUTSIDE):
        return " ".join(kept)
    if session.draws:
        return (
            'it draws on the whole screen: see it with terminal_output and view "screen", and press'
            " keys with terminal_continue"
        )
    if waits:
        return "it waits for input: answer with terminal_continue and stdin"
    if cut:
        return "read the rest with terminal_output"
    return None


def started_text(report: SessionReport) -> str:
    """The answer to a start."""
    head = ["Terminal Session Started", f"ID: {report.id}", f"Command: {report.command}"]
    head += [] if report.isolation in (None, "none") else [f"Isolation: {report.isolation}"]
    head += ["Stays: when this server ends, it goes on, and the next one has it"] * report.stays
    return _text([*head, f"Position: {report.position}", *_more(report, started=True)], report)


def continued_text(report: SessionReport) -> str:
    """The answer to a continuation, or to a look at older output."""
    head = [f"Terminal Session: {report.id}", f"Position: {report.position}"]
    complete = f"Complete: {str(report.complete).lower()}"
    return _text([*head, complete, *_more(report, started=False)], report)


def stopped_text(session_id: str) -> str:
    """The answer to a stop."""
    return f"Terminal session {session_id} terminated."


def list_text(sessions: list[Session]) -> str:
    """A table of sessions."""
    return table_text(
        (one.id, one.run.command.text, one.position, not one.complete, _age(one))
        for one in sessions
    )


def table_text(sessions: Iterable[tuple[str, str, int, bool, float]]) -> str:
    """The same of ids, commands, positions, whether they run, and since how many seconds."""
    rows = [
        (
            name,
            inline(" ".join(command.split()))[: _COLUMNS[1]],
            str(position),
            "Yes" if runs else "No",
            human_duration(max(1, int(elapsed))),
        )
        for name, command, position, runs, elapsed in sessions
    ]
    if not rows:
        return "No active terminal sessions."
    head = ("ID", "Command", "Position", "Running", "Uptime")
    return "\n".join(["Active Terminal Sessions:", *map(_aligned, [head, *rows])])


@frozen
class ListedSession:
    """A session in a list, for programs."""

    id: str
    command: str
    position: int
    running: bool
    status: str
    timeout_reason: str | None
    exit_code: int | None
    uptime_seconds: float
    waiting_for_input: bool
    ports: tuple[ForwardedPort, ...] | None  # None: none can be reached
    stays: bool


def listed(session: Session) -> ListedSession:
    """A session in a list."""
    seen, outcome = session.run.look(), session.run.outcome
    return ListedSession(
        id=session.id,
        command=session.run.command.text,
        position=session.position,
        running=not session.complete,
        status=status_of(outcome),
        timeout_reason=timeout_reason(outcome),
        exit_code=None if outcome is None else outcome.exit.number,
        uptime_seconds=round(_age(session), 1),
        waiting_for_input=not session.complete and seen is not None and seen.waits_for_input,
        ports=session.run.ports,
        stays=session.run.stays and outcome is None,
    )


def result_text(exit_code: int, output: str, problem: str | None, limit: int = CROP) -> str:
    """The answer of the tool `bash`; `problem` is what kept the command from its own end."""
    said = [f"Exit Code: {exit_code}", *([] if problem is None else [problem])]
    return "\n".join([*said, "", "Output:", crop(output, limit, _CROPPED_RESULT)])


def running_text(result: Result, advice: str, limit: int = CROP) -> str:
    """The answer of the tool `bash` about what goes on."""
    return "\n".join(
        [
            f"Still running: {advice}",
            "",
            "Output so far:",
            crop(merged(result), limit, _CROPPED_RESULT),
        ]
    )


def problem_of(result: Result, limit: int = CROP) -> str | None:
    """What an answer says before the output: that it took too long, that it ran isolated, and where
    all of it is.
    """
    lines = [f"Timed out: {result.hint}"] if result.status == "timeout" else []
    if result.isolation != "none":
        lines += [f"Isolation: {result.isolation}, by {result.provider}", *result.warnings]
        lines += [result.hint] if result.blocked and result.hint else []
        lines += [] if result.tried_outside is None else [result.tried_outside.told]
    if result.output_file and len(merged(result)) > limit:
        lines.append(f"All of the output: {result.output_file} (read its end with tail)")
    return "\n".join(lines) or None


def merged(result: Result) -> str:
    """Both streams."""
    return result.stdout + result.stderr


def refusal_text(error: TerminalError) -> str:
    """Why nothing was run."""
    if isinstance(error, RefusedByPerson):
        return f"{NOT_APPROVED}: {error}"
    return f"{NOT_RUN}: {error}" if isinstance(error, CommandDenied) else str(error)


def details(error: TerminalError) -> dict[str, object]:
    """What a program wants to know about it."""
    if isinstance(error, CommandDenied):
        return refusal_report(error)
    if isinstance(error, TooManySessions):
        return {"details": {"active": error.active, "max": error.most}}
    return {}


def _text(head: list[str], report: SessionReport) -> str:
    return "\n".join([*head, "", "Output:", report.output])


def _more(report: SessionReport, *, started: bool) -> list[str]:
    lines = ["Complete: true"] if report.complete and started else []
    lines += _ended(report)
    if report.skipped:
        lines.append(f"Skipped: {report.skipped} characters, which are no longer kept")
    if report.waiting_for_input:
        lines.append(f"Waiting for input: {'a password' if report.password else 'yes'}")
    if report.found is not None:
        lines.append(f"Found: {str(report.found).lower()}")
    lines += port_lines(report.ports, report.isolation)
    lines += [f"Warning: {warning}" for warning in report.warnings]
    if report.hint and not report.running and report.timeout_reason is None:
        lines.append(f"Note: {report.hint}")
    if report.read_from is not None:
        lines.append(f"Read on with terminal_output from: {report.read_from}")
    return lines


def port_lines(ports: Iterable[ForwardedPort] | None, isolation: str | None) -> list[str]:
    """What a session listens on in its sandbox or container, and where that can be reached."""
    if ports is None:
        return [f"Ports: what it listens on inside the {isolation} cannot be reached from outside"]
    return [
        f"Port: listens on {one.inside} inside the {isolation};"
        f" {one.problem or f'forwarded to {one.outside}'}"
        for one in ports
    ]


def _ended(report: SessionReport) -> list[str]:
    lines = [] if report.ended is None else [f"Ended: {str(report.ended).lower()}"]
    if report.timeout_reason is not None:
        lines.append(f"Timed Out: {_TIMEOUTS[report.timeout_reason]}")
    if report.complete or report.ended:
        known = "unknown" if report.exit_code is None else report.exit_code
        lines.append(f"Exit Code: {known}")
    if report.cwd is not None:
        lines.append(f"Directory: {report.cwd}")
    if report.cursor_row is not None:
        lines.append(f"Cursor: row {report.cursor_row}, column {report.cursor_column}")
    return lines


def _age(session: Session) -> float:
    """Seconds for which it has run, or did."""
    outcome = session.run.outcome
    return session.run.elapsed if outcome is None else outcome.duration


def _aligned(row: tuple[str, ...]) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row, _COLUMNS, strict=False)]
    return " | ".join([*cells, row[-1]])
