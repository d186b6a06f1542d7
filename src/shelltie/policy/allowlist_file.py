"""The allowlist on disk: read at the start, and again whenever it has changed."""

import time
from pathlib import Path

from shelltie.errors import ConfigWrong
from shelltie.policy.allowlist import Allowlist, parse
from shelltie.policy.checks import Wrong
from shelltie.policy.on_disk import TICK, Mark, mark, read_text

PROJECT_FILE = "apps/tools/caws/tools-allow.json"
BUILTIN = "builtin"
SHIPPED_FILE = Path(__file__).with_name("tools-allow.json")


def find_allowlist(project: Path, configured: str | None) -> "AllowlistFile":
    """The file somebody configured, or the project's own; `builtin` is the one we ship."""
    if configured == BUILTIN:
        return AllowlistFile(SHIPPED_FILE, BUILTIN)
    name = configured or PROJECT_FILE
    return AllowlistFile(project / name, name if configured is None else Path(name).name)


class AllowlistFile:
    """An allowlist that follows its file. Whatever is wrong with the file, nothing is allowed.

    `name` is what people are told instead of the whole path.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self._mark: Mark | None = None
        self._text: str | None = None
        self._allowlist = Allowlist(problem="not read yet")
        self._load()

    def current(self) -> Allowlist:
        """The allowlist of this moment; looks whether the file has changed."""
        now = mark(self.path)
        if now is None or now != self._mark or time.time() - now[0] / 1e9 < TICK:
            self._load()
        return self._allowlist

    def _load(self) -> None:
        self._mark = mark(self.path)
        try:
            text = read_text(self.path, guarded=True)
            if text != self._text:
                self._allowlist, self._text = parse(text), text
        except (ConfigWrong, Wrong) as error:
            self._allowlist, self._text = Allowlist(problem=f"{self.name}: {error}"), None
