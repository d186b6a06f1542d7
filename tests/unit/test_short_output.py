"""Short outputs: one private file for each run, and the newest thousand stay."""

import stat
from collections.abc import Callable
from pathlib import Path

from shelltie.model import RunId, Stream
from shelltie.output import short_output as module
from shelltie.output.redact import Redactor
from shelltie.output.short_output import ShortOutputs
from shelltie.output.spool import Spool
from shelltie.output.store import Store
from shelltie.output.timing_file import pieces


def at_once(work: Callable[[], None]) -> None:
    work()


def test_what_was_short_is_written_when_it_is_over_and_only_for_its_owner(tmp_path: Path) -> None:
    folder = tmp_path / "output" / "short"
    store = Store(kept=ShortOutputs(folder, at_once).new(RunId("01A"), {}))
    store.add(Stream.STDOUT, memoryview(b"one\n"))
    store.add(Stream.STDERR, memoryview(b"two\n"))
    before = folder.exists()

    store.keep()

    file = folder / "01A.log"
    assert not before
    assert file.read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (store.printed.file, store.printed.kept) == (str(file), 8)
    assert store.printed.digest is not None


def test_what_came_at_once_needs_no_second_file(tmp_path: Path) -> None:
    kept = ShortOutputs(tmp_path, at_once).new(RunId("01A"), {})
    kept._times._began += 60.0  # however slow the machine is
    store = Store(kept=kept)
    store.add(Stream.STDOUT, memoryview(b"one\n"))
    store.add(Stream.STDERR, memoryview(b"two\n"))

    store.keep()

    assert [one.name for one in tmp_path.iterdir()] == ["01A.log"]


def test_when_each_piece_came_is_kept_where_there_was_a_pause(tmp_path: Path) -> None:
    kept = ShortOutputs(tmp_path, at_once).new(RunId("01A"), {})
    store = Store(kept=kept)
    store.add(Stream.STDOUT, memoryview(b"one\n"))
    kept._times._began -= 3.0  # as if time had passed
    store.add(Stream.STDOUT, memoryview(b"two\n"))

    store.keep()

    (first, then) = pieces(tmp_path / "01A.times", 8)
    assert (first[1], then[1]) == (4, 8)
    assert then[0] - first[0] > 2


def test_what_is_in_its_spool_or_says_nothing_has_no_second_file(tmp_path: Path) -> None:
    folder = ShortOutputs(tmp_path / "short", at_once)
    spool = Spool(tmp_path / "long.log", threshold=2)
    long = Store(spool=spool, kept=folder.new(RunId("01A"), {}))
    long.add(Stream.STDOUT, memoryview(b"long enough"))
    silent = Store(kept=folder.new(RunId("01B"), {}))

    long.keep()
    silent.keep()
    long.close()

    assert not (tmp_path / "short").exists()
    assert long.printed.file == str(tmp_path / "long.log")


def test_secrets_are_taken_out_before_anything_is_written(tmp_path: Path) -> None:
    folder = ShortOutputs(tmp_path, at_once, lambda secrets: Redactor(secrets).text)
    store = Store(kept=folder.new(RunId("01A"), {"TOKEN": "swordfish-1234"}))
    store.add(Stream.STDOUT, memoryview(b"it is swordfish-1234\n\xff\n"))

    store.keep()

    assert (tmp_path / "01A.log").read_bytes() == b"it is [REDACTED:TOKEN]\n\xff\n"
    assert store.view(None, 100, 0).head == b"it is swordfish-1234\n\xff\n"


def test_a_disk_that_fails_disturbs_nobody(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("no folder", encoding="ascii")
    store = Store(kept=ShortOutputs(tmp_path / "short", at_once).new(RunId("01A"), {}))
    store.add(Stream.STDOUT, memoryview(b"said"))

    store.keep()

    assert store.printed.file is None
    assert store.printed.digest is not None


def test_the_newest_thousand_stay(tmp_path: Path) -> None:
    for number in range(1500):
        (tmp_path / f"{number:05}.log").touch()
    (tmp_path / "00000.times").touch()
    folder = ShortOutputs(tmp_path, at_once)

    for number in range(1500, 1500 + module._SWEEP_EVERY + 1):
        store = Store(kept=folder.new(RunId(f"{number:05}"), {}))
        store.add(Stream.STDOUT, memoryview(b"x"))
        store.keep()

    left = sorted(one.name for one in tmp_path.iterdir())
    assert 900 <= len(left) <= 1000
    assert left[-1] == "01550.log"
    assert "00000.times" not in left
