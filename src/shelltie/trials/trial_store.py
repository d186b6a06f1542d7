"""Store of trials on disk: each has a directory with what its command wrote, and a record of it.

Whoever works on a trial holds its lock (flock), which the kernel gives back when a process is
killed: so a trial whose command was interrupted is known, and can still be looked at.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from shelltie.basics.frozen import frozen, replace
from shelltie.basics.json_codec import as_json, from_json
from shelltie.basics.lazy_regex import lazy
from shelltie.errors import CannotStart, NoSuchTrial, TrialBusy, TrialError
from shelltie.trials.transaction import JOURNAL, RECORD
from shelltie.trials.tree_copy import remove_tree

_RECORD, _LOCK, _LAST = "trial.json", "lock", "last"
_GONE = "gone-"
_NUMBERED = lazy(r"t[0-9]+")
_TEXT_MAX = 4096  # of the command, in its record
EXITED, INTERRUPTED = "exit ", "interrupted"  # how its command ended


class TrialStatus(StrEnum):
    """Where a trial is. `OPEN` is one whose changes nobody has decided about, `DAMAGED` one whose
    record cannot be read: it can only be discarded.
    """

    RUNNING = "running"
    OPEN = "open"
    APPLIED = "applied"
    DISCARDED = "discarded"
    UNDONE = "undone"
    DAMAGED = "damaged"


@frozen
class Trial:
    """A command that ran on a copy-on-write view of its workspace.

    `outcome` says how it ended (`exit 0`), and is empty as long as nobody knows. `started_ns` is
    the time after which whatever changed in the workspace changed meanwhile. `workspace_id` tells
    whether another directory has that name now.
    """

    id: str
    folder: str
    workspace: str
    command: str
    run: str
    started_ns: int
    status: TrialStatus = TrialStatus.RUNNING
    outcome: str = ""
    why: str = ""  # it has this status
    workspace_id: str = ""
    tried: str = ""  # outside of the workspace, as far as that is known

    @property
    def upper(self) -> Path:
        """What the command wrote, as an overlay keeps it."""
        return Path(self.folder) / "upper"

    @property
    def bases(self) -> Path:
        """Texts as they were, to merge with what others change."""
        return Path(self.folder) / "bases"

    @property
    def undo_dir(self) -> Path:
        """What was there before its changes were applied."""
        return Path(self.folder) / "undo"


@frozen
class TrialBounds:
    """How much is kept: trials, seconds, and bytes of all together."""

    count: int = 50
    age: float = 7 * 86400.0
    size: int = 4 * 1024**3


class TrialStore:
    """All trials of a user. Several processes may use it at once."""

    def __init__(self, folder: Path, bounds: TrialBounds = TrialBounds()) -> None:  # noqa: B008  frozen
        self._folder = folder
        self._bounds = bounds

    def new(self, workspace: str, command: str, run: str) -> Trial:
        """A further trial, with a directory of its own. Nobody finds it before it begins.

        Raises: CannotStart.
        """
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            trial_id = self._next_id()
            place = self._folder / trial_id
            place.mkdir(mode=0o700)
            real, text = os.path.realpath(workspace), command[:_TEXT_MAX]
            return Trial(trial_id, str(place), real, text, run, time.time_ns())
        except OSError as error:
            raise CannotStart(
                f"no place for a trial in {self._folder}: {error.strerror}. Make room there, or set"
                " state.dir to a directory that can be written"
            ) from error

    def begin(self, trial: Trial) -> Trial:
        """The trial with the time and the directory that it begins with, on record.

        Raises: CannotStart.
        """
        try:
            found = os.stat(trial.workspace)  # noqa: PTH116  a text
            # The directory has the time of the last entry in it: of its lock, just now.
            started = os.stat(trial.folder).st_ctime_ns  # noqa: PTH116  a text
            identity = f"{found.st_dev}:{found.st_ino}"
            trial = replace(trial, started_ns=started, workspace_id=identity)
            self.save(trial)
        except OSError as error:
            raise CannotStart(f"no place for what it writes: {error}") from error
        return trial

    def find(self, trial_id: str) -> Trial:
        """The trial of that name; one whose process was killed is open.

        Raises: NoSuchTrial.
        """
        trial = _read(self._folder / trial_id) if trial_id.isalnum() else None
        if trial is None:
            known = ", ".join(one.id for one in self.all()[-5:]) or "none"
            raise NoSuchTrial(f"there is no trial {trial_id!r}; the last ones: {known}")
        if trial.status is TrialStatus.RUNNING and not self._locked(trial):
            return replace(trial, status=TrialStatus.OPEN, outcome=INTERRUPTED)
        return trial

    def all(self) -> list[Trial]:
        """All trials, the oldest first."""
        with suppress(OSError):
            found = [_read(place) for place in self._folder.iterdir()]
            return sorted(filter(None, found), key=lambda trial: int(trial.id[1:]))
        return []

    def save(self, trial: Trial) -> None:
        """Write its record, whole or not at all."""
        place = Path(trial.folder)
        draft = place / f"{_RECORD}.{os.getpid()}"
        draft.write_text(json.dumps(as_json(trial)), encoding="utf-8")
        draft.replace(place / _RECORD)

    def catch_up(self, trial: Trial) -> bool:
        """Save the status of a trial, if it has another one on disk; whether it had."""
        saved = _saved(Path(trial.folder))
        late = saved is not None and saved.status is not trial.status
        if late:
            self.save(trial)
        return late

    @contextmanager
    def locked(self, trial: Trial) -> Iterator[None]:
        """Nobody else works on it meanwhile.

        Raises: TrialBusy.
        """
        with contextlib.ExitStack() as stack:
            descriptor = os.open(Path(trial.folder) / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise TrialBusy(f"{trial.id} is still running, or in use: wait for it") from error
            yield

    def settle_killed(self, recover: Callable[[Path], object]) -> None:
        """Have each apply rolled back that was killed, before its half is taken for what people
        wrote.
        """
        with suppress(FileNotFoundError):
            for name in os.listdir(self._folder):  # noqa: PTH208  each command waits for this
                if os.path.lexists(f"{self._folder}/{name}/undo/{JOURNAL}"):
                    with suppress(TrialError, OSError):  # it is being applied just now
                        recover(self._folder / name / "undo")

    def delete(self, trial: Trial) -> None:
        """Forget all of it: nothing ran."""
        with suppress(OSError):
            remove_tree(Path(trial.folder))

    def put_away(self, trial: Trial) -> Path | None:
        """Have nobody find it any more, at once; its directory, which is to be removed."""
        with suppress(OSError):
            return Path(trial.folder).rename(self._folder / f"{_GONE}{trial.id}")
        self.delete(trial)
        return None

    def keep_changes(self, trial: Trial) -> None:
        """Delete what was needed only while its command ran, and what it wrote elsewhere."""
        self._remove(trial, besides=("upper", "undo", "bases"))

    def forget_contents(self, trial: Trial) -> None:
        """Delete what its command wrote; the record stays."""
        self._remove(trial, besides=("undo",))

    def _remove(self, trial: Trial, besides: tuple[str, ...]) -> None:
        with suppress(OSError):
            for entry in list(Path(trial.folder).iterdir()):
                if entry.is_dir() and entry.name not in besides:
                    remove_tree(entry)

    def prune(self) -> None:
        """Forget the oldest, where there is more than is kept; one that runs stays."""
        for gone in self._folder.glob(f"{_GONE}*"):  # whoever put it away was killed, or is at it
            with suppress(OSError):
                remove_tree(gone)
        trials, now = self.all(), time.time_ns()
        sizes = {trial.id: _size_of_tree(Path(trial.folder)) for trial in trials}
        total = sum(sizes.values())
        for at, trial in enumerate(trials[:-1]):  # the newest is somebody's who has just seen it
            old = (now - trial.started_ns) / 1e9 > self._bounds.age
            many = len(trials) - at > self._bounds.count
            if not (old or many or total > self._bounds.size):
                break
            with suppress(TrialBusy, OSError), self.locked(trial):
                remove_tree(Path(trial.folder))
                total -= sizes[trial.id]

    def _next_id(self) -> str:
        """`t1`, `t2`…: a number is never given twice, whatever has been forgotten."""
        descriptor = os.open(self._folder / _LAST, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            said = os.read(descriptor, 32).decode("ascii", "replace")
            known = [int(said)] if said.isdecimal() else [int(one.id[1:]) for one in self.all()]
            number = max(known, default=0) + 1
            os.pwrite(descriptor, str(number).encode(), 0)
        finally:
            os.close(descriptor)
        return f"t{number}"

    def _locked(self, trial: Trial) -> bool:
        try:
            with self.locked(trial):
                return False
        except (TrialBusy, OSError):
            return True


def _saved(place: Path) -> Trial | None:
    """The trial as its record has it; `None` where there is no record, as of one that begins."""
    try:
        said = json.loads((place / _RECORD).read_text(encoding="utf-8"))
        trial = from_json(Trial, said)
        if trial.id == place.name:
            return replace(trial, folder=str(place))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return _damaged(place) if _NUMBERED.fullmatch(place.name) else None


def _damaged(place: Path) -> Trial | None:
    why = f"{place / _RECORD} cannot be read; what its command wrote is in {place / 'upper'}"
    with suppress(OSError):
        since = place.stat().st_mtime_ns
        return Trial(place.name, str(place), "", "", "", since, status=TrialStatus.DAMAGED, why=why)
    return None


def _read(place: Path) -> Trial | None:
    """A trial with the status that it truly has: a process that applied or undid it may have been
    killed before it saved that. The record of a transaction is there from its commit until it is
    undone.
    """
    trial = _saved(place)
    if trial is None:
        return None
    committed = (trial.undo_dir / RECORD).exists()
    if committed and trial.status in (TrialStatus.RUNNING, TrialStatus.OPEN):
        ended = trial.outcome or INTERRUPTED
        return replace(trial, status=TrialStatus.APPLIED, outcome=ended)
    if not committed and trial.status is TrialStatus.APPLIED:
        return replace(trial, status=TrialStatus.UNDONE)
    return trial


def _size_of_tree(top: Path, most: int = 200_000) -> int:
    """The bytes that it has on disk, of at most so many files."""
    total, pending, left = 0, [str(top)], most
    while pending and left > 0:
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                left -= 1
                with suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
    return total
