"""LocalProvider: runs commands on this machine, without isolation."""

from collections.abc import Callable
from pathlib import Path

from shelltie.keeper.binaries import choose
from shelltie.keeper.link import Link
from shelltie.keeper.protocol import LeashWord
from shelltie.model import Bar, Isolation
from shelltie.providers.files.place_files import PlaceFiles
from shelltie.providers.provider import Prepared
from shelltie.providers.spawn import LeashedProcess, spawn


class LocalProvider:
    """Starts commands here; its keeper starts with the first of them."""

    name = "local"
    isolation = Isolation.NONE
    bars: frozenset[Bar] = frozenset()

    def __init__(self, keeper: str | None = None, hidden: tuple[Path, ...] = ()) -> None:
        self._hidden = hidden
        self._argv, self.kind = choose(keeper)
        self._links: list[Link] = []  # the last one serves; older ones still have leashes

    async def ready(self, workspace: str) -> None:
        """See `Provider`."""

    def spawn(self, prepared: Prepared, listen: Callable[[LeashWord], None]) -> LeashedProcess:
        """See `Provider`."""
        return spawn(self._living_link(), prepared, listen)

    def files(self, workspace: str, *, secrets: bool) -> PlaceFiles:
        """See `FileProvider`."""
        # Most programs run commands alone, and these two take as long as one of them.
        from shelltie.providers.files.file_rules import FileRules
        from shelltie.providers.files.workspace_files import WorkspaceFiles

        return WorkspaceFiles(workspace, FileRules(self._hidden, masks_secrets=not secrets))

    async def close(self) -> None:
        """See `Provider`."""
        for link in self._links:
            await link.close()
        self._links = []

    def _living_link(self) -> Link:
        """A command may kill the keeper; the next one gets another."""
        if not self._links or not self._links[-1].alive:
            self._links.append(Link(self._argv, self.kind))
        return self._links[-1]
