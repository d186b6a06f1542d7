"""Changes one key of a TOML settings file: comments and order stay, and the result is verified.

No TOML library keeps comments but one that would be a dependency for this alone. So statements are
found with the parser of the standard library, one is replaced or put in, and the whole is parsed
again: unless exactly that one key differs, nothing is written.
"""

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.errors import ConfigWrong, MissingFile
from shelltie.settings.files import SIZE_MAX, read_small_file
from shelltie.settings.toml_list import as_value

HEADING = """\
# Settings of shelltie. All keys: docs/settings.md, or `shelltie config list`.
# `shelltie config set KEY VALUE` changes this file and leaves the rest of it as it is.
"""


@frozen
class Statement:
    """A key with its value, or a table's head: its lines from `start` to before `end`."""

    start: int
    end: int
    table: str  # that it stands in, or opens
    keys: tuple[str, ...]  # dotted, from the root; none for a head


def changed(text: str, key: str, value: object, comment: str = "") -> str:
    """The text of a file in which the key has that value; `comment` goes above a key that is new.

    Raises: ConfigWrong if the file cannot be read, or this cannot be done without harm to the rest.
    """
    before = flatten(_parsed(text))
    line = "{} = " + as_value(value).replace("{", "{{").replace("}", "}}")
    if not text.strip():
        text = HEADING
    for candidate in (_replaced, _inserted, _appended):
        after = candidate(text, key, line, comment)
        if after is not None and _tree(after) == {**before, key: value}:
            return after
    raise ConfigWrong(f"{key} stands in an unusual place: change it with `shelltie config edit`")


def removed(text: str, key: str, comment: str = "") -> str:
    """The text without the key, and without that `comment` above it.

    Raises: ConfigWrong, as above.
    """
    before = flatten(_parsed(text))
    if key not in before:
        return text
    lines = _lines(text)
    for statement in _statements(lines):
        if statement.keys == (key,):
            above = lines[: statement.start]
            if comment and above[-1:] == _as_comment(comment):
                above = above[:-1]
            after = _joined([*above, *lines[statement.end :]])
            if _tree(after) == {name: value for name, value in before.items() if name != key}:
                return after
    raise ConfigWrong(f"{key} stands in an unusual place: remove it with `shelltie config edit`")


def rewrite(path: Path, edit: Callable[[str], str], *, size_max: int = SIZE_MAX) -> None:
    """Replace a file by what `edit` makes of its text, at once and whole.

    Raises: ConfigWrong, OSError.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = path.resolve()  # a link, as people who keep their settings elsewhere have, stays one
    mode, text = 0o600, ""
    with suppress(MissingFile):
        try:
            text = read_small_file(path, size_max=size_max).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigWrong(f"{path}: cannot be read: {error}") from error
        mode = path.stat().st_mode & 0o777
    write_whole(path, edit(text), mode)


def write_whole(path: Path, text: str, mode: int) -> None:
    """Put a file in the place of what is there, at once (rename): of a link, too.

    Raises: OSError.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(unfinished, flags, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def flatten(tree: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Dotted keys of nested tables."""
    flat: dict[str, object] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _parsed(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigWrong(f"the file cannot be read: {error}") from error


def _tree(text: str) -> dict[str, object] | None:
    try:
        return flatten(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return None


def _statements(lines: list[str]) -> Iterator[Statement]:
    """All but blank lines and comments. A value may go over several lines: as many as it takes
    until they can be parsed.
    """
    at, table = 0, ""
    while at < len(lines):
        if not lines[at].strip() or lines[at].lstrip().startswith("#"):
            at += 1
            continue
        end, tree = at + 1, _tree(lines[at])
        while tree is None and end < len(lines):
            end += 1
            tree = _tree("\n".join(lines[at:end]))
        if lines[at].lstrip().startswith("["):
            table = lines[at].strip().lstrip("[").partition("]")[0].replace(" ", "")
            yield Statement(at, end, table, ())
        else:
            prefix = f"{table}." if table else ""
            keys = tuple(f"{prefix}{name}" for name in tree or ())
            yield Statement(at, end, table, keys)
        at = end


def _replaced(text: str, key: str, line: str, _: str) -> str | None:
    lines = _lines(text)
    for statement in _statements(lines):
        if statement.keys == (key,):
            first = lines[statement.start]
            name = first.partition("=")[0].rstrip()
            comment = _comment_of(first) if statement.end == statement.start + 1 else ""
            new = line.format(name) + comment
            return _joined([*lines[: statement.start], new, *lines[statement.end :]])
    return None


def _comment_of(line: str) -> str:
    """What follows the value on its line: `#` in a text begins none."""
    whole, at = _tree(line), line.find("#")
    while at >= 0:
        if _tree(line[:at]) == whole:
            return line[len(line[:at].rstrip()) :]
        at = line.find("#", at + 1)
    return ""


def _inserted(text: str, key: str, line: str, comment: str) -> str | None:
    """At the end of the table that is nearest to the key; of the root, for a key without a dot."""
    lines = _lines(text)
    ends: dict[str, int] = {}
    heads = [statement.start for statement in _statements(lines) if not statement.keys]
    if "." not in key:
        ends[""] = _before_comments(lines, heads[0]) if heads else len(lines)
    for statement in _statements(lines):
        if statement.table and key.startswith(f"{statement.table}."):
            ends[statement.table] = statement.end
    if not ends:
        return None
    table = max(ends, key=len)
    name = key.removeprefix(f"{table}.") if table else key
    new = [*_as_comment(comment), line.format(name)]
    return _joined([*lines[: ends[table]], *new, *([] if table else [""]), *lines[ends[table] :]])


def _before_comments(lines: list[str], head: int) -> int:
    """Above a table's head and what is said about it, but not above the heading of the file."""
    at = head
    while at > 0 and lines[at - 1].lstrip().startswith("#"):
        at -= 1
    return at if at > 0 else head


def _appended(text: str, key: str, line: str, comment: str) -> str:
    table, _, name = key.rpartition(".")
    head = [f"[{table}]"] if table else []
    return _joined([*_lines(text), "", *head, *_as_comment(comment), line.format(name)])


def _as_comment(text: str) -> list[str]:
    return [f"# {text}"] if text else []


def _lines(text: str) -> list[str]:
    """As TOML has them: `splitlines` also breaks at characters that a text may have."""
    return text.removesuffix("\n").split("\n")


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).lstrip("\n") + "\n"
