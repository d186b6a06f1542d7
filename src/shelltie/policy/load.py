"""The policy file on disk: read at the start, and again whenever it has changed."""

import os
import stat
import time
from pathlib import Path

from shelltie.errors import PolicyWrong
from shelltie.policy.timeouts import TimeoutPolicy, fallback, parse

PROJECT_FILE = Path("config/terminal_timeout_policy.json")
SHIPPED_FILE = Path(__file__).with_name("default_policy.json")
SCHEMA_FILE = Path(__file__).with_name("policy.schema.json")

_SIZE_MAX = 1024 * 1024
# Two writes within one tick of a file system's clock (up to 2 s) leave the same time behind.
_TICK = 2.0
_Mark = tuple[int, int, int]
_UNREADABLE: _Mark = (0, 0, 0)


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
        self._content: bytes | None = None
        self._mark = _mark(path)
        self._load(until_it_exists if until_it_exists and self._mark is None else path)

    def current(self) -> TimeoutPolicy:
        """The policy of this moment; looks whether the file has changed."""
        mark = _mark(self.path)
        if mark != self._mark or (mark and time.time() - mark[0] / 1e9 < _TICK):
            self.force_reload()
        return self._policy

    def force_reload(self) -> None:
        """Read the file again, whether it seems changed or not."""
        self._mark = _mark(self.path)
        self._load(Path(self.origin) if self._mark is None else self.path)

    def _load(self, path: Path) -> None:
        try:
            content = _read(path)
            if content != self._content or self.origin != str(path):
                self._use(path, content)
        except PolicyWrong as error:
            self._content = None
            self._fail(str(error), ())

    def _use(self, path: Path, content: bytes) -> None:
        self._content, self.origin = content, str(path)
        policy, problems = parse(_decoded(content))
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


def _mark(path: Path) -> _Mark | None:
    """What changes when the file does; `None` when there is no file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return _UNREADABLE
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> bytes:
    try:
        with open(path, "rb", opener=_open_now) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise PolicyWrong("not a regular file")
            content = file.read(_SIZE_MAX + 1)
    except FileNotFoundError as error:
        raise PolicyWrong("no policy file") from error
    except (OSError, ValueError) as error:
        raise PolicyWrong(f"cannot be read: {getattr(error, 'strerror', error)}") from error
    if len(content) > _SIZE_MAX:
        raise PolicyWrong("larger than 1 MiB")
    return content


def _open_now(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # else a FIFO waits for its writer for ever


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PolicyWrong(f"not UTF-8 text: save it as UTF-8 ({error.reason})") from error
