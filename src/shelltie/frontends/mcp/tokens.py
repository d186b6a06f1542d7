"""Who may use the HTTP server: a file of tokens, one a line, that nobody else can read."""

import hashlib
import hmac
import logging
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from shelltie.errors import ConfigWrong

_log = logging.getLogger(__name__)

_SHORTEST = 20  # characters; what a person makes up is shorter, and is guessed
_FILE_MAX = 64 * 1024
_HEAD = "# One token a line. Each is a client of its own; delete a line, and it is shut out.\n"
_Stamp = tuple[int, int, int, int]


class Tokens:
    """The tokens in a file, as it is now: it is read again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        """Make the file with a token in it if there is none.

        Raises: ConfigWrong.
        """
        self._path = path
        _create(path)
        self._stamp = _stamp(path)
        self._known = _read(path)

    def credential(self, token: str) -> str | None:
        """A name for whoever has this token, which does not give it away; `None` for nobody."""
        self._refresh()
        given = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        found = None
        for known in self._known:  # all of them, so that time tells nothing
            if hmac.compare_digest(known, given):
                found = _name(known)
        return found

    def revoked(self, credential: str) -> bool:
        """Whether whoever was known by this name no longer is."""
        self._refresh()
        return all(_name(known) != credential for known in self._known)

    def _refresh(self) -> None:
        with suppress(OSError):
            if (now := _stamp(self._path)) == self._stamp:
                return
            self._stamp = now
        try:
            self._known = _read(self._path)
        except ConfigWrong as error:
            if self._known:
                _log.warning("nobody can come in any more: %s", error)
            self._known = ()


def _name(known: bytes) -> str:
    return known.hex()[:16]


def _stamp(path: Path) -> _Stamp:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode


def _read(path: Path) -> tuple[bytes, ...]:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            _check(path, status)
            lines = file.read(_FILE_MAX).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise ConfigWrong(f"{path}: cannot be read: {error.strerror}") from error
    tokens = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not tokens:
        raise ConfigWrong(f"{path}: there is no token in it; delete it, and a new one is made")
    if short := next((n for n, token in enumerate(tokens, 1) if len(token) < _SHORTEST), None):
        raise ConfigWrong(
            f"{path}: token {short} has fewer than {_SHORTEST} characters and could be guessed;"
            " `openssl rand -hex 32` makes a good one"
        )
    return tuple(hashlib.sha256(token.encode()).digest() for token in tokens)


def _check(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_size > _FILE_MAX:
        raise ConfigWrong(f"{path}: no file, or larger than 64 KiB: these are no tokens")
    if status.st_mode & 0o077 or status.st_uid not in (0, os.geteuid()):
        raise ConfigWrong(f"{path}: others can read it; chown it to you and `chmod 600` it")


def _create(path: Path) -> None:
    """Whole and closed to others from its first moment; of two who do this, one is first."""
    if path.exists():
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{_HEAD}{secrets.token_urlsafe(32)}\n")
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            Path(draft).unlink()
    except OSError as error:
        raise ConfigWrong(f"{path}: no token can be kept there: {error.strerror}") from error
