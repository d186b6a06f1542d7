"""Append facts to the journal: hash chain entries, and the table rows that follow."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from shelltie.keeper import process_identity
from shelltie.record.chain import GENESIS, ChainEntry, Head, link
from shelltie.record.facts import Fact
from shelltie.record.tables import Tables

_CHUNK = 1024 * 1024
_LAST = "SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1"
_as_text = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


class ChainWriter:
    """The tables, for the one thread that writes them, inside a transaction of its own."""

    def __init__(self, connection: sqlite3.Connection, server: str) -> None:
        self.connection = connection
        self.server = server
        self.head = Head(0, GENESIS)
        self._tables = Tables(connection, server)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is added in it, or nothing.

        Others may have written meanwhile: it goes on where the chain ends now. Raises:
        sqlite3.Error.
        """
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            row = self.connection.execute(_LAST).fetchone()
            self.head = Head(0, GENESIS) if row is None else Head(*row)
            self._tables.begin()
            yield
            self.connection.execute("COMMIT")
            self._tables.keep()
        except BaseException:
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            raise

    def add(self, fact: Fact) -> None:
        """Write it down.

        Raises: sqlite3.Error.
        """
        body = _as_text(fact.body)
        at = round(fact.at * 1_000_000)
        self._tables.apply(Fact(fact.run, at / 1_000_000, fact.kind, fact.body))
        entry = ChainEntry(self.head.seq + 1, at, self.server, fact.run, fact.kind, body)
        self.head = Head(entry.seq, link(self.head.hash, entry))
        values = (entry.seq, entry.at, entry.server, entry.run, entry.kind, entry.body)
        self.connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", (*values, self.head.hash)
        )


def complete(fact: Fact) -> None:
    """Add what is only known by looking: when its process was started, what is in its file.

    This may take a while, so it is done before the transaction.
    """
    if fact.kind == "started":
        fact.body["pidStarted"] = process_identity.started(cast(int, fact.body["pid"]))
    output = fact.body.get("output")
    if isinstance(output, dict) and output["file"] and output["sha256"] is None:
        output["sha256"] = _digest(Path(output["file"]), output["kept"])


def _digest(path: Path, size: int) -> str | None:
    """The SHA-256 of the first `size` bytes; nothing if the file is not that long any more."""
    digest = hashlib.sha256()
    with suppress(OSError), path.open("rb") as file:
        while size and (chunk := file.read(min(size, _CHUNK))):
            digest.update(chunk)
            size -= len(chunk)
        return None if size else digest.hexdigest()
    return None
