"""Small files of settings: what is read of them, and when they are read again."""

import os
from pathlib import Path

import pytest

from shelltie.errors import ConfigWrong, MissingFile
from shelltie.settings.files import WatchedFile, read_small_file


def test_a_missing_file_is_told_apart_from_one_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    for path in (tmp_path / "absent", tmp_path / "file" / "below"):
        with pytest.raises(MissingFile, match=f"^{path}: no such file$"):
            read_small_file(path)
    with pytest.raises(ConfigWrong, match="cannot be read: Is a directory") as directory:
        read_small_file(tmp_path)

    assert not isinstance(directory.value, MissingFile)


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2048)

    assert read_small_file(path, size_max=2048) == b"x" * 2048
    with pytest.raises(ConfigWrong, match=f"^{path}: larger than 1 KiB$"):
        read_small_file(path, size_max=1024)
    with pytest.raises(ConfigWrong, match=r"^larger than 1 KiB$"):
        read_small_file(path, size_max=1024, named=False)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ConfigWrong, match="not a regular file"):
        read_small_file(tmp_path / "pipe")


def test_a_watched_file_tells_when_it_comes_and_goes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    watched = WatchedFile(path)

    absent = watched.changed(), watched.exists
    path.write_bytes(b"")
    made = watched.changed(), watched.exists
    path.unlink()
    removed = watched.changed(), watched.exists, watched.changed()

    assert absent == (False, False)
    assert made == (True, True)
    assert removed == (True, False, False)


def test_a_file_that_was_written_just_now_may_change_without_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    watched = WatchedFile(path)

    assert watched.changed()


def test_an_old_file_is_not_read_again() -> None:
    watched = WatchedFile(Path(os.__file__))

    assert not watched.changed()
