import threading
from pathlib import Path

import pytest

from shelltie.running.session_numbers import SessionNumbers


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
