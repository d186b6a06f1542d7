"""When a spool was how far."""

from pathlib import Path

import pytest

from shelltie.output.timing_file import TimingFile, pieces


def test_pieces_are_in_order_and_what_came_together_is_one(tmp_path: Path) -> None:
    path = tmp_path / "run.times"
    times = TimingFile(path)
    for position in range(1, 1001):
        times.note(position)
    times.close()

    found = pieces(path, 1000)
    assert found[-1][1] == 1000
    assert len(found) < 500
    assert found == sorted(found)


def test_a_run_that_prints_for_ever_does_not_fill_the_disk(tmp_path: Path) -> None:
    times = TimingFile(tmp_path / "run.times")
    for position in range(1, 60_000):
        times._last = -1.0  # as if time had passed
        times.note(position)
    times.close()

    assert (tmp_path / "run.times").stat().st_size < 1_500_000
    assert pieces(tmp_path / "run.times", 70_000)[-1][1] == 70_000


@pytest.mark.parametrize(
    "garbage",
    [b"", b"x y\n", b"\xff\xfe", b"1 2 3\n", b"nan 5\n", b"1e999 3\n", b"-5 3\n", b"2 -3\n"],
)
def test_a_file_that_makes_no_sense_is_as_good_as_none(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "run.times"
    path.write_bytes(garbage)

    assert pieces(path, 10)[-1][1] == 10
    assert pieces(tmp_path / "missing", 10) == [(0.0, 10)]
    assert pieces(path, 0) == []


def test_a_file_of_somebody_else_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run.times"
    path.write_text("theirs", encoding="ascii")
    times = TimingFile(path)
    times.note(5)
    times.close()

    assert path.read_text(encoding="ascii") == "theirs"
