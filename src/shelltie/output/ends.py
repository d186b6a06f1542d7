"""Both ends of what was printed, without halves of secrets where they are cut."""

from shelltie.model import Stream
from shelltie.output.redact import NEAR, Redactor
from shelltie.output.store import Excerpt, Store


def both_ends(
    output: Store, stream: Stream | None, head: int, tail: int, redactor: Redactor | None
) -> Excerpt:
    """The first and last bytes of a stream, without halves of secrets where they are cut."""
    part = output.view(stream, head, tail)
    if redactor is None or not part.omitted:
        return part
    wide = output.view(stream, head + NEAR, tail + NEAR)
    first, last = (wide.head, wide.tail) if wide.omitted else (wide.head + wide.tail,) * 2
    start = len(last) - len(part.tail)
    return Excerpt(
        _piece(first, 0, len(part.head), redactor),
        _piece(last, start, len(last), redactor),
        part.omitted,
        part.total,
    )


def _piece(data: bytes, start: int, end: int, redactor: Redactor) -> bytes:
    # A byte is a character here, so that the places are the same.
    (piece,) = redactor.pieces(data.decode("latin-1"), [(start, end)])
    return piece.encode("latin-1", "replace")
