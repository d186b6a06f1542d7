import json

import pytest

from shelltie.agents.jsonl_events import EventLines, ParsedChunk

MEBIBYTE = 1024 * 1024


@pytest.mark.proves("T3-11", "C-27", "S3-32", "S3-35")
def test_of_127_events_the_last_50_are_kept_and_all_are_counted() -> None:
    lines = EventLines()

    for number in range(127):
        lines.feed(json.dumps({"type": "step", "n": number}).encode() + b"\n")

    assert [event["n"] for event in lines.events] == list(range(77, 127))
    assert (lines.count, lines.dropped) == (127, 77)


@pytest.mark.proves("T3-11")
@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_lines_may_be_split_anywhere_and_mixed_with_anything(size: int) -> None:
    text = (
        '{"a": "ä€"}\r\nplain text\n\n  {"b": 2}  \n{"broken": \n[1, 2]\n"text"\n{"c": 3}'.encode()
    )
    lines = EventLines()

    for start in range(0, len(text), size):
        lines.feed(text[start : start + size])
    before = lines.count
    lines.flush()

    assert before == 2
    assert lines.events == [{"a": "ä€"}, {"b": 2}, {"c": 3}]


@pytest.mark.proves("C-88")
def test_heartbeats_are_told_but_not_stored() -> None:
    lines = EventLines()

    seen = lines.feed(b'{"type": "heartbeat"}\n{"type": "step"}\n{"type": "heartbeat"}\n{"ty')

    assert seen == ParsedChunk(events=1, heartbeats=2)
    assert lines.events == [{"type": "step"}]
    assert lines.count == 1


def test_a_line_without_end_is_skipped_and_the_next_one_is_read() -> None:
    lines = EventLines()

    lines.feed(b'{"a": "')
    for _ in range(20):
        lines.feed(b"x" * 100_000)
    held = len(lines._partial)
    seen = lines.feed(b'"}\n{"b": 1}\n')

    assert held == 0
    assert seen == ParsedChunk(events=1)
    assert lines.events == [{"b": 1}]


def test_a_long_line_in_one_piece_is_skipped_too() -> None:
    lines = EventLines()

    lines.feed(b'\n{"a": "' + b"x" * MEBIBYTE + b'"}\n{"b": 1}\n')

    assert lines.events == [{"b": 1}]


def test_large_events_are_kept_only_up_to_a_mebibyte_together() -> None:
    lines = EventLines()

    for number in range(5):
        lines.feed(b'{"n": %d, "text": "%s"}\n' % (number, b"x" * 400_000))

    assert [event["n"] for event in lines.events] == [3, 4]
    assert lines.dropped == 3


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
        b'{"a": ' + b"[" * 100_000,
        b'{"a": ' + b"1" * 10_000 + b"}",
        b"\xff\xfe{}",
        b"{}{}",
    ],
)
def test_what_cannot_be_sent_on_is_no_event(line: bytes) -> None:
    lines = EventLines()

    lines.feed(line + b"\n")

    assert lines.count == 0


def test_invalid_utf8_inside_an_event_is_replaced() -> None:
    lines = EventLines()

    lines.feed(b'{"a": "\xff"}\n')

    assert lines.events == [{"a": "�"}]


@pytest.mark.proves("C-88")
def test_a_pattern_says_which_lines_are_heartbeats() -> None:
    lines = EventLines(beat=lambda line: line.startswith("... still") or '"ping"' in line)

    seen = lines.feed(b'... still here\n\n{"type": "ping"}\n{"type": "turn"}\nbuilding\n')

    assert (seen.heartbeats, seen.events, seen.others) == (2, 1, 1)
    assert lines.events == [{"type": "turn"}]


def test_half_a_line_is_text_as_soon_as_it_can_be_nothing_else() -> None:
    lines = EventLines()

    said = []
    for piece in (b' {"type":', b' "heartbeat"}\n', b"..", b".", b"\n", b"{" + b"x" * 2_000_000):
        seen = lines.feed(piece)
        said.append((seen.heartbeats, seen.others, lines.in_text))

    assert said == [
        (0, 0, False),
        (1, 0, False),
        (0, 0, True),
        (0, 0, True),
        (0, 1, False),
        (0, 0, True),
    ]
