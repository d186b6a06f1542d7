"""What is remembered of pure functions."""

from shelltie.basics.memo import memoized


def test_the_same_question_is_answered_once() -> None:
    asked = []

    @memoized
    def length(text: str, more: int) -> int:
        asked.append((text, more))
        return len(text) + more

    answers = [length("ls", 1), length("ls", 1), length("ls", 2)]

    assert answers == [3, 3, 4]
    assert asked == [("ls", 1), ("ls", 2)]


def test_what_is_said_of_a_long_text_is_not_kept() -> None:
    asked = []

    @memoized
    def first(text: str) -> str:
        asked.append(text)
        return text[0]

    answers = [first("x" * 5000), first("x" * 5000)]

    assert answers == ["x", "x"]
    assert len(asked) == 2


def test_only_the_latest_answers_are_kept() -> None:
    asked = []

    @memoized
    def same(text: str) -> str:
        asked.append(text)
        return text

    for number in (*range(600), 0):
        same(str(number))

    assert asked.count("0") == 2
