"""Result: the JSON report about a run, the same from every front-end."""

from collections.abc import Callable, Iterator, Sequence

from shelltie.basics.frozen import frozen
from shelltie.basics.json_codec import as_json
from shelltie.basics.times import human_size, milliseconds
from shelltie.errors import CommandDenied
from shelltie.frontends.reports.verdict_report import (
    LimitsReport,
    ReasonReport,
    UsualReport,
    limits_report,
    reasons_report,
    usual_report,
)
from shelltie.limits.experience import proposed, summary
from shelltie.model import (
    ExitStatus,
    Isolation,
    Limit,
    Outcome,
    RefusedHost,
    State,
    Stream,
    Survivors,
)
from shelltie.output.redact import Redactor, both_ends
from shelltie.output.spool import Spool
from shelltie.output.store import Store
from shelltie.output.text import clean, excerpt, last_line
from shelltie.running.admission import kept_inside_by
from shelltie.running.exit_meaning import exit_meaning
from shelltie.running.hints import blocked_by_place, blocked_hint, hint, withheld_hint
from shelltie.running.on_trial import TrialReport
from shelltie.running.run import Run
from shelltie.running.tried_outside import TriedOutside, tried_outside
from shelltie.settings.paths import user_file
from shelltie.verdict import Rating, Verdict

_ALL = 1024 * 1024
_WORTH = 1.0  # seconds; nobody wants to know how long something short usually takes
_REASONS = {Limit.TOTAL: "exec_timeout", Limit.SILENCE: "no_output_timeout"}
_OFFER = "To run it outside, with one yes of a person: {}"


@frozen
class AttemptReport:
    """One of several attempts."""

    run_id: str
    status: str
    timeout_reason: str | None
    duration_ms: int
    exec_sec: float | None
    silence_sec: float | None


@frozen
class Result:
    """How a command went. The first seven fields are in every answer, whatever happened."""

    status: str
    stdout: str
    stderr: str
    exit_code: int
    timeout_reason: str | None
    termination_mode: str | None
    duration_ms: int
    signal: str | None
    limits: LimitsReport
    truncated: bool
    survivors: int
    leaked: bool
    leaked_pids: tuple[int, ...]
    provider: str
    isolation: str
    blocked: tuple[str, ...]
    verdict: str | None
    reasons: tuple[ReasonReport, ...]
    warnings: tuple[str, ...]
    hint: str | None
    run_id: str
    error: str | None
    cancelled: bool
    timed_out_at_ms: int | None
    stdout_bytes: int
    stderr_bytes: int
    output_file: str | None
    waits_for_input: bool
    cpu_ms: int | None
    cpu_ms_while_silent: int | None
    shell: str | None
    path_source: str
    cwd: str
    exhausted: tuple[str, ...]
    refused_hosts: tuple[RefusedHost, ...] = ()
    usual: UsualReport | None = None
    attempts: tuple[AttemptReport, ...] = ()
    exit_meaning: str | None = None  # where a code other than 0 is an answer and no failure
    trial: TrialReport | None = None
    tried_outside: TriedOutside | None = None
    at: str | None = None  # the place on another machine where it runs
    unreachable: bool = False  # its connection is lost, and it goes on there
    outside: str | None = None  # ask, or never: whether what blocked it can be left with a yes

    @property
    def failed(self) -> bool:
        """It did not end as it should: `grep` without a match did."""
        return self.status not in ("success", "running") and self.exit_meaning is None

    def to_json(self) -> dict[str, object]:
        """The object that goes on the wire."""
        return as_json(self)


def report(
    run: Run,
    shown: int = _ALL,
    *,
    redact: bool = False,
    attempts: Sequence[Run] = (),
    notes: Sequence[str] = (),
) -> Result:
    """The result of a run, or how it is so far, with at most `shown` bytes of its output.

    With `redact`, secrets in the output are replaced by their names. Of several `attempts` this
    was the last, and `notes` are warnings about them.
    """
    outcome, spool = run.outcome or _so_far(run), run.output.spool
    redactor = Redactor(run.surroundings.secrets) if redact else None
    stdout, stderr, truncated = shown_output(run.output, shown, redactor)
    barred, advice, tried = _advice(run, outcome, redactor)
    outside = _outside(run, barred)
    late = outcome.state is State.TIMED_OUT
    return Result(
        status=status_of(outcome),
        stdout=stdout,
        stderr=stderr or (f"shelltie: {outcome.error}\n" if outcome.error else ""),
        exit_code=-1 if late or outcome.exit.number is None else outcome.exit.number,
        timeout_reason=timeout_reason(outcome),
        termination_mode=termination_mode(outcome),
        duration_ms=milliseconds(outcome.duration),
        signal=outcome.exit.signal_name,
        limits=limits_report(run.rules.limits),
        truncated=truncated,
        survivors=outcome.survivors,
        leaked=outcome.leaked,
        leaked_pids=outcome.leaked_pids,
        provider=run.provider,
        isolation=str(run.isolation),
        blocked=barred,
        verdict=rating_of(run.verdict),
        reasons=_reasons(run.verdict),
        warnings=(*run.rules.limits.notes, *run.warnings, *notes, *_not_kept(spool)),
        hint=advice if outside != "never" else f"{advice} {_kept_inside(run)}",
        run_id=run.id,
        error=outcome.error,
        cancelled=outcome.state is State.KILLED,
        timed_out_at_ms=milliseconds(outcome.timed_out_after),
        stdout_bytes=run.output.total_of(Stream.STDOUT),
        stderr_bytes=run.output.total_of(Stream.STDERR),
        output_file=str(spool.path) if spool is not None and spool.stored else None,
        waits_for_input=outcome.sighting is not None and outcome.sighting.waits_for_input,
        cpu_ms=milliseconds(outcome.cpu),
        cpu_ms_while_silent=milliseconds(outcome.cpu_while_silent),
        shell=run.surroundings.shell,
        path_source=run.surroundings.path_source,
        cwd=run.surroundings.cwd,
        exhausted=outcome.exhausted,
        refused_hosts=outcome.refused_hosts,
        usual=_usual(run, outcome),
        attempts=tuple(map(_attempt, attempts)) if len(attempts) > 1 else (),
        exit_meaning=_exit_meaning(run, outcome),
        trial=None if run.trial is None else run.trial.report,
        tried_outside=tried,
        outside=outside,
        at=run.at,
        unreachable=not run.reachable and run.outcome is None,
    )


def next_steps(trial: TrialReport, say: Callable[[str], str]) -> str:
    """What can be done with it now; `say` puts an action into the words of a front-end."""
    actions = {"open": ("changes", "apply", "discard"), "applied": ("undo",)}
    return " · ".join(map(say, actions.get(trial.status, ())))


def _not_kept(spool: Spool | None) -> Iterator[str]:
    """What is missing in the file with its output."""
    if spool is not None and spool.problem:
        yield f"output beyond what is in memory was not kept: {spool.problem}"
    elif spool is not None and spool.full:
        kept = human_size(spool.stored)
        yield f"the output file has the first {kept}; of the rest only the end is kept"


def _advice(
    run: Run, outcome: Outcome, redactor: Redactor | None
) -> tuple[tuple[str, ...], str | None, TriedOutside | None]:
    """What its place has kept it from, what to do next, and what it tried: by its last words."""
    isolated = bool(run.bars) and not run.in_view
    tail = b"" if outcome.ok and not isolated else run.output.view(None, 0, 4096).tail
    barred, tried, last, said = run.stopped, None, "", ""
    if tail:
        last = clean(tail) if redactor is None else redactor.text(clean(tail))
        said = last_line(tail) if redactor is None else redactor.text(last_line(tail))
    text, cwd, refused = run.command.text, run.surroundings.cwd, outcome.refused_hosts
    if isolated:
        barred = blocked_by_place(outcome, last, run.bars, cwd, text)
        tried = tried_outside(last, barred, refused, cwd)
    why = blocked_hint(barred, run.provider, refused, text, last)
    told = outcome.undone or why or _hint(run, outcome, said)
    return tuple(map(str, barred)), told, tried


def outside_lines(result: Result, offer: str) -> Iterator[str]:
    """What it tried outside; and the `offer` of a front-end to run it there, where a yes does."""
    if result.tried_outside is not None:
        yield result.tried_outside.told
    if result.outside == "ask":
        yield _OFFER.format(offer).rstrip()


def kept_from(run: Run, offer: str, redactor: Redactor | None = None) -> tuple[str, ...]:
    """What isolation kept an ended run from, in lines, with the `offer` of a front-end to run it
    outside, or why that cannot be; none if nothing was blocked.
    """
    if run.outcome is None or not run.bars or run.in_view:
        return ()
    blocked, told, tried = _advice(run, run.outcome, redactor)
    outside = _outside(run, blocked)
    if outside is None:
        return ()
    lines = [told, tried.told if tried else None]
    lines.append(_kept_inside(run) if outside == "never" else _OFFER.format(offer))
    return tuple(filter(None, lines))


def _kept_inside(run: Run) -> str:
    told = kept_inside_by(str(run.kept_inside))
    return f"{told[0].upper()}{told[1:]}."


def _outside(run: Run, barred: Sequence[str]) -> str | None:
    """Whether a yes has it run outside, after what it was blocked by."""
    over = run.outcome is not None and run.outcome.state is not State.SPAWN_FAILED
    judged = run.isolation is not Isolation.NONE and run.verdict is not None
    if not barred or not over or not judged:
        return None
    return "ask" if run.kept_inside is None else "never"


def _attempt(run: Run) -> AttemptReport:
    outcome, limits = run.outcome or _so_far(run), run.rules.limits
    reason, took = timeout_reason(outcome), milliseconds(outcome.duration)
    return AttemptReport(run.id, status_of(outcome), reason, took, limits.total, limits.silence)


def _usual(run: Run, outcome: Outcome) -> UsualReport | None:
    """Only where it matters: it took too long, or longer than such commands do."""
    late = outcome.state is State.TIMED_OUT
    known = run.rules.experience.usual if late or outcome.duration >= _WORTH else None
    if known is None or not (late or outcome.duration > known.p95):
        return None
    limits = run.rules.limits
    return usual_report(known, limits, proposed(limits, known))


def _so_far(run: Run) -> Outcome:
    return Outcome(
        State.RUNNING,
        ExitStatus(),
        run.elapsed,
        idle=run.idle,
        sighting=run.look(),
        warnings=tuple(run.warnings),
        refused_hosts=run.refused_hosts,
    )


def _exit_meaning(run: Run, outcome: Outcome) -> str | None:
    if outcome.state is not State.FINISHED:
        return None
    complained = run.output.total_of(Stream.STDERR) > 0
    return exit_meaning(run.command.text, outcome.exit.code, complained=complained)


def _hint(run: Run, outcome: Outcome, said: str) -> str | None:
    if outcome.state is State.RUNNING or _exit_meaning(run, outcome) is not None:
        return None
    if outcome.state is State.FINISHED and not outcome.ok:
        where = str(user_file())
        withheld = withheld_hint(run.command.text, run.surroundings.withheld, said, where)
        if withheld is not None:
            return withheld
    kept = run.rules.survivors is not Survivors.KILL
    told = hint(outcome, run.rules.limits, run.command.text, said, kept=kept)
    known = run.rules.experience.usual if outcome.state is State.TIMED_OUT else None
    return told if told is None or known is None else f"{told} {summary(known)}"


def refusal_report(refusal: CommandDenied) -> dict[str, object]:
    """What there is to say about a command that was not run."""
    verdict = refusal.verdict
    return {
        "verdict": rating_of(verdict),
        "reasons": [] if verdict is None else [as_json(r) for r in reasons_report(verdict)],
        "details": refusal.details,
    }


def rating_of(verdict: Verdict | None) -> str | None:
    """Safe is only what two parsers agree on."""
    if verdict is None:
        return None
    proved = verdict.agreed or verdict.rating is not Rating.SAFE
    return str(verdict.rating if proved else Rating.UNKNOWN)


def _reasons(verdict: Verdict | None) -> tuple[ReasonReport, ...]:
    """Only for what is dangerous: nobody needs to be told why `npm test` is not proved safe."""
    if verdict is None or verdict.rating is not Rating.DANGEROUS:
        return ()
    return reasons_report(verdict)


def shown_output(
    output: Store, shown: int, redactor: Redactor | None = None
) -> tuple[str, str, bool]:
    """Both streams for a reader, in `shown` bytes together, and whether some is missing."""
    if not output.total:
        return "", "", False
    out, err = output.total_of(Stream.STDOUT), output.total_of(Stream.STDERR)
    for_err = min(err, max(shown // 2, shown - out))
    stdout, cut_out = _stream(output, Stream.STDOUT, shown - for_err, redactor)
    stderr, cut_err = _stream(output, Stream.STDERR, for_err, redactor)
    return stdout, stderr, cut_out or cut_err


def printed_text(run: Run, shown: int, *, redact: bool = False) -> str:
    """What a run printed for a reader, both streams as they came, in `shown` bytes."""
    redactor = Redactor(run.surroundings.secrets) if redact else None
    return _stream(run.output, None, shown, redactor)[0]


def _stream(
    output: Store, stream: Stream | None, budget: int, redactor: Redactor | None
) -> tuple[str, bool]:
    if not (output.total if stream is None else output.total_of(stream)):
        return "", False
    # The end of what was printed tells more than its beginning.
    head = budget * 2 // 5
    part = both_ends(output, stream, head, budget - head, redactor)
    text = excerpt(part.head, part.tail, part.omitted, how_to_read=_where(output))
    return text if redactor is None else redactor.text(text), part.omitted > 0


def _where(output: Store) -> str:
    spool = output.spool
    if spool is None or not spool.stored:
        return ""
    if spool.stored < output.total:
        return f"the first {human_size(spool.stored)} of all output are in {spool.path}"
    return f"read them in {spool.path}"


def status_of(outcome: Outcome | None) -> str:
    """`running`, `success`, `timeout` or `error`."""
    if outcome is None or outcome.state is State.RUNNING:
        return "running"
    if outcome.state is State.TIMED_OUT:
        return "timeout"
    return "success" if outcome.ok else "error"


def timeout_reason(outcome: Outcome | None) -> str | None:
    """`exec_timeout`, `no_output_timeout`, or nothing if it was no timeout."""
    return None if outcome is None or outcome.limit is None else _REASONS[outcome.limit]


def termination_mode(outcome: Outcome | None) -> str | None:
    """`soft` or `hard`, or nothing if nobody ended it."""
    return None if outcome is None or outcome.ended is None else str(outcome.ended)
