"""What a model reads about a run: the output, one line of facts, and a hint if something is wrong.

Pure.
"""

from collections.abc import Iterator

from shelltie.basics.times import human_duration
from shelltie.frontends.reports.run_report import Result, next_steps, outside_lines
from shelltie.running.on_trial import TrialReport

_OUTSIDE = 'the same call of run with isolation "outside".'
_LIMITS = {"exec_timeout": "total", "no_output_timeout": "silence"}


def run_text(result: Result, printed: str, *, session: str = "", advice: str = "") -> str:
    """The text about a run that `printed` this; what goes on has a `session`, and `advice`."""
    facts = f"running, as session {session}" if session else ", ".join(_facts(result))
    lines = [f"[{facts}]"]
    lines += [f"Warning: {warning}" for warning in result.warnings if warning not in printed]
    lines += [] if result.trial is None else _trial(result.trial)
    hint = advice or result.hint
    lines += [hint] if hint and hint not in lines else []
    lines += outside_lines(result, _OUTSIDE)
    separator = "" if not printed or printed.endswith("\n") else "\n"
    return f"{printed}{separator}" + "\n".join(lines)


def _trial(trial: TrialReport) -> Iterator[str]:
    yield f"On trial {trial.id}, {trial.status}: {trial.summary}"
    yield from trial.changes
    yield from (f"A person must look at it first: {why}" for why in trial.objections)
    if steps := next_steps(
        trial, lambda action: f'trial {{"id": "{trial.id}", "action": "{action}"}}'
    ):
        yield steps


def _facts(result: Result) -> Iterator[str]:
    yield _end(result)
    if result.isolation != "none":
        yield f"{result.isolation} ({result.provider})"
    if result.attempts:
        yield f"attempt {len(result.attempts)}"


def _end(result: Result) -> str:
    took = human_duration(result.duration_ms / 1000)
    if result.error is not None:
        return f"not run: {result.error}"
    if result.timeout_reason is not None:
        limit = _LIMITS[result.timeout_reason]
        source, _, silence = result.limits.source.partition("; silence: ")
        source = (limit == "silence" and silence) or source
        return f"timeout ({limit}) after {took}, limit from {source}"
    if result.cancelled:
        return f"stopped after {took}"
    if result.signal is not None:
        return f"ended by {result.signal} after {took}"
    meaning = f" ({result.exit_meaning})" if result.exit_meaning else ""
    return f"exit {result.exit_code}{meaning} in {took}"
