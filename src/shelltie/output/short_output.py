"""Short outputs on disk: one file for each run, written once when it ends; the newest stay.

What is long is in its spool already. This is for the many that print a few lines, so that `logs`,
`export` and `replay` have something to show: no lock, no fsync, one write.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from shelltie.model import RunId
from shelltie.output.spool_folder import Aside
from shelltie.output.timing_file import SUFFIX, TimingFile

_FILES_KEPT, _SWEEP_EVERY = 1000, 50  # files; so many more are made before somebody counts them
_ENDING = ".log"

WithoutSecrets = Callable[[str], str]
NewRedaction = Callable[[Mapping[str, str]], WithoutSecrets]


class ShortOutputs:
    """A folder of its own, beside the spools, so that a thousand of these push out none of those.

    What `redact` makes of the secrets of a run takes them out before anything is written.
    """

    def __init__(self, folder: Path, aside: Aside, redact: NewRedaction | None = None) -> None:
        self._folder = folder
        self._aside = aside
        self._redact = redact
        # By chance, so that of many processes with one command each some count, and not all.
        self._left = 1 + os.urandom(1)[0] % _SWEEP_EVERY

    def new(self, run: RunId, secrets: Mapping[str, str]) -> "ShortOutput":
        """For a run that begins now."""
        redact = None if self._redact is None else self._redact(secrets)
        return ShortOutput(f"{self._folder}/{run}", redact, self._made)

    def _made(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self._left = _SWEEP_EVERY
            with suppress(RuntimeError):  # everything is being closed: the next one does it
                self._aside(self.sweep)

    def sweep(self) -> None:
        """Remove the oldest; their names sort by time."""
        with suppress(OSError):
            names = sorted(name for name in os.listdir(self._folder) if name.endswith(_ENDING))  # noqa: PTH208  a thousand Paths are slow
            for name in names[: max(0, len(names) - _FILES_KEPT + _SWEEP_EVERY)]:
                path = self._folder / name
                path.unlink(missing_ok=True)
                path.with_suffix(SUFFIX).unlink(missing_ok=True)


class ShortOutput:
    """The file of one run, `stem` without its suffix. A disk that fails never disturbs the run:
    then nothing is kept.
    """

    def __init__(self, stem: str, redact: WithoutSecrets | None, made: Callable[[], None]) -> None:
        self._path = f"{stem}{_ENDING}"  # no Path: most print nothing
        self._redact = redact
        self._made = made
        self._times = TimingFile(f"{stem}{SUFFIX}")

    def note(self, position: int) -> None:
        """So much was printed by now."""
        self._times.note(position)

    def write(self, data: bytes) -> tuple[str, int] | None:
        """Keep all that was printed; where, and how many bytes."""
        kept = data
        if self._redact is not None:
            text = self._redact(data.decode("utf-8", "surrogateescape"))
            kept = text.encode("utf-8", "surrogateescape")
        try:
            self._create(kept)
        except OSError:
            return None
        # The positions of a text that was changed are others.
        if kept == data and not self._times.at_once:
            self._times.close()
        self._made()
        return self._path, len(kept)

    def _create(self, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            Path(self._path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self._path, flags, 0o600)
        try:
            if os.write(fd, data) < len(data):  # the disk is full: a part would be no output
                Path(self._path).unlink(missing_ok=True)
                raise OSError
        finally:
            os.close(fd)
