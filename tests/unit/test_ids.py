from itertools import pairwise

from shelltie.basics.ids import MillisecondIds, as_short_id, ulid


def test_ulids_sort_by_time_and_differ() -> None:
    ids = [ulid() for _ in range(1000)]

    assert len(set(ids)) == 1000
    assert all(len(one) == 26 for one in ids)
    assert ids[0][:10] <= ids[-1][:10]


def test_an_id_is_understood_as_it_is_typed_and_read() -> None:
    assert as_short_id(" k7o2ql ") == "K702Q1"


def test_of_many_ids_in_one_millisecond_each_comes_once() -> None:
    ids = MillisecondIds()

    made = [ids.new() for _ in range(1000)]

    assert all(later > earlier for earlier, later in pairwise(made))
