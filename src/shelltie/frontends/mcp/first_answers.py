"""Cache of a client's first answers (initialize, tools/list): given again before the SDK is there.

What a server says about itself follows from its code, its settings and the client's own words, and
to import the SDK takes a second. So each answer is kept under a digest of all three, in a file of
its own, and the next server that is asked the same has it at hand.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from shelltie.basics.frozen import frozen
from shelltie.settings import paths, trust
from shelltie.settings.config import Config

_CACHED = {"initialize", "ping", "server/discover", "tools/list"}
_LINES_MAX = 32  # of a conversation; later ones are no first words
_ID_MAX = 200
_FILES_MAX = 64
_KEYS = {"jsonrpc", "id", "method", "params"}
_EXACT = 2**53  # whole numbers below it are the same in every JSON library


@frozen
class FirstRequest:
    """A request whose answer can be kept, and the name under which it is."""

    id: int | str
    method: str
    key: str


class Conversation:
    """The lines of one client from the first on, and what decides the answer to each.

    An answer depends on the opening request and on `initialize`, whatever else was said. At the
    first line that is not plain, and at the first call of a tool, nothing more can be kept.
    """

    def __init__(self, stamp: str) -> None:
        self._before = stamp
        self._ids: set[int | str] = set()
        self._lines = 0
        self.over = False

    def follow(self, line: bytes) -> FirstRequest | None:
        """The request in the next line, if its answer can be kept."""
        self._lines += 1
        if self.over or not line or line.isspace():
            return None
        message = _plain(line)
        self.over = (
            message is None
            or self._lines > _LINES_MAX
            or message.get("id") in self._ids
            or message["method"] == "tools/call"
        )
        if self.over or message is None or "id" not in message:
            return None
        return self._request(message)

    def _request(self, message: dict[str, Any]) -> FirstRequest | None:
        request, method = message.pop("id"), message["method"]
        said = json.dumps(message, sort_keys=True)
        key = hashlib.sha256(f"{self._before}\n{said}".encode()).hexdigest()
        if not self._ids or method == "initialize":
            self._before = key
        self._ids.add(request)
        return FirstRequest(request, method, key) if method in _CACHED else None


def _plain(line: bytes) -> dict[str, Any] | None:
    """A message that every reader of JSON reads alike: a request or a notification."""
    try:
        message = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not message.keys() <= _KEYS:
        return None
    request = message.get("id", 0)
    known = isinstance(request, str) and request.isascii() and len(request) <= _ID_MAX
    known |= type(request) is int and abs(request) < _EXACT
    params = message.get("params", {})
    whole = message.get("jsonrpc") == "2.0" and isinstance(params, dict)
    return message if known and whole and isinstance(message.get("method"), str) else None


class FirstAnswers:
    """The files of answers, for one server with its code and its settings."""

    def __init__(self, config: Config) -> None:
        self._folder = Path(config.state.dir) / "first-answers"
        self.stamp = _stamp(config)

    def find(self, request: FirstRequest) -> str | None:
        """The result that was kept, as JSON."""
        try:
            kept = self._file(request).read_text(encoding="utf-8")
            json.loads(kept)
        except (OSError, ValueError):
            return None
        return kept

    def keep(self, request: FirstRequest, result: str) -> None:
        """Have it at hand next time; that this may fail matters to nobody."""
        file = self._file(request)
        draft = file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_text(result, encoding="utf-8")
            draft.replace(file)
            kept = sorted(self._folder.iterdir(), key=lambda one: one.stat().st_mtime)
            for old in kept[:-_FILES_MAX]:
                old.unlink(missing_ok=True)

    def forget(self, request: FirstRequest) -> None:
        """What was kept is wrong."""
        with suppress(OSError):
            self._file(request).unlink(missing_ok=True)

    def _file(self, request: FirstRequest) -> Path:
        return self._folder / f"{request.key}.json"


def _stamp(config: Config) -> str:
    """Changes with Python, with every file of ours and of the SDK's, with settings and rules.

    No answer depends on rules, but a server whose rules are broken leaves, and answers nothing.
    """
    parts = [sys.version, repr(config)]
    for folder in (paths.rules_dir(), Path(trust.RULES, "rules")):
        with suppress(OSError):
            parts += sorted(_signatures(str(folder), ".toml", deep=True))
    for package in ("shelltie", "mcp", "mcp_types"):
        found = find_spec(package)
        for place in (found and found.submodule_search_locations) or ():
            # The SDK's files are not changed one by one: its folder is written anew.
            parts += sorted(_signatures(place, ".py", deep=package == "shelltie"))
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _signatures(folder: str, suffix: str, *, deep: bool) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if deep and entry.is_dir() and entry.name != "__pycache__":
                yield from _signatures(entry.path, suffix, deep=True)
            elif entry.name.endswith(suffix):
                status = entry.stat()
                yield f"{entry.path} {status.st_mtime_ns} {status.st_size}"
