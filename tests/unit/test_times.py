import pytest

from shelltie.basics.times import human_duration, human_size, iso_utc, milliseconds, seconds


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (0, "0ms"),
        (0.35, "350ms"),
        (4.2, "4.2s"),
        (5, "5s"),
        (45, "45s"),
        (59.7, "1m"),
        (270, "4m 30s"),
        (3600, "1h"),
        (3900, "1h 5m"),
    ],
)
def test_durations_are_for_people(span: float, text: str) -> None:
    assert human_duration(span) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (12_300, "12.3 KB"), (4_000_000, "4.0 MB"), (9**13, "2541.9 GB")],
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert human_size(size) == text


@pytest.mark.parametrize(("value", "number"), [(None, None), (0, None), (1, 1.0), (2.5, 2.5)])
def test_seconds_may_be_left_out(value: object, number: float | None) -> None:
    assert seconds(value, "x") == number


@pytest.mark.parametrize("value", [True, "1", -1, float("nan"), float("inf"), [1], 10**400])
def test_seconds_are_nothing_else(value: object) -> None:
    with pytest.raises(ValueError, match="x must be"):
        seconds(value, "x")


def test_a_moment_is_told_in_utc() -> None:
    assert iso_utc(1_700_000_000.25) == "2023-11-14T22:13:20.250Z"
    assert iso_utc(1_700_000_000.25, "seconds") == "2023-11-14T22:13:20Z"


def test_no_duration_has_no_milliseconds() -> None:
    assert (milliseconds(1.2345), milliseconds(None)) == (1234, None)
