"""Timeout policy file: found, read, and reloaded when it changes."""

from pathlib import Path

from shelltie.errors import ConfigWrong
from shelltie.limits.policy import TimeoutPolicy, fallback, parse
from shelltie.settings.files import WatchedFile, read_small_text

PROJECT_FILE = Path("config/terminal_timeout_policy.json")
SHIPPED_FILE = Path(__file__).with_name("default_policy.json")
SCHEMA_FILE = Path(__file__).with_name("policy.schema.json")


def find(project: Path, configured: Path | None) -> "PolicyFile":
    """The file somebody configured, else the project's own, else the one we ship."""
    if configured is not None:
        return PolicyFile(project / configured)
    return PolicyFile(project / PROJECT_FILE, until_it_exists=SHIPPED_FILE)


class PolicyFile:
    """A policy that follows its file; it never raises.

    A file that was never usable gives the fallback, one that has become unusable leaves the last
    good policy in force. `until_it_exists` is read as long as `path` does not exist.
    """

    def __init__(self, path: Path, *, until_it_exists: Path | None = None) -> None:
        self.path = path
        self.origin = str(path)
        self.status = ""
        self.problems: tuple[str, ...] = ()
        self._policy = fallback("not read yet")
        self._text: str | None = None
        self._file = WatchedFile(path)
        self._load(path if self._file.exists else until_it_exists or path)

    def current(self) -> TimeoutPolicy:
        """The policy of this moment; looks whether the file has changed."""
        if self._file.changed():
            self._load_again()
        return self._policy

    def force_reload(self) -> None:
        """Read the file again, whether it seems changed or not."""
        self._file.changed()
        self._load_again()

    def _load_again(self) -> None:
        self._load(self.path if self._file.exists else Path(self.origin))

    def _load(self, path: Path) -> None:
        try:
            text = read_small_text(path)
            if text != self._text or self.origin != str(path):
                self._use(path, text)
        except ConfigWrong as error:
            self._text = None
            self._fail(str(error), ())

    def _use(self, path: Path, text: str) -> None:
        self._text, self.origin = text, str(path)
        policy, problems = parse(text, shipped=path == SHIPPED_FILE)
        if policy.fallback_reason is not None:
            self._fail(policy.fallback_reason, problems)
        else:
            self._policy, self.problems, self.status = policy, problems, "loaded"

    def _fail(self, reason: str, problems: tuple[str, ...]) -> None:
        self.problems = problems or (f"{self.origin}: {reason}",)
        if self._policy.fallback_reason is None:
            self.status = f"stale: last good kept ({reason})"
        else:
            self._policy = fallback(reason)
            self.status = f"fallback ({reason})"
