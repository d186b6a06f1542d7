"""HTTP request body (RFC 9112): where the one request of a proxied connection ends. Pure.

The host was asked about for one request. What a client sends after it is another one (pipelining),
with a target that nobody has judged; so it is not passed on.
"""

from collections.abc import Iterable

from shelltie.basics.lazy_regex import lazy

_LINE_MAX = 8 * 1024  # bytes of the line before a chunk, and of a trailer
_DIGITS = lazy(r"[0-9]{1,18}")
_CHUNK_LINE = lazy(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\0\r\n]*)?")
_TRAILER = lazy(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\0\r\n]*")


class RequestBody:
    """Takes bytes as they come, and gives back those that belong to the request.

    Raises: ValueError, for headers that leave in doubt where it ends.
    """

    def __init__(self, headers: Iterable[tuple[str, str]]) -> None:
        given = [(name.lower(), value.strip()) for name, value in headers]
        lengths = [value for name, value in given if name == "content-length"]
        codings = [value.lower() for name, value in given if name == "transfer-encoding"]
        if len(lengths) + len(codings) > 1:
            raise ValueError("more than one length of a body")
        if codings not in ([], ["chunked"]):
            raise ValueError("a transfer coding other than chunked")
        if not all(map(_DIGITS.fullmatch, lengths)):
            raise ValueError("a length that is no number")
        self._left = int(lengths[0]) if lengths else 0  # bytes of the body, or of a chunk
        self._line = b""
        self._expects = self._chunk_line if codings else None

    @property
    def ended(self) -> bool:
        """Whether all of it has been given back."""
        return not self._left and self._expects is None

    def admit(self, data: bytes) -> bytes:
        """The part of these bytes that belongs to it.

        Raises: ValueError.
        """
        admitted = bytearray()
        while data and not self.ended:
            if self._left:
                taken, data = data[: self._left], data[self._left :]
                self._left -= len(taken)
            else:
                taken, data = self._take_line(data)
            admitted += taken
        return bytes(admitted)

    def _take_line(self, data: bytes) -> tuple[bytes, bytes]:
        end = data.find(b"\n") + 1 or len(data)
        taken, rest = data[:end], data[end:]
        self._line += taken
        if len(self._line) > _LINE_MAX:
            raise ValueError("a line of a body that is too long")
        if self._line.endswith(b"\n"):
            line, self._line = self._line, b""
            if not line.endswith(b"\r\n"):
                raise ValueError("a line of a body that does not end as one")
            assert self._expects is not None
            self._expects(line[:-2])
        return taken, rest

    def _chunk_line(self, line: bytes) -> None:
        found = _CHUNK_LINE.fullmatch(line)
        if found is None:
            raise ValueError("no chunk")
        self._left = int(found[1], 16)
        self._expects = self._chunk_end if self._left else self._trailer

    def _chunk_end(self, line: bytes) -> None:
        if line:
            raise ValueError("a chunk that is longer than it says")
        self._expects = self._chunk_line

    def _trailer(self, line: bytes) -> None:
        if not line:
            self._expects = None
        elif not _TRAILER.fullmatch(line):
            raise ValueError("a header that is none")
