"""Which runs are worth remembering for those that come after. Pure."""

from shelltie.events import RunReady
from shelltie.model import Outcome, Sample, State

_NOT_RUN = (126, 127)  # there was nothing to run, so it says nothing about how long it takes


def sample_of(ready: RunReady, outcome: Outcome) -> Sample | None:
    """What is remembered of a run; nothing if somebody stopped it, or if it has no shape.

    A limit that the caller gave says nothing about the policy's.
    """
    if not ready.shape:
        return None
    seen = Sample(outcome.duration, outcome.longest_silence, outcome.longest_idle)
    match outcome.state:
        case State.FINISHED:
            ran = outcome.exit.signal is None and outcome.exit.code not in _NOT_RUN
            return seen if ran else None
        case State.TIMED_OUT if ready.limits.by_policy:
            return Sample(seen.duration, seen.silence, seen.idle, by_limit=True)
        case _:
            return None
