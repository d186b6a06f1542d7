"""JSON of a run for the web page: deadlines, limits, verdict, how it ended.

Times are by the clock on the wall, so that a row stays the same while nothing happens.
"""

import time

from shelltie.basics.json_codec import as_json
from shelltie.frontends.reports.verdict_report import limits_report, reasons_report
from shelltie.running.run import Run

_REASONS_MAX = 12
_WARNINGS_MAX = 20


def overview_of(run: Run, session: str | None) -> dict[str, object]:
    """All that can be told of it without a look at its processes."""
    outcome, command = run.outcome, run.command
    began = time.time() - run.now  # what to add to its clock
    reasons = () if run.verdict is None else reasons_report(run.verdict)
    return {
        "runId": run.id,
        "sessionId": session,
        "command": command.text,
        "cwd": run.surroundings.cwd,
        "pid": run.pid,
        "state": run.state,
        "startedAt": round(run.started_at, 1),
        "lastOutputAt": round(began + run.now - run.idle, 1),
        "outputBytes": run.output.total,
        "pty": None if run.size is None else as_json(run.size),
        "stays": run.stays and outcome is None,
        "takesInput": command.stays_open and outcome is None,
        "provider": run.provider,
        "at": run.at,
        "unreachable": not run.reachable,
        "trial": None if run.trial is None else run.trial.id,
        "isolation": run.isolation,
        "deadlines": [
            {
                "limit": one.limit,
                "at": round(began + one.at, 1),
                "warnAt": round(began + one.warn_at, 1),
                "span": one.span,
            }
            for one in run.deadlines
        ],
        "literal": run.rules.limits.literal or not run.rules.evidence,  # silence alone ends it
        "limits": as_json(limits_report(run.rules.limits)),
        "verdict": None if run.verdict is None else run.verdict.rating,
        "reasons": [as_json(reason) for reason in reasons[:_REASONS_MAX]],
        "warnings": list(run.warnings[-_WARNINGS_MAX:]),
        **_end(run),
    }


def _end(run: Run) -> dict[str, object]:
    outcome = run.outcome
    if outcome is None:
        return {"ended": False}
    return {
        "ended": True,
        "left": not run.settled,
        "exitCode": outcome.exit.number,
        "signal": outcome.exit.signal_name,
        "duration": round(outcome.duration, 3),
        "limit": outcome.limit,
        "stopReason": outcome.stop_reason,
        "error": outcome.error,
    }
