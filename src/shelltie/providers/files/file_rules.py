"""File rules: what of a workspace is masked, and what is read-only, as for commands there."""

from collections.abc import Callable, Collection
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.environment.masked_places import IN_PROJECT
from shelltie.errors import FileProtected
from shelltie.providers.bubblewrap.find_project_secrets import is_tracked
from shelltie.providers.workspace.boundaries import within
from shelltie.providers.workspace.guards import Guards


def _nothing_guarded() -> Collection[Path]:
    return ()


@frozen
class FileRules:
    """`hidden` are shelltie's own places. With `masks_secrets` the .env files of a project that git
    does not track cannot be read. `guarded` looks for what must stay as it is.
    """

    hidden: tuple[Path, ...] = ()
    masks_secrets: bool = False
    guarded: Callable[[], Collection[Path]] = _nothing_guarded

    def check_read(self, place: Path) -> None:
        """Raises: FileProtected if this cannot be read."""
        if why := self.masked(place):
            raise FileProtected(f"{place.name}: {why}")

    def masked(self, place: Path) -> str:
        """Why it cannot be read, or nothing."""
        if within(self.hidden)(place):
            return "it is shelltie's own"
        if self.masks_secrets and place.name in IN_PROJECT and not is_tracked(str(place)):
            return "it may hold secrets, and commands cannot read it unasked either"
        return ""

    def check_write(self, place: Path, guarded: Collection[Path], *, tree: bool = False) -> None:
        """Raises: FileProtected if this cannot be changed; of a `tree`, if something in it
        cannot.
        """
        fixed = (*self.hidden, *guarded)
        inside = tree and any(within((place,))(one) for one in fixed)
        if inside or within(fixed)(place):
            raise FileProtected(
                f"{place.name} cannot be changed from here: git, editors, agents or shelltie itself"
                " obey it. Change it outside, by hand"
            )


def guarded_by(guards: Guards) -> tuple[Path, ...]:
    """What isolated commands cannot change."""
    return (*guards.kept, *(one.path for one in guards.watched))
