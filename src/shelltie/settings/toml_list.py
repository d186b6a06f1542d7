"""TOML list of a person's decisions: digests for tamper detection, atomic replacement.

Beside it stand the digests of the entries that we wrote, each after a person's yes. Another entry
came another way, and no person was asked about it: it does not count. This notices an edit; it
does not stop one who runs as the same user, knows of it, and writes both.
"""

import hashlib
import json
import os
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from shelltie.errors import ConfigWrong, MissingFile
from shelltie.settings.files import read_small_file

TomlTable = Mapping[str, object]  # of texts, flags and lists of texts

_ABANDONED = 10.0  # seconds after which somebody's unfinished file is taken for left behind
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def read(path: Path, table: str) -> list[dict[str, object]]:
    """Every `[[table]]` of the file; one that is not there has none.

    Raises: ConfigWrong if it cannot be read, or others than its owner may write to it.
    """
    try:
        text = _content(path).decode("utf-8")
        found = tomllib.loads(text)
    except MissingFile:
        return []
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigWrong(f"{path}: cannot be read: {error}") from error
    entries = found.pop(table, [])
    if found or not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise ConfigWrong(f"{path}: may have nothing but [[{table}]] entries")
    return entries


def split(path: Path, table: str) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The entries that we wrote, and those that somebody else did.

    Raises: ConfigWrong.
    """
    entries = read(path, table)
    written = _written(path.resolve()) if entries else Counter[str]()
    ours: list[dict[str, object]] = []
    others: list[dict[str, object]] = []
    for entry in entries:
        (ours if written[_digest(entry)] else others).append(entry)
    return ours, others


def _digest(entry: TomlTable) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True, default=str).encode()).hexdigest()


def _record(path: Path) -> Path:
    return path.with_name(f".{path.name}.written")


def _written(path: Path) -> Counter[str]:
    try:
        return Counter(_content(_record(path)).decode("ascii", "replace").split())
    except MissingFile:
        return Counter()


def _content(path: Path) -> bytes:
    def problem(status: os.stat_result) -> str | None:
        if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
            return f"others may write to it; make it yours: chmod 600 {path}"
        return None

    return read_small_file(path, problem=problem)


def change(
    path: Path,
    table: str,
    edit: Callable[[list[dict[str, object]]], Iterable[TomlTable]],
    heading: str,
) -> None:
    """Read, edit and replace the file at once: nobody reads half of it or writes in between.

    Raises: ConfigWrong if it cannot be read or somebody else is writing it; OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = path.resolve()  # a link, as people who keep their settings elsewhere have, stays one
    unfinished = path.with_name(f".{path.name}.new")
    try:
        file = _create(unfinished)
    except FileExistsError as error:
        raise ConfigWrong(f"{path}: somebody else is writing it; try again") from error
    try:
        with file:
            known, written = read(path, table), _written(path)
            entries = [*edit(known)]
            text = "".join(f"# {line}\n" for line in heading.splitlines())
            text += "".join("\n" + as_toml(table, entry) for entry in entries)
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        every = Counter(map(_digest, entries))
        # First: without it, what is new would not count.
        _replace(_record(path), (every - Counter(map(_digest, known))) + (written & every))
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _replace(path: Path, digests: Counter[str]) -> None:
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    with _create(unfinished) as file:
        file.write("".join(f"{digest}\n" for digest in digests.elements()).encode())
    unfinished.replace(path)


def _create(path: Path) -> BinaryIO:
    """The file that is written, and the lock: whoever makes it is the one who writes."""
    with suppress(FileNotFoundError):
        if time.time() - path.lstat().st_mtime > _ABANDONED:
            path.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def as_toml(table: str, entry: TomlTable) -> str:
    """One entry as it stands in the file.

    Raises: ConfigWrong for a text that TOML cannot hold.
    """
    lines = [f"{key} = {as_value(value)}" for key, value in entry.items()]
    return "\n".join([f"[[{table}]]", *lines]) + "\n"


def as_value(value: object) -> str:
    """A text, flag, number or list as TOML has it.

    Raises: ConfigWrong for a text that TOML cannot hold.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(as_value, value)) + "]"
    return '"' + "".join(map(_escaped, str(value))) + '"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    if "\ud800" <= char <= "\udfff":
        raise ConfigWrong("it has bytes that are no text, which a TOML file cannot hold")
    return f"\\U{ord(char):08x}"
