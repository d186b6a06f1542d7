import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from shelltie.sessions.id_counter import SessionNumbers


@pytest.mark.proves("T2-21")
def test_numbers_go_on_where_others_left_off(tmp_path: Path) -> None:
    file = tmp_path / "state" / "numbers"

    first = [SessionNumbers(file)() for _ in range(3)]
    second = SessionNumbers(file)

    assert first == [1, 2, 3]
    assert [second(), second()] == [4, 5]


def test_no_two_get_the_same_number_at_once(tmp_path: Path) -> None:
    file = tmp_path / "numbers"
    got: list[int] = []

    def take() -> None:
        numbers = SessionNumbers(file)
        got.extend(numbers() for _ in range(200))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(got) == list(range(1, 801))


def test_where_no_number_can_be_kept_they_are_unlikely_to_meet(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = tmp_path / "file" / "numbers"

    one, other = SessionNumbers(nowhere), SessionNumbers(nowhere)
    numbers = [one(), one(), other(), other()]

    assert len(set(numbers)) == 4
    assert all(10**9 <= number < 10**10 + 4 for number in numbers)


@pytest.mark.parametrize("lose", [lambda file: os.truncate(file, 0), Path.unlink])
def test_no_number_comes_twice_when_the_file_is_lost(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    file = tmp_path / "numbers"
    one, other = SessionNumbers(file), SessionNumbers(file)
    before = [one(), other(), one()]

    lose(file)
    after = [one() for _ in range(5)]

    assert len({*before, *after}) == 8
    assert min(after) >= 10**9  # nobody knows how far the others had counted


def test_numbers_that_a_journal_knows_are_not_given_again(tmp_path: Path) -> None:
    file = tmp_path / "numbers"

    short = SessionNumbers(file, used=2)
    beside = [short(), short(), short()]
    after = SessionNumbers(file, used=2)()

    assert min(beside) >= 10**9
    assert after == 4


@pytest.mark.parametrize("lose", [lambda file: os.truncate(file, 0), Path.unlink])
def test_a_server_that_has_given_none_asks_the_journal_when_the_file_is_new(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    file = tmp_path / "numbers"
    given: list[int] = []
    one, other = (SessionNumbers(file, 0, lambda: max(given, default=0)) for _ in range(2))
    given += [one(), one(), one()]

    lose(file)
    after = [other() for _ in range(4)]

    assert given == [1, 2, 3]
    assert not {*given} & {*after}
    assert len({*after}) == 4


def test_the_journal_is_not_asked_for_every_number(tmp_path: Path) -> None:
    asked: list[int] = []

    def look() -> int:
        asked.append(1)
        return 0

    numbers = SessionNumbers(tmp_path / "numbers", 0, look)

    given = [numbers() for _ in range(50)]

    assert given == list(range(1, 51))
    assert len(asked) <= 1
