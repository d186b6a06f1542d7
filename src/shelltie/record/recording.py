"""Recorded output of a past run, with the time of each piece, for replay."""

from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.errors import OutputNotKept
from shelltie.output.timing_file import SUFFIX, pieces
from shelltie.record.past_runs import PastRun


@frozen
class Recording:
    """A run, what it printed, and when it had printed how much of that."""

    run: PastRun
    data: bytes
    times: list[tuple[float, int]]

    def chunks(self) -> list[tuple[float, bytes]]:
        """Each piece with its time."""
        starts = [0, *(end for _, end in self.times)]
        return [
            (at, self.data[start:end]) for start, (at, end) in zip(starts, self.times, strict=False)
        ]


def recording_of(run: PastRun) -> Recording:
    """What it printed, as far as that is kept.

    Raises: OutputNotKept.
    """
    if run.running:
        raise OutputNotKept(f"{run.id} still runs: shelltie logs {run.id}")
    if run.refused:
        raise OutputNotKept(f"{run.id} was refused, and printed nothing: {run.reason}")
    if run.file is None:
        if not (run.stdout or run.stderr):
            return Recording(run, b"", [])
        raise OutputNotKept(f"what {run.id} printed was not kept on disk (see output.keep)")
    path = Path(run.file)
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise OutputNotKept(f"what {run.id} printed is no longer kept: it was too old") from error
    except OSError as error:
        raise OutputNotKept(f"what {run.id} printed cannot be read: {error}") from error
    return Recording(run, data, pieces(path.with_suffix(SUFFIX), len(data)))
