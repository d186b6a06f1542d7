"""Why a command is rated as it is, its limits and how long such commands take, as JSON.

What a dry run says as well: it needs no run, and loads nothing that one needs.
"""

from shelltie.basics.frozen import frozen
from shelltie.limits.experience import Usual
from shelltie.model import Limits
from shelltie.verdict import Verdict, foremost

_REASONS_MAX = 20  # for one command, and of each kind at least one


@frozen
class LimitsReport:
    """The limits that held, and who set them."""

    exec_sec: float | None
    silence_sec: float | None
    source: str
    category: str | None
    clamped: bool
    notes: tuple[str, ...]
    pattern: str | None = None


@frozen
class UsualReport:
    """How long commands of this shape take here, and limits that would fit if these do not."""

    shape: str
    runs: int
    p50_sec: float
    p95_sec: float
    suggested_exec_sec: float | None
    suggested_silence_sec: float | None


@frozen
class ReasonReport:
    """One thing that keeps a command from being safe; the span counts code points."""

    code: str
    rating: str
    message: str
    start: int
    end: int
    program: str
    rule: str
    wrappers: tuple[str, ...]


def reasons_report(verdict: Verdict) -> tuple[ReasonReport, ...]:
    """The reasons for the wire, the strictest first."""
    return tuple(
        ReasonReport(
            code=str(reason.code),
            rating=str(reason.rating),
            message=reason.message,
            start=reason.span.start,
            end=reason.span.end,
            program=reason.program,
            rule=reason.rule,
            wrappers=reason.wrappers,
        )
        for reason in foremost(verdict.reasons, _REASONS_MAX)
    )


def limits_report(limits: Limits) -> LimitsReport:
    """Limits for the wire."""
    return LimitsReport(
        limits.total,
        limits.silence,
        limits.source,
        limits.category,
        limits.clamped,
        limits.notes,
        limits.pattern,
    )


def words_of(source: str) -> str:
    """Where a limit comes from, without the regular expression that matched."""
    return "; ".join(part.partition(", pattern ")[0] for part in source.split("; "))


def usual_report(known: Usual, limits: Limits, better: Limits) -> UsualReport:
    """What is known of such commands, and the `better` limits if they are other ones."""
    changed = None if better == limits else better
    return UsualReport(
        known.shape,
        known.n,
        round(known.p50, 3),
        round(known.p95, 3),
        None if changed is None else changed.total,
        None if changed is None else changed.silence,
    )
