"""Command boundary marks in a shell's output (begin, end, exit code). Pure."""

from collections.abc import Iterator

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy

_MARK_MAX = 8 * 1024  # a path is no longer than 4096 bytes
# Capitals and digits only: a terminal may be set to turn small letters into capitals.
_REST = lazy(rb"([BE]);(\d{1,18});(\d{1,3});([^\x00-\x1f\x7f]*)\x07")
_UNFINISHED = lazy(rb"[^\x00-\x1f\x7f]*")

# What a shell prints a mark with: the nonce, B or E, the number, the exit code, the directory.
FORMAT = r"\033]5454;%s;%s;%s;%s;%s\a"


@frozen
class CommandMark:
    """Command `number` begins here, or has ended with `exit_code`; where the shell now is."""

    begins: bool
    number: int
    exit_code: int
    cwd: str | None


class Marks:
    """Takes marks with the right nonce out of what arrives in any pieces.

    A mark with another nonce is output like any other. Only what may be the beginning of a mark is
    held back until more has come.
    """

    def __init__(self, nonce: str) -> None:
        self._head = f"\x1b]5454;{nonce};".encode()
        self._held = b""

    def feed(self, data: bytes) -> Iterator[bytes | CommandMark]:
        """The output and the marks in it, in their order."""
        data, self._held = self._held + data, b""
        while (at := data.find(self._head)) >= 0:
            if at:
                yield data[:at]
            rest = data[at + len(self._head) :]
            found = _REST.match(rest)
            if found is None and len(rest) < _MARK_MAX and _UNFINISHED.fullmatch(rest):
                self._held = data[at:]
                return
            if found is not None:
                kind, number, exit_code, cwd = found.groups()
                path = cwd.decode("utf-8", "surrogateescape") or None
                yield CommandMark(kind == b"B", int(number), int(exit_code), path)
            # Without `found` somebody who knows the nonce printed half a mark: it is not repeated.
            data = rest[found.end() if found else 0 :]
        whole = len(data) - self._begun(data)
        self._held = data[whole:]
        if whole:
            yield data[:whole]

    def flush(self) -> bytes:
        """No more will come: what was held back, unless it shows the nonce."""
        held, self._held = self._held, b""
        return b"" if held.startswith(self._head) else held

    def _begun(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of a mark."""
        at = data.rfind(b"\x1b", max(0, len(data) - len(self._head)))
        return len(data) - at if at >= 0 and self._head.startswith(data[at:]) else 0
