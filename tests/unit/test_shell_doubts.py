import pytest

from shelltie.shell.parse import parse
from shelltie.shell.script import Script
from shelltie.verdict import Code


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


@pytest.mark.parametrize("text", ["a >&'$(b)'; d", "a 1>&'`b`'; d", "a >&\\$\\(b\\); d"])
def test_bash_runs_what_stands_quoted_in_the_target_of_a_doubled_descriptor(text: str) -> None:
    script = parse(text)

    assert ["b"] in words(script)
    assert [problem.code for problem in script.problems] == [Code.PARSER_DISAGREEMENT]


@pytest.mark.parametrize("text", ['a >&"$x"', "a >&$x", "a >&f\\\\4"])
def test_a_doubled_descriptor_that_expands_is_in_doubt(text: str) -> None:
    assert [problem.code for problem in parse(text).problems] == [Code.PARSER_DISAGREEMENT]


@pytest.mark.parametrize("text", ["a >&2", "a 2>&1", "a >&f", "a >& 'f g'", "a 2>&-"])
def test_an_ordinary_doubled_descriptor_is_in_no_doubt(text: str) -> None:
    assert parse(text).problems == ()


def test_a_parenthesis_in_an_expansion_may_end_what_looks_like_arithmetic() -> None:
    script = parse("(( ${z:-)1} ))")

    assert words(script) == [["${z:-)1}"]]
    assert [problem.code for problem in script.problems] == [Code.PARSER_DISAGREEMENT]
