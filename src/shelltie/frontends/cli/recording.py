"""What a run of the past had printed, and when: for `export` and `replay`."""

from pathlib import Path

from shelltie import config as settings
from shelltie import whereabouts
from shelltie.errors import TerminalError
from shelltie.frozen import frozen
from shelltie.output.times import SUFFIX, pieces
from shelltie.record import past
from shelltie.record.past import PastRun


class NotKept(TerminalError):
    """Its output is not on disk, or not any more."""


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


def load(name: str) -> Recording:
    """The recording of the run with this id; its first characters will do.

    Raises: NoSuchRun, NotKept, Unusable, Unreadable.
    """
    run = past.find(settings.load(whereabouts.here()).journal, name)
    if run.running:
        raise NotKept(f"it still runs: shelltie logs {run.id}")
    if not (run.stdout or run.stderr) and run.duration is not None:
        return Recording(run, b"", [])
    if run.file is None:
        raise NotKept(
            f"what {run.id} printed was not kept on disk: only long output and sessions are,"
            ' unless output.keep = "all"'
        )
    path = Path(run.file)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotKept(f"what {run.id} printed is not there any more: {error}") from error
    return Recording(run, data, pieces(path.with_suffix(SUFFIX), len(data)))
