import string

from hypothesis import example, given, settings
from hypothesis import strategies as st

from shelltie.output.redact import Redactor

LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
VALUES = {"A_TOKEN": "alpha-s3cret-value", "B_KEY": "value/with+odd&signs", "C_KEY": "abcdabcdabcd"}
# Pieces of secrets, whole ones, what may stand around them, and enough filling that the window of
# the stream moves in between.
pieces = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *VALUES.values(),
                "alpha-s3cret",
                "abcd",
                "ghp_" + "a1B2" * 9,
                "ghp_a1B2",
                "sk-ant-" + "x" * 20,
                "AKIAIOSFODNN7EXAMPLE",
                "eyJhbGciOiJIUzI1NiJ9",
                ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.",
                "Bearer ",
                "Authorization: ",
                "abcdefghij0123456789",
                "postgres://app:",
                "p4ss",
                "@db",
                "-----BEGIN PRIVATE KEY-----",
                "-----END PRIVATE KEY-----",
                f"\n{LINE}",
                f"\n{LINE}" * 70,
                "x1234567890abc",
                ".atlasv1." + "z" * 40,
                *("\n", " ", ".", "-", "=", "\\n", '"', "é", "\U0001f511"),
            ]
        ),
        st.text(string.ascii_letters + " \n", max_size=20),
        st.integers(1, 9000).map(lambda size: ("word " * (size // 5 + 1))[:size]),
        st.integers(1, 3000).map(lambda size: "a" * size),
    ),
    max_size=25,
)
cuts = st.lists(st.integers(0, 40_000), max_size=12)


def in_pieces(redactor: Redactor, text: str, places: list[int]) -> str:
    stream = redactor.stream()
    ends = [*sorted(place for place in places if place < len(text)), len(text)]
    starts = [0, *ends]
    fed = [stream.feed(text[start:end]) for start, end in zip(starts, ends, strict=False)]
    return "".join(fed) + stream.finish()


@settings(max_examples=300, deadline=None)
@given(pieces.map("".join), cuts)
@example(
    "-----BEGIN PRIVATE KEY-----" + f"\n{LINE}" * 400 + "\nend\n" + "word " * 3000, [9000, 30000]
)
@example("word " * 1638 + "alpha-s3cret-value" + " word" * 3000, [8192, 8200, 12290])
def test_how_text_arrives_does_not_change_what_is_shown(text: str, places: list[int]) -> None:
    redactor = Redactor(VALUES)

    assert in_pieces(redactor, text, places) == redactor.text(text)


@settings(max_examples=200, deadline=None)
@given(pieces.map("".join))
def test_no_known_value_is_ever_shown(text: str) -> None:
    shown = Redactor(VALUES).text(text)

    assert not any(value in shown for value in VALUES.values())


@settings(max_examples=200, deadline=None)
@given(pieces.map(" ".join))  # a key that is glued to another is seen when that one is gone
def test_hiding_twice_hides_nothing_more(text: str) -> None:
    redactor = Redactor()
    once = redactor.text(text)

    assert redactor.text(once) == once


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=3000))
def test_any_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert Redactor({"K": "a-value-that-is-not-there"}).text(text) == text


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(max_size=3), max_size=400))
def test_single_characters_may_arrive_one_by_one(texts: list[str]) -> None:
    text = "".join(texts) + "alpha-s3cret-value"
    stream = Redactor(VALUES).stream()

    assert "".join(map(stream.feed, text)) + stream.finish() == Redactor(VALUES).text(text)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(
        [
            *("uthorization=token ", "sk-", "eyJ", "eyJ.eyJ", "://", "://a:", "://a:b", "earer 1"),
            *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END ", f"\n{LINE}", "AKIA"),
            *("ghp_" + "a" * 36, "SG." + "a" * 17, "password=", "--token ", "\\n", "abc", "secret"),
        ]
    ),
    st.text(max_size=5),
)
def test_nothing_repeated_takes_more_than_its_share(part: str, between: str) -> None:
    unit = part + between
    text = unit * (100_000 // len(unit))

    Redactor(VALUES).audit(text)  # pytest's own limit ends the test if this were quadratic
