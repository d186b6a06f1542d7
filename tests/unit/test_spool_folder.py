import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shelltie.model import RunId, Stream
from shelltie.output import spool_folder as module
from shelltie.output.spool import Spool
from shelltie.output.spool_folder import Spools
from shelltie.output.store import Store

MB = 1024 * 1024


def at_once(work: Callable[[], None]) -> None:
    work()


def opened(folder: Path, name: str, data: bytes = b"said", cap: int = MB) -> Spool:
    """The file of a run of some server, which still runs."""
    spool = Spools(folder, cap, at_once).new(RunId(name), 0, timed=True)
    Store(head=1, tail=1, spool=spool).add(Stream.STDOUT, memoryview(data))
    return spool


def old_files(folder: Path, count: int, size: int = 1, born: float = 1000.0) -> list[Path]:
    """What runs have left that ended long ago, the oldest first; they take no room on the disk."""
    made = [folder / f"OLD{born + number:08.0f}.log" for number in range(count)]
    for number, path in enumerate(made):
        with path.open("wb") as file:
            file.truncate(size)
        os.utime(path, (born + number, born + number))
    return made


def test_the_newest_stay_and_the_oldest_go_with_what_belongs_to_them(tmp_path: Path) -> None:
    made = old_files(tmp_path, 210)
    times = made[0].with_suffix(".times")
    times.touch()

    Spools(tmp_path, MB, at_once).sweep()

    assert sorted(one for one in tmp_path.iterdir() if one.is_file()) == made[20:]


def test_together_they_take_no_more_than_a_gigabyte(tmp_path: Path) -> None:
    made = old_files(tmp_path, 20, 64 * MB)

    Spools(tmp_path, MB, at_once).sweep()

    assert sorted(one for one in tmp_path.iterdir() if one.is_file()) == made[5:]


@pytest.mark.parametrize("cap", [MB, 2])
def test_what_a_living_run_of_any_server_writes_stays_however_old_it_is(
    tmp_path: Path, cap: int
) -> None:
    """Also when its file is full, and nothing more is written to it."""
    spool = opened(tmp_path, "0ANCIENT", cap=cap)
    os.utime(spool.path, (1, 1))
    old_files(tmp_path, 300)

    Spools(tmp_path, MB, at_once).sweep()

    assert spool.read(0, 2) == b"sa"
    assert len(list(tmp_path.glob("OLD*"))) == 190


def test_it_is_as_old_as_its_end_and_not_as_its_start(tmp_path: Path) -> None:
    spool = opened(tmp_path, "0ANCIENT")
    os.utime(spool.path, (1, 1))
    old_files(tmp_path, 300)

    spool.close()
    Spools(tmp_path, MB, at_once).sweep()

    assert spool.read(0, 4) == b"said"
    assert spool.path.with_suffix(".times").exists()


def test_a_server_that_makes_many_files_looks_at_all_of_them_now_and_then(tmp_path: Path) -> None:
    asked: list[Callable[[], None]] = []
    spools = Spools(tmp_path, MB, asked.append)

    for number in range(101):
        print_to(spools, f"RUN{number}").close()

    assert len(asked) == 11


def test_there_are_never_more_than_200_whoever_makes_them(tmp_path: Path) -> None:
    old_files(tmp_path, 200)
    spools = Spools(tmp_path, MB, at_once)

    counts = []
    for number in range(250):
        print_to(spools, f"RUN{number:03}").close()
        counts.append(len(list(tmp_path.glob("*.log"))))

    assert 190 <= max(counts) <= 200
    assert (tmp_path / "RUN249.log").exists()


def test_they_never_take_more_than_is_allowed_however_few_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BYTES_KEPT", 16 * MB)  # instead of a gigabyte
    monkeypatch.setattr(module, "_SWEEP_EVERY_BYTES", MB)
    spools = Spools(tmp_path, MB, at_once)

    sizes = []
    for number in range(30):
        print_to(spools, f"RUN{number:03}", bytes(MB // 8), times=9).close()
        sizes.append(sum(one.stat().st_size for one in tmp_path.glob("*.log")))

    assert 15 * MB <= max(sizes) <= 16 * MB
    assert (tmp_path / "RUN029.log").exists()


def test_what_many_runs_still_write_goes_as_soon_as_it_may(tmp_path: Path) -> None:
    spools = Spools(tmp_path, MB, at_once)
    running = [print_to(spools, f"RUN{number:03}") for number in range(300)]
    all_of_them = len(list(tmp_path.glob("*.log")))

    for spool in running:
        spool.close()

    assert all_of_them == 300
    assert len(list(tmp_path.glob("*.log"))) <= 200


def print_to(spools: Spools, name: str, data: bytes = b"x", times: int = 1) -> Spool:
    """The file of a run that has printed this, and still runs."""
    spool = spools.new(RunId(name), 0, timed=False)
    store = Store(head=1, tail=1, spool=spool)
    for _ in range(times):
        store.add(Stream.STDOUT, memoryview(data))
    return spool


def test_a_folder_with_other_things_in_it_or_none_at_all_disturbs_nobody(tmp_path: Path) -> None:
    old_files(tmp_path, 190)
    (tmp_path / "0.log").mkdir()
    os.mkfifo(tmp_path / "1.log")
    (tmp_path / "2.log").symlink_to("/etc/passwd")
    for name in ("0", "1", "2"):
        os.utime(tmp_path / f"{name}.log", (1, 1), follow_symlinks=False)

    Spools(tmp_path, MB, at_once).sweep()
    Spools(tmp_path / "none", MB, at_once).sweep()

    assert (tmp_path / "0.log").exists()
    assert Path("/etc/passwd").exists()
    assert len(list(tmp_path.glob("OLD*"))) == 190
