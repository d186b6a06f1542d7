"""Files of the place where commands run: read, write, list, upload, download; all on record."""

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self, TypeVar

from shelltie.basics.frozen import frozen
from shelltie.errors import CannotStart, InvalidParameters, IsolationUnavailable, TerminalError
from shelltie.events import FilesUsed
from shelltie.model import ISOLATION_LEVELS, Caller
from shelltie.providers.files.place_files import (
    FileEntry,
    FilePath,
    FileProvider,
    PlaceFiles,
    TreeBounds,
    TreeCopied,
)
from shelltie.providers.provider import Provider
from shelltie.running.options import RunOptions
from shelltie.running.supervisor import Supervisor

READ_LIMIT = 16 * 1024 * 1024  # bytes
ENTRIES_LIMIT = 200_000
TREE_LIMIT = 1024 * 1024 * 1024  # bytes
_MODE_MAX = 0o777

_Value = TypeVar("_Value")


class Files:
    """Files below one workspace, in the place where commands with this isolation run.

    A path is relative to the workspace, or begins with it. Links are followed as long as they stay
    inside; no other way leads out, whatever commands do with links meanwhile. What isolated
    commands cannot change (hooks, settings that programs obey) cannot be changed here either; where
    nothing is isolated, .env files that git does not track are not read without `secrets`. Each
    call is on record, without what is in the files.

    All raise a `FileError` (its `code`: FILE_NOT_FOUND, IS_A_DIRECTORY, NOT_A_DIRECTORY,
    NOT_A_FILE, FILE_TOO_LARGE, FILE_PROTECTED, FILE_ACCESS_DENIED, OUTSIDE_WORKSPACE, NO_SPACE),
    InvalidParameters or IsolationUnavailable; then nothing was changed.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        caller: Caller,
        workspace: str,
        options: RunOptions = RunOptions(),  # noqa: B008  frozen
        *,
        secrets: bool = False,
    ) -> None:
        self._supervisor = supervisor
        self._caller = caller
        self._workspace = workspace
        self._options = options
        self._secrets = secrets

    def at(
        self,
        workspace: FilePath,
        *,
        isolation: str | None = None,
        provider: str | None = None,
        secrets: bool = False,
    ) -> "Files":
        """The files of another workspace, where commands with this isolation or provider run.

        Raises: InvalidParameters.
        """
        place = absolute_path("workspace", workspace)
        if isolation is not None and isolation not in ISOLATION_LEVELS:
            known = ", ".join(ISOLATION_LEVELS)
            raise InvalidParameters(f"files have no isolation {isolation!r}: use {known}")
        options = RunOptions(isolation=isolation, provider=provider, workspace=place)
        return Files(self._supervisor, self._caller, place, options, secrets=secrets)

    @property
    def workspace(self) -> str:
        """The directory, as it was given."""
        return self._workspace

    async def read(self, path: FilePath, limit: int = READ_LIMIT) -> bytes:
        """The whole file. One with more than `limit` bytes is FILE_TOO_LARGE, and so is one that
        grows beyond; a pipe or device is never opened.
        """
        _check_count("limit", limit)
        return await self._do(
            "read", path, lambda files, at: files.read(at, limit), lambda got: Used(len(got))
        )

    async def write(self, path: FilePath, data: bytes | str, mode: int | None = None) -> None:
        """Make or replace a file, with the directories above it; who reads it meanwhile sees the
        old one or the new one whole. Without `mode` a file keeps its own. Text is UTF-8.
        """
        if not isinstance(data, bytes | bytearray | memoryview | str):
            raise InvalidParameters(f"data must be bytes or text, not {type(data).__name__}")
        if mode is not None and not (isinstance(mode, int) and 0 <= mode <= _MODE_MAX):
            raise InvalidParameters(f"mode must be between 0 and 0o777, not {mode!r}")
        content = encode_text("data", data) if isinstance(data, str) else bytes(data)
        used = Used(len(content))
        await self._do("write", path, lambda files, at: files.write(at, content, mode), used.same)

    async def list(self, path: FilePath = ".", limit: int = ENTRIES_LIMIT) -> tuple[FileEntry, ...]:
        """What is in a directory, sorted by name; a link is told as a link."""
        _check_count("limit", limit)
        return await self._do(
            "list", path, lambda files, at: files.list(at, limit), lambda got: Used(0, len(got))
        )

    async def stat(self, path: FilePath) -> FileEntry:
        """What is there, where its links lead."""
        return await self._do("stat", path, lambda files, at: files.stat(at), Used(0, 1).same)

    async def make_directory(self, path: FilePath) -> None:
        """Make a directory with those above it; one that is there is fine."""
        await self._do(
            "make_directory", path, lambda files, at: files.make_directory(at), Used(0, 1).same
        )

    async def remove(self, path: FilePath, *, tree: bool = False) -> None:
        """Remove a file, a link (and not what it leads to) or an empty directory; with `tree` a
        directory and all that is in it.
        """
        await self._do(
            "remove", path, lambda files, at: files.remove(at, tree=tree), Used(0, 1).same
        )

    async def upload(
        self,
        source: FilePath,
        path: FilePath,
        limit: int = TREE_LIMIT,
        entries: int = ENTRIES_LIMIT,
    ) -> TreeCopied:
        """Copy a file or tree of this machine to a path; what is there and not in it stays.

        More than `limit` bytes or `entries` is FILE_TOO_LARGE before anything is copied. Links that
        lead out of the tree, pipes and devices are left out, and told. An error on the way leaves
        what was copied until then.
        """
        local, bounds = Path(absolute_path("source", source)), _bounds(limit, entries)
        return await self._do(
            "upload", path, lambda files, at: files.upload(local, at, bounds), _copied, local
        )

    async def download(
        self,
        path: FilePath,
        target: FilePath,
        limit: int = TREE_LIMIT,
        entries: int = ENTRIES_LIMIT,
    ) -> TreeCopied:
        """Copy a file or tree to this machine, as `upload` does it the other way."""
        local, bounds = Path(absolute_path("target", target)), _bounds(limit, entries)
        return await self._do(
            "download", path, lambda files, at: files.download(at, local, bounds), _copied, local
        )

    async def _do(
        self,
        action: str,
        path: FilePath,
        act: Callable[[PlaceFiles, str], Awaitable[_Value]],
        used: Callable[[_Value], "Used"],
        local: Path | str = "",
    ) -> _Value:
        at = checked_path("path", path)
        # Where nothing may happen without a record, nothing does.
        await self._supervisor.flush_record()
        if self._supervisor.closed:
            raise InvalidParameters("the terminal of these files is closed: open it, and ask anew")
        provider, told, problem = "", Used(), "CANCELLED"
        try:
            place, _ = await self._supervisor.placement.choose(self._options, None)
            provider = place.name
            value = await act(self._files_of(place), at)
            told, problem = used(value), ""
        except TerminalError as error:
            problem = error.code
            raise
        finally:
            where = self._workspace, provider, self._caller
            self._supervisor.bus.publish(
                FilesUsed(
                    time.time(), action, at, *where, told.size, told.entries, str(local), problem
                )
            )
        return value

    def _files_of(self, place: Provider) -> PlaceFiles:
        if not isinstance(place, FileProvider):
            raise IsolationUnavailable(
                f"files of {place.name} cannot be reached: read and write them by commands"
            )
        try:
            return place.files(self._workspace, secrets=self._secrets)
        except CannotStart as error:
            raise IsolationUnavailable(str(error)) from error


@frozen
class Used:
    """How much of the files a call has used: bytes, and entries."""

    size: int = 0
    entries: int = 0

    def same(self, _: object) -> Self:
        """This, whatever the call has given."""
        return self


def _copied(copied: TreeCopied) -> Used:
    return Used(copied.size, copied.files + copied.directories + copied.links)


def checked_path(name: str, given: object) -> str:
    """A path as a text.

    Raises: InvalidParameters, which calls it by its name.
    """
    path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(path, str) or "\0" in path:
        raise InvalidParameters(f"{name} must be a path without a NUL byte, not {given!r}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise InvalidParameters(f"{name} has a character that no path can have") from error
    return path


def encode_text(name: str, text: str) -> bytes:
    """As UTF-8; bytes that were none when it was read are those again.

    Raises: InvalidParameters, which calls it by its name.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidParameters(f"{name} has half a character, a lone surrogate") from error


def absolute_path(name: str, given: object) -> str:
    """A path from the root, with its links. Raises: InvalidParameters."""
    return os.path.abspath(checked_path(name, given))  # noqa: PTH100  of a text


def _bounds(size: int, entries: int) -> TreeBounds:
    _check_count("limit", size)
    _check_count("entries", entries)
    return TreeBounds(size, entries)


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidParameters(f"{name} must be a whole number, 0 or more, not {value!r}")
