"""Progress messages: elapsed time, last output and limits of a run in one line. Pure."""

from shelltie.basics.frozen import frozen
from shelltie.basics.times import human_duration, human_size
from shelltie.model import Limits

_SOON = 60.0  # seconds before an end that is worth a word
NOT_STARTED = "not started yet: it waits for its turn, a person's yes, or the server to be ready"


@frozen
class Status:
    """A run at one moment: its times in seconds, what it printed in bytes."""

    elapsed: float
    idle: float
    printed: int
    limits: Limits
    activity: str = ""


def line(status: Status) -> str:
    """`running 2m 10s, last output 40s ago, 12.3 KB, kill in 20s`."""
    printed = ["no output yet"]
    if status.printed:
        printed = [f"last output {human_duration(status.idle)} ago", human_size(status.printed)]
    said = [f"running {human_duration(status.elapsed)}", *printed, *_end(status)]
    if status.activity:
        said.append(f"now: {status.activity}")
    return ", ".join(said)


def _end(status: Status) -> list[str]:
    total, silence = status.limits.total, status.limits.silence
    left = None if total is None else total - status.elapsed
    quiet = None if silence is None else silence - status.idle
    if quiet is not None and 0 <= quiet <= min(_SOON, quiet if left is None else left):
        return [f"kill in {human_duration(quiet)} unless it prints"]
    return [f"kill in {human_duration(left)}"] if left is not None and 0 <= left <= _SOON else []
