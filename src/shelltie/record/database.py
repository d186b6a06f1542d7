"""SQLite database of the journal: schema, opening, WAL mode, errors."""

import math
import os
import sqlite3
import stat
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from shelltie.errors import JournalUnusable, TerminalError

_OURS = 0x73687469  # "shti", in the header of the file
_ROOM = 64 * 1024  # bytes; with less no file can be mapped beside the journal
WAL_MAX = 4 * 1024 * 1024  # bytes that wait in the WAL file before they are put in their place
_WAL_KEPT = 1024 * 1024  # of them remain as room for the next ones
_BUSY = 2.0  # seconds for another server to finish its transaction

# Each brings a file one version further; what was released is never changed.
_MIGRATIONS = (
    """
    CREATE TABLE entries (
        seq INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        server TEXT NOT NULL,
        run TEXT NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        hash TEXT NOT NULL
    );
    CREATE TABLE servers (
        id TEXT PRIMARY KEY,
        pid INTEGER NOT NULL,
        started TEXT NOT NULL,
        boot TEXT NOT NULL,
        namespace TEXT NOT NULL,
        opened REAL NOT NULL,
        closed REAL,
        settled INTEGER NOT NULL
    );
    CREATE INDEX servers_unsettled ON servers (settled) WHERE settled = 0;
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        server TEXT NOT NULL,
        state TEXT NOT NULL,
        command TEXT NOT NULL,
        cwd TEXT NOT NULL,
        client TEXT NOT NULL,
        agent TEXT NOT NULL,
        task TEXT NOT NULL,
        session TEXT NOT NULL,
        stays_open INTEGER NOT NULL,
        provider TEXT NOT NULL,
        verdict TEXT,
        category TEXT,
        began REAL NOT NULL,
        pid INTEGER,
        pid_started TEXT,
        ended REAL,
        duration REAL,
        exit_code INTEGER,
        limit_reached TEXT,
        stdout INTEGER,
        stderr INTEGER,
        file TEXT,
        leftovers TEXT
    ) WITHOUT ROWID;
    CREATE INDEX runs_lost ON runs (ended) WHERE state = 'lost';
    """,
    """
    CREATE TABLE samples (
        shape TEXT NOT NULL,
        project TEXT NOT NULL,
        at REAL NOT NULL,
        duration REAL NOT NULL,
        silence REAL NOT NULL,
        idle REAL NOT NULL,
        by_limit INTEGER NOT NULL
    );
    CREATE INDEX samples_of ON samples (shape, project, at);
    CREATE INDEX samples_at ON samples (at);
    """,
    # For what few entries and runs are, so that an ordinary run costs no more for it.
    """
    CREATE INDEX entries_refused ON entries (kind) WHERE kind = 'refused';
    CREATE INDEX entries_answered ON entries (at) WHERE kind = 'answered';
    CREATE INDEX runs_of_sessions ON runs (session) WHERE session != '';
    """,
)
VERSION = len(_MIGRATIONS)


# Whoever changed a row need not have written text; the others are to be read all the same.
_as_text = partial(str, encoding="utf-8", errors="surrogateescape")


def open_for_writing(path: Path, *, durable: bool) -> sqlite3.Connection:
    """The journal, made if it is not there; for one thread at a time.

    With `durable` a commit is on the disk even if the power fails. Nothing waits, here and later: a
    lock is an error, and checkpoints are left to the caller. Raises: JournalUnusable;
    sqlite3.Error, OSError for what may be different the next time.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    _check_kind(path)
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    try:
        _check_file(connection, path)
        if connection.execute("PRAGMA user_version").fetchone()[0] < VERSION:
            _migrate(connection, path)
        # Some file systems have none: then it works without.
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT}")
        connection.text_factory = _as_text
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """The journal, for whoever only looks.

    Raises: JournalUnusable; sqlite3.Error.
    """
    if not path.exists():
        raise JournalUnusable(f"{path}: there is no journal yet: nothing was recorded")
    _check_kind(path)
    # Not immutable: a server may write meanwhile, and what it wrote last is in the WAL file.
    try:
        return _opened(path, "mode=ro")
    except sqlite3.OperationalError as error:
        # Where nothing can be written, SQLite cannot make the files it shares a WAL with.
        waiting = path.with_name(f"{path.name}-wal")
        cannot = error_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
        if not cannot or (waiting.exists() and waiting.stat().st_size):
            raise
        return _opened(path, "mode=ro&immutable=1")


def _opened(path: Path, how: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{how}"
    connection = sqlite3.connect(address, uri=True, timeout=_BUSY, isolation_level=None)
    try:
        _check_file(connection, path)
    except BaseException:
        connection.close()
        raise
    connection.text_factory = _as_text
    return connection


def add_temporary_tables(connection: sqlite3.Connection) -> None:
    """Empty tables of runs and samples, before the journal's own; also where nothing is written.

    What names a table then means these, unless it says `main`.
    """
    connection.execute("PRAGMA temp.cache_size = -32000")  # KB: the rest is on disk
    connection.execute("PRAGMA temp.journal_mode = MEMORY")  # it is never rolled back
    for statement in ";".join(_MIGRATIONS).split(";"):
        words = statement.split()
        if words[:2] == ["CREATE", "TABLE"] and words[2] in ("runs", "samples"):
            connection.execute(statement.replace("CREATE TABLE", "CREATE TEMP TABLE", 1))


def schema(connection: sqlite3.Connection) -> tuple[dict[str, str], dict[str, str]]:
    """What a journal of that version consists of, by name, and what this one does."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    with closing(sqlite3.connect(":memory:")) as made:
        _run_scripts(made, _MIGRATIONS[:version])
        return _parts(made), _parts(connection)


def _parts(connection: sqlite3.Connection) -> dict[str, str]:
    # SQLite's own, for keys and statistics, have names that nobody else can use.
    rows = connection.execute(
        "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%'"
        " ESCAPE '\\'"
    )
    return {str(name): str(sql) for name, sql in rows}


def is_span(value: object) -> bool:
    """A column takes any value; this one is a time that can be calculated with."""
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def is_permanent(error: sqlite3.Error | OSError | TerminalError) -> bool:
    """It will be the same the next time: the file itself is damaged, or not for us."""
    if isinstance(error, JournalUnusable):
        return True
    permanent = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return isinstance(error, sqlite3.Error) and error_code(error) in permanent


def error_code(error: sqlite3.Error) -> int:
    """SQLite's primary code for it; 0 where there is none."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF


def explained(error: sqlite3.Error | OSError | TerminalError, path: Path) -> str:
    """What is wrong, for people: SQLite calls a full disk an I/O error where it maps a file."""
    codes = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)
    full = isinstance(error, sqlite3.Error) and error_code(error) in codes and _is_full(path.parent)
    return f"{error}: the disk is full" if full else str(error)


def _is_full(folder: Path) -> bool:
    with suppress(OSError):
        disk = os.statvfs(folder)
        return disk.f_bavail * disk.f_frsize < _ROOM
    return False


def _check_kind(path: Path) -> None:
    """What is written to a device is gone, and a pipe waits for ever. Raises: JournalUnusable."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise JournalUnusable(f"{path}: this is no regular file: set audit.path to one")


def _check_file(connection: sqlite3.Connection, path: Path) -> None:
    """Raises: JournalUnusable."""
    try:
        owner, version, empty = _header(connection)
    except sqlite3.DatabaseError as error:
        if error_code(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise JournalUnusable(
                f"{path}: this is no database, or a damaged one: {error}"
            ) from error
        raise
    if not empty and owner != _OURS:
        raise JournalUnusable(f"{path}: this is somebody else's database, and stays as it is")
    if version > VERSION:
        raise JournalUnusable(
            f"{path}: written by a newer shelltie (version {version}, we know {VERSION}):"
            " update, or set audit.path to another file"
        )


def _header(connection: sqlite3.Connection) -> tuple[int, int, bool]:
    """Whose it is, its version, and whether there is nothing in it: all of one moment."""
    inside = connection.in_transaction
    if not inside:
        connection.execute("BEGIN")
    try:
        empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
        owner = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    finally:
        if not inside:
            connection.execute("ROLLBACK")
    return owner, version, empty


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    with suppress(sqlite3.OperationalError):  # only possible, and needed, in a new file
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        _check_file(connection, path)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        _run_scripts(connection, _MIGRATIONS[version:])
        connection.execute(f"PRAGMA application_id = {_OURS}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _run_scripts(connection: sqlite3.Connection, scripts: Sequence[str]) -> None:
    for script in scripts:
        for statement in script.split(";"):
            connection.execute(statement)
