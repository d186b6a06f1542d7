"""How long entries are kept. What goes is the oldest, and the chain says how far it went."""

import time

from shelltie.frozen import frozen
from shelltie.record.book import Book
from shelltie.record.chain import TRIMMED
from shelltie.record.facts import Fact

_DAY = 86400.0
_SLICE = 2000  # entries; a slice takes some 30 ms, in which nobody else can write
_PAGES = 2000  # that are given back to the file system after a slice


@frozen
class Retention:
    """The oldest may be so many days old, and all of them so large together; 0 is no limit."""

    days: float = 0.0
    size: int = 0


def trim(book: Book, retention: Retention, now: float | None = None) -> bool:
    """Remove a slice of what is too old or too much; true if there may be more.

    Raises: sqlite3.Error.
    """
    now = time.time() if now is None else now
    through = _through(book, retention, now)
    if through is None:
        return False
    with book.transaction():
        _cut(book, through, now)
    # One step a page: nothing is given back before the rows are fetched.
    book.connection.execute(f"PRAGMA incremental_vacuum({_PAGES})").fetchall()
    return True


def _through(book: Book, retention: Retention, now: float) -> int | None:
    """The last entry of the next slice; the newest entry always stays."""
    edges = book.connection.execute("SELECT min(seq), max(seq) FROM entries").fetchone()
    if edges[0] is None:
        return None
    first, last = edges
    ends = []
    if retention.days:
        # From the oldest on, and not by an index: the slice ends where the first young one is.
        young = book.connection.execute(
            "SELECT seq FROM entries WHERE at >= ? ORDER BY seq LIMIT 1",
            (round((now - retention.days * _DAY) * 1_000_000),),
        ).fetchone()
        ends.append((last if young is None else young[0]) - 1)
    if retention.size and _size(book) > retention.size:
        ends.append(first + _SLICE - 1)
    through = min(max(ends, default=0), first + _SLICE - 1, last - 1)
    return through if through >= first else None


def _size(book: Book) -> int:
    """Bytes in use: pages that were emptied do not count."""
    pages, free, size = (
        book.connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _cut(book: Book, through: int, now: float) -> None:
    sql = book.connection.execute
    row = sql("SELECT hash, at FROM entries WHERE seq = ?", (through,)).fetchone()
    if row is None:  # another server was quicker
        return
    digest, at = row
    sql("DELETE FROM entries WHERE seq <= ?", (through,))
    sql("DELETE FROM runs WHERE ended < ?", (at / 1_000_000,))
    sql("DELETE FROM samples WHERE at < ?", (at / 1_000_000,))
    sql(
        "DELETE FROM servers WHERE closed < ? AND id NOT IN (SELECT server FROM runs)",
        (at / 1_000_000,),
    )
    book.add(Fact("", now, TRIMMED, {"through": through, "hash": digest}))
