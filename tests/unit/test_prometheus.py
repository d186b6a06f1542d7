"""Instruments: what they count, and whether Prometheus can read it."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shelltie.telemetry.prometheus import (
    Counter,
    Family,
    Gauge,
    Histogram,
    exposition,
    from_json,
    merged,
    to_json,
)

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read_back(*families: Family) -> Samples:
    """What the parser of Prometheus itself makes of our text."""
    parsed = text_string_to_metric_families(exposition(families))
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parsed
        for sample in family.samples
    }


def test_a_counter_counts_for_each_of_its_labels() -> None:
    ends = Counter("ends_total", "Ends.", "how")
    ends.add("well")
    ends.add("well", by=2)
    ends.add("badly", by=0.5)

    assert read_back(ends.family()) == {
        ("ends_total", (("how", "well"),)): 3,
        ("ends_total", (("how", "badly"),)): 0.5,
    }
    assert ends.total == 3.5


def test_a_counter_without_labels_is_there_before_anything_was_counted() -> None:
    assert read_back(Counter("ends_total", "Ends.").family()) == {("ends_total", ()): 0}


def test_a_gauge_is_read_when_somebody_looks() -> None:
    open_now = [1]
    gauge = Gauge("open", "Open now.", lambda: len(open_now))
    open_now.append(2)

    assert read_back(gauge.family()) == {("open", ()): 2}


def test_a_histogram_counts_in_buckets_that_contain_one_another() -> None:
    took = Histogram("took_seconds", "Time.", "what", edges=(0.1, 1))
    for span in (0.1, 0.2, 5):
        took.observe(span, "x")

    found = read_back(took.family())
    assert found[("took_seconds_bucket", (("le", "0.1"), ("what", "x")))] == 1
    assert found[("took_seconds_bucket", (("le", "1"), ("what", "x")))] == 2
    assert found[("took_seconds_bucket", (("le", "+Inf"), ("what", "x")))] == 3
    assert found[("took_seconds_count", (("what", "x"),))] == 3
    assert found[("took_seconds_sum", (("what", "x"),))] == pytest.approx(5.3)


@pytest.mark.parametrize("odd", ['"', "\\", "\n", '\\n"', "é", "{", "}", "a=b,c", " ", ""])
def test_whatever_a_label_says_is_read_back_as_it_was(odd: str) -> None:
    counter = Counter("odd_total", f"About {odd}.", "name")
    counter.add(odd)

    assert read_back(counter.family()) == {("odd_total", (("name", odd),)): 1}


def test_names_that_somebody_makes_up_do_not_fill_the_memory() -> None:
    counter, took = Counter("made_up_total", "x", "name"), Histogram("took", "x", "name")
    for number in range(10_000):
        counter.add(str(number))
        took.observe(1, str(number))

    found = read_back(counter.family())
    assert len(found) <= 201
    assert found[("made_up_total", (("name", "other"),))] == 9_800
    assert len(took.family().samples) < 201 * 20


def test_servers_are_put_together_by_family() -> None:
    one, other = Counter("ends_total", "Ends."), Counter("ends_total", "Ends.")
    other.add()

    text = exposition(
        merged([({"server": "1"}, [one.family()]), ({"server": "2"}, [other.family()])])
    )

    assert text.count("# TYPE ends_total counter") == 1
    assert 'ends_total{server="1"} 0\n' in text
    assert 'ends_total{server="2"} 1\n' in text


def test_families_survive_the_way_to_another_process() -> None:
    took = Histogram("took_seconds", "Time.", "what")
    took.observe(0.25, "x")

    assert from_json(to_json([took.family()])) == [took.family()]


@pytest.mark.parametrize("garbage", [None, {}, [1], [{}], [{"name": "x", "samples": [[]]}]])
def test_what_is_no_family_is_refused(garbage: object) -> None:
    with pytest.raises(ValueError, match=r"must be a list|is no"):
        from_json(garbage)
