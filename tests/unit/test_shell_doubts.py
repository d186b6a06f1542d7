import pytest

from shelltie.model import Code
from shelltie.shell.parse import parse
from shelltie.shell.script import Script


def words(script: Script) -> list[list[str]]:
    """What each command consists of, as far as it is known."""
    return [[word.value or word.text for word in command.words] for command in script.commands]


@pytest.mark.parametrize(
    "text",
    [
        "a \"${x:-'$(b)'}\" c; d",
        "a \"${x:-'`b`'}\" c; d",
        "a \"${x:-'}$(b)'}\" c; d",
        "a $((1 + '$(b)')) c; d",
    ],
)
def test_single_quotes_do_not_keep_bash_from_running_what_is_in_a_quoted_expansion(
    text: str,
) -> None:
    script = parse(text)

    assert ["b"] in words(script)
    assert words(script)[-1] == ["d"]
    assert [problem.code for problem in script.problems] == [Code.PARSER_DISAGREEMENT]


@pytest.mark.parametrize(
    "text",
    [
        "a $((1 + $(b # it's \"\n case x in x) c;; esac) ))",
        "a $((1 + $(b # '\n) ))",
        "a $((1 + $(b <<E\n)\nE\n) ))",
    ],
)
def test_arithmetic_is_in_doubt_where_bash_may_count_its_parentheses_differently(text: str) -> None:
    script = parse(text)

    assert ["b"] in words(script)
    assert Code.PARSER_DISAGREEMENT in {problem.code for problem in script.problems}


def test_time_is_a_program_unless_a_pipeline_begins_with_it() -> None:
    assert words(parse("time a | time b c")) == [["a"], ["time", "b", "c"]]
    assert parse("time a | time b c").problems == ()
