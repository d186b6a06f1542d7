"""PlaceFiles protocol: the files of a workspace in the place where its commands run."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from shelltie.basics.frozen import frozen

FilePath = str | os.PathLike[str]


class FileKind(StrEnum):
    """What an entry of a directory is; `OTHER` is a pipe, a socket or a device."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


@frozen
class FileEntry:
    """One entry of a directory. A name that is no UTF-8 has surrogates, as `os.fsdecode` has it.

    `mode` has the bits of `chmod`, `modified` is seconds since 1970.
    """

    name: str
    kind: FileKind
    size: int
    mode: int
    modified: float


@frozen
class TreeCopied:
    """What of a tree was copied. `skipped` says what was not, and why: links that lead out of the
    tree, pipes, sockets, devices, and what is masked; the first hundred by name.
    """

    files: int = 0
    directories: int = 0
    links: int = 0
    size: int = 0
    skipped: tuple[str, ...] = ()
    skipped_count: int = 0


@frozen
class TreeBounds:
    """How much of a tree is copied at most: bytes, and entries."""

    size: int
    entries: int


class PlaceFiles(Protocol):
    """Files below one directory. Paths are relative to it, or begin with it.

    Links are followed as long as they stay inside. Each method raises a `FileError`.
    """

    async def read(self, path: str, limit: int) -> bytes:
        """The whole file, if it has no more than `limit` bytes."""
        ...

    async def write(self, path: str, content: bytes, mode: int | None) -> None:
        """Replace or make a file at once, with the directories above it.

        Without a `mode` it keeps the one it has.
        """
        ...

    async def list(self, path: str, limit: int) -> tuple[FileEntry, ...]:
        """What is in a directory, by name, if there are no more than `limit` entries."""
        ...

    async def stat(self, path: str) -> FileEntry:
        """What is there, where its links lead."""
        ...

    async def make_directory(self, path: str) -> None:
        """Make a directory and those above it, if it is not there."""
        ...

    async def remove(self, path: str, *, tree: bool) -> None:
        """Remove a file, a link or an empty directory; a `tree` with everything in it."""
        ...

    async def upload(self, source: Path, path: str, bounds: TreeBounds) -> TreeCopied:
        """Copy a file or tree of this machine there; what is there and not in it stays."""
        ...

    async def download(self, path: str, target: Path, bounds: TreeBounds) -> TreeCopied:
        """Copy a file or tree to this machine; what is in the target and not in it stays."""
        ...


@runtime_checkable
class FileProvider(Protocol):
    """A provider whose files can be reached."""

    def files(self, workspace: str, *, secrets: bool) -> PlaceFiles:
        """Those of a workspace; with `secrets` also the files that commands cannot read unasked.

        Raises: CannotStart if it cannot be a workspace there.
        """
        ...
