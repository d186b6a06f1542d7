"""A workspace and what a trial would have left of it, made by hand as the kernel leaves it."""

import os
import stat
from pathlib import Path
from subprocess import run

from shelltie.trials.change_set import ChangeSet
from shelltie.trials.overlay_upper import file_clock, read_change_set
from shelltie.trials.transaction import restored_in


class TrialTrees:
    """`workspace` as it is, `upper` with what was written on trial; `begin` lies in between."""

    def __init__(self, place: Path) -> None:
        self.workspace = place / "workspace"
        self.upper = place / "upper"
        self.undo_dir = place / "undo"
        self.bases = place / "bases"
        self._place = place
        self._started = 0
        for folder in (self.workspace, self.upper, self.undo_dir):
            folder.mkdir()

    def begin(self) -> None:
        """The trial starts: whatever changes in the workspace from the next tick on is other's."""
        self._started = file_clock(self._place)
        while file_clock(self._place) == self._started:
            pass

    def read(self) -> ChangeSet:
        """What the trial changed."""
        return read_change_set(
            self.workspace,
            self.upper,
            started_ns=self._started,
            bases=self.bases,
            restored=restored_in(self.undo_dir),
        )

    def write(self, path: str, text: str | bytes) -> Path:
        """A file of the trial."""
        return put(self.upper / path, text)

    def delete(self, path: str) -> None:
        """Deleted on trial: a whiteout."""
        (self.upper / path).parent.mkdir(parents=True, exist_ok=True)
        os.mknod(self.upper / path, stat.S_IFCHR | 0o600, os.makedev(0, 0))


def put(path: Path, text: str | bytes) -> Path:
    """A file with this in it, and the directories above."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def git_init(place: Path, ignored: str = "") -> None:
    """A repository in which everything that is there is tracked."""
    put(place / ".gitignore", ignored)
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-qm", "first")):
        run(["git", *words], cwd=place, check=True, capture_output=True)


def contents(root: Path) -> dict[str, object]:
    """Every path below a directory, with its mode and what is in it."""
    found = dict[str, object]()
    for directory, directories, files in os.walk(root):
        for name in [*directories, *files]:
            path = Path(directory) / name
            mode = path.lstat().st_mode
            inner: object = None
            if stat.S_ISREG(mode):
                inner = path.read_bytes()
            elif stat.S_ISLNK(mode):
                inner = str(path.readlink())
            found[str(path.relative_to(root))] = (oct(mode), inner)
    return found
