"""Retention: deletes the oldest journal entries, and records how far."""

import json
import math
import time
from contextlib import suppress

from shelltie.record.append import ChainWriter
from shelltie.record.chain import TRIMMED
from shelltie.record.facts import Fact
from shelltie.record.tables import plain
from shelltie.settings.all_settings import Retention

_DAY = 86400.0
_LEAST = 100  # entries that are kept, however little may be
_FEW = 50  # entries for which it is not worth an entry that says they are gone
_BEYOND = 2**62
_EXACT = 0.000_002  # seconds
# A run goes with its end.
_FORGET_RUNS = """
    DELETE FROM runs WHERE id IN
        (SELECT run FROM entries WHERE seq <= ? AND kind IN ('ended', 'lost'))"""
_FORGET_SERVERS = """
    DELETE FROM servers WHERE settled = 1 AND id IN
        (SELECT server FROM entries WHERE seq <= ? AND kind = 'server_closed'
        UNION SELECT json_extract(body, '$.server') FROM entries
        WHERE seq <= ? AND kind = 'server_died' AND json_valid(body))"""
_FORGET_SAMPLE = """
    DELETE FROM samples WHERE rowid = (SELECT rowid FROM samples
        WHERE shape = ? AND project = ? AND at BETWEEN ? AND ? LIMIT 1)"""
_SLICE = 2000  # entries; a slice takes some 30 ms, in which nobody else can write
_PAGES = 2000  # that are given back to the file system after a slice


def trim(book: ChainWriter, retention: Retention, now: float | None = None) -> bool:
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


def _through(book: ChainWriter, retention: Retention, now: float) -> int | None:
    """The last entry of the next slice; the newest entry always stays."""
    edges = book.connection.execute("SELECT min(seq), max(seq) FROM entries").fetchone()
    if edges[0] is None:
        return None
    first, last = edges
    ends = [_too_old(book, retention, now), _too_much(book, retention, first, last)]
    through = min(max(ends), first + _SLICE - 1, last - 1)
    return through if through >= first else None


def _too_old(book: ChainWriter, retention: Retention, now: float) -> int:
    """The last old entry before the first young one; 0 if there is none.

    What is not of the past was written while a clock was wrong, and says nothing.
    """
    if not retention.days:
        return 0
    edge = round((now - retention.days * _DAY) * 1_000_000)
    # From the oldest on, and not by an index: it ends where the first young one is.
    young = book.connection.execute(
        "SELECT seq FROM entries WHERE at BETWEEN ? AND ? ORDER BY seq LIMIT 1",
        (edge, round((now + _DAY) * 1_000_000)),
    ).fetchone()
    before = "SELECT max(seq) FROM entries WHERE at < ? AND seq < ?"
    row = book.connection.execute(before, (edge, _BEYOND if young is None else young[0])).fetchone()
    return row[0] or 0


def _too_much(book: ChainWriter, retention: Retention, first: int, last: int) -> int:
    """About as many as are too much; 0 if all fit, or if so few are left that it would not help."""
    size = _size(book) if retention.size else 0
    spare = last - first + 1 - _LEAST
    if size <= retention.size or spare < _FEW:
        return 0
    excess = (size - retention.size) / size * (last - first + 1)
    return first - 1 + min(spare, max(_FEW, math.ceil(excess)))


def _size(book: ChainWriter) -> int:
    """Bytes in use: pages that were emptied do not count."""
    pages, free, size = (
        book.connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


def _cut(book: ChainWriter, through: int, now: float) -> None:
    sql = book.connection.execute
    row = sql("SELECT hash FROM entries WHERE seq = ?", (through,)).fetchone()
    if row is None:  # another server was quicker
        return
    # By what the entries say, never by their time: clocks jump.
    _forget_samples(book, through)
    sql(_FORGET_RUNS, (through,))
    sql(_FORGET_SERVERS, (through, through))
    sql("DELETE FROM entries WHERE seq <= ?", (through,))
    book.add(Fact("", now, TRIMMED, {"through": through, "hash": row[0]}))


def _forget_samples(book: ChainWriter, through: int) -> None:
    ends = "SELECT at, body FROM entries WHERE seq <= ? AND kind = 'ended'"
    for at, body in book.connection.execute(ends, (through,)).fetchall():
        with suppress(ValueError, TypeError, KeyError, AttributeError):  # somebody changed it
            sample = json.loads(body)["sample"]
            keys = (plain(sample["shape"]), plain(sample["project"]))
            moment = at / 1_000_000
            edges = (moment - _EXACT, moment + _EXACT)
            book.connection.execute(_FORGET_SAMPLE, (*keys, *edges))
