"""The chain of entries: whatever somebody does to it shows, or is said not to."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shelltie.record.chain import GENESIS, TRIMMED, ChainEntry, Head, check, head_of, link

Chain = list[tuple[ChainEntry, str]]


def chain(length: int, first: int = 1, previous: str = GENESIS) -> Chain:
    made: Chain = []
    for seq in range(first, first + length):
        entry = ChainEntry(
            seq, 1_700_000_000_000_000 + seq, "server", "RUN", "ready", f'{{"n":{seq}}}'
        )
        previous = link(previous, entry)
        made.append((entry, previous))
    return made


def after(made: Chain, kind: str, body: str) -> Chain:
    last, digest = made[-1]
    entry = replace(last, seq=last.seq + 1, kind=kind, body=body)
    return [*made, (entry, link(digest, entry))]


def test_an_untouched_chain_is_good() -> None:
    made = chain(50)

    found = check(made)

    assert found.problems == ()
    assert (found.entries, found.first, found.head) == (50, 1, Head(50, made[-1][1]))
    assert check([]).head is None


@given(st.integers(0, 19), st.sampled_from(["at", "server", "run", "kind", "body", "seq"]))
def test_a_changed_entry_shows_whatever_was_changed(place: int, name: str) -> None:
    made = chain(20)
    entry, digest = made[place]
    other: object = getattr(entry, name) + (1 if name in ("at", "seq") else "x")
    made[place] = replace(entry, **{name: other}), digest  # type: ignore[arg-type]  # as named

    assert check(made).problems


@given(st.integers(0, 18))
def test_an_entry_that_was_changed_with_its_hash_shows_at_the_next(place: int) -> None:
    made = chain(20)
    forged = replace(made[place][0], body='{"n":"forged"}')
    made[place] = forged, link(GENESIS if place == 0 else made[place - 1][1], forged)

    assert check(made).problems == (
        f"entry {place + 2} was changed or moved, or the one before it was",
    )


@given(st.integers(0, 18), st.integers(1, 10))
def test_missing_entries_are_named(start: int, count: int) -> None:
    made = chain(20)
    last = min(start + count, 19)

    found = check(made[:start] + made[last:])

    gone = f"entry {start + 1} is" if last == start + 1 else f"entries {start + 1} to {last} are"
    assert found.problems == (f"{gone} missing",)


@given(st.permutations(range(8)))
def test_another_order_shows(order: list[int]) -> None:
    made = chain(8)
    moved = [
        (replace(made[source][0], seq=place + 1), made[source][1])
        for place, source in enumerate(order)
    ]

    assert bool(check(moved).problems) == (order != list(range(8)))


def test_a_cut_end_shows_only_to_who_kept_a_head() -> None:
    made = chain(20)
    kept = Head(18, made[17][1])

    assert check(made[:15]).problems == ()
    assert check(made[:15], [kept]).problems == (
        "the end is cut off: entry 18 was there, and the last one is 15",
    )
    assert check([], [kept]).problems


def test_a_chain_that_was_written_anew_shows_only_to_who_kept_a_head() -> None:
    kept = Head(18, chain(20)[17][1])
    forged = chain(20, previous="1" * 64)[0:0] + chain(1) + chain(19, 2, "f" * 64)
    rewritten: Chain = []
    previous = GENESIS
    for entry, _ in forged:
        other = replace(entry, body='{"n":0}')
        previous = link(previous, other)
        rewritten.append((other, previous))

    assert check(rewritten).problems == ()
    assert "rewritten" in check(rewritten, [kept]).problems[0]


def test_what_was_trimmed_is_not_missing() -> None:
    made = chain(20)
    said = json.dumps({"through": 12, "hash": made[11][1]})
    made = after(made, TRIMMED, said)

    assert check(made[12:]).problems == ()
    assert check(made[13:]).problems == ("entries 1 to 13 are missing",)
    assert "nothing can be compared" in check(made[12:], [Head(5, "0" * 64)]).problems[0]
    found = check(made[12:], [Head(5, "0" * 64), Head(12, made[11][1]), Head(13, made[12][1])])
    assert (found.problems, found.compared, found.older) == ((), 2, 1)
    assert found.trimmed == made[20][0].at


@pytest.mark.parametrize("gap", [0, 50])
def test_a_forged_chain_that_begins_after_the_kept_head_shows(gap: int) -> None:
    true = chain(20)
    start = 21 + gap
    forged = chain(6, start, "a" * 64)
    said = json.dumps({"through": start - 1, "hash": "a" * 64})
    forged = after(forged, TRIMMED, said)

    assert check(forged).problems == ()
    assert check(forged, [Head(20, true[19][1])]).problems


def test_a_trim_that_lies_shows() -> None:
    made = after(chain(20), TRIMMED, json.dumps({"through": 12, "hash": "0" * 64}))

    assert check(made[12:]).problems == ("entry 13, the first, was changed",)


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"through":"x","hash":1}', "null"])
def test_a_trim_that_says_nothing_is_a_problem(body: str) -> None:
    assert check(after(chain(3), TRIMMED, body)).problems


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "1",
        "1:",
        "1:abc",
        f"-1:{GENESIS}",
        f"x:{GENESIS}",
        f"1:{'g' * 64}",
        f"{'1' * 19}:{GENESIS}",
        f"\N{ARABIC-INDIC DIGIT ONE}:{GENESIS}",
    ],
)
def test_a_head_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no head"):
        head_of(text)


def test_a_head_is_read_as_it_is_written() -> None:
    assert head_of(f" {Head(7, GENESIS)}\n") == Head(7, GENESIS)
    assert head_of(f"{'9' * 18}:{GENESIS}").seq == 10**18 - 1


def test_a_trim_of_what_is_still_there_is_not_compared() -> None:
    made = chain(3)
    said = json.dumps({"through": 1, "hash": GENESIS})

    found = check(after(made, TRIMMED, said), [Head(1, made[0][1])])

    assert found.problems == ()
    assert found.compared == 1
