"""Any text can be read, and nothing hides a command."""

import shlex
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shelltie.shell.parse import READ_MAX, of_argv, parse
from shelltie.shell.script import Script, Simple, Word
from shelltie.verdict import Code

SCRAPS = st.sampled_from(
    (
        *(
            "a",
            "rm",
            "x=1",
            "x=(",
            "a[",
            "]=",
            "'",
            '"',
            "`",
            "\\",
            "\\`",
            "$(",
            ")",
            "${",
            "}",
            "((",
        ),
        *(
            "))",
            "$((",
            "$[",
            "]",
            "[[ ",
            " ]]",
            "=~",
            "|",
            "&&",
            "||",
            ";",
            ";;",
            "&",
            "\n",
            " ",
            "\t",
        ),
        *(
            "<<E",
            "<<-E",
            "<<'E'",
            "\nE\n",
            "<<<",
            ">",
            ">&",
            "<&-",
            "2>&1",
            "&>",
            "<(",
            ">(",
            "{fd}>",
        ),
        *(
            "if ",
            "then ",
            "else ",
            "fi ",
            "while ",
            "do ",
            "done ",
            "for ",
            "in ",
            "case ",
            "esac ",
        ),
        *(
            "function ",
            "f() ",
            "{ ",
            "; }",
            "time ",
            "! ",
            "coproc ",
            "select ",
            "#",
            "$x",
            "$@",
            "$'",
        ),
        *(
            '$"',
            "*",
            "?",
            "~",
            "{a,b}",
            "@(",
            "\\\n",
            "\r",
            "\0",
            "é",
            "\u202e",
            "😀",
            "\ud800",
            "$$(",
        ),
    )
)
TEXTS = st.one_of(
    st.text(max_size=200),
    st.text(st.characters(max_codepoint=127), max_size=200),
    st.lists(SCRAPS, max_size=60).map("".join),
    st.lists(SCRAPS, max_size=60).map(" ".join),
)

Wrap = Callable[[str], str]


def around(before: str, after: str = "") -> Wrap:
    return lambda text: f"{before}{text}{after}"


def in_backticks(before: str, after: str) -> Wrap:
    def wrapped(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace("`", "\\`").replace("$", "\\$")
        return f"{before}`{escaped}`{after}"

    return wrapped


def in_document(text: str) -> str:
    end = f"E{len(text)}"  # one that is not in it
    return f"a <<{end}\n$( {text} )\n{end}\n"


WRAPS = (
    in_document,
    *(around("( ", " )"), around("{ ", "\n}"), around("a $( ", " )"), around('a "$( ', ' )"')),
    *(around("if ", "\nthen a; fi"), around("if a; then ", "\nfi"), around("a <( ", " )")),
    *(around("for i in a; do ", "\ndone"), around("while ", "\ndo a; done"), around("! ")),
    *(around("case a in a) ", "\nesac"), around("case a in b) c;; a) ", "\n;; esac")),
    *(around("f() { ", "\n}; f"), around("function f {\n", "\n}"), around("time "), around("a\n")),
    *(around("x=$( ", " )"), around("x=( $( ", " ) )"), around("a ${x:-$( ", " )}")),
    *(around('a "${x:+$( ', ' )}"'), around("[[ -n $( ", " ) ]]"), around("a <<<$( ", " )")),
    *(around("a $(( 1 + $( ", " ) ))"), around("a >$( ", " )")),
    *(around("a && "), around("a | { ", "\n}"), around("a & "), around("a; "), around("'a' # b\n")),
    *(around("until ", "\ndo a; done"), around("coproc N { ", "\n}"), around("a[$( ", " )]=1")),
    *(in_backticks("a ", ""), in_backticks("x=", " a"), in_backticks("a ${x:-", "}")),
)


def words(script: Script) -> list[list[str | None]]:
    return [[word.value for word in command.words] for command in script.commands]


def every_word(command: Simple) -> list[Word]:
    redirected = [each for it in command.redirects for each in (it.target, it.body)]
    assigned = [each.value for each in command.assignments]
    return [*command.words, *(word for word in (*redirected, *assigned) if word is not None)]


@given(TEXTS)
def test_any_text_is_read_and_all_places_are_inside_it(text: str) -> None:
    script = parse(text)

    assert script.text == text
    spans = [it.span for command in script.commands for it in every_word(command)]
    spans += [it.span for command in script.commands for it in command.redirects]
    spans += [it.span for it in script.commands] + [it.span for it in script.problems]
    for span in spans:
        assert 0 <= span.start <= span.end <= len(text)


@given(TEXTS)
def test_parts_and_pipes_point_to_commands_that_are_there(text: str) -> None:
    script = parse(text)

    places = range(len(script.commands))
    for command in script.commands:
        inside = [at for word in every_word(command) for it in word.parts for at in it.commands]
        assert all(at in places for at in (*inside, *command.feeds))


@given(
    st.sampled_from(("rm -rf 'x y'", "rm -rf x\\ y", 'rm -rf "x y"')),
    st.lists(st.sampled_from(WRAPS), max_size=4),
)
def test_no_wrapping_hides_a_command(command: str, wraps: list[Wrap]) -> None:
    text = command
    for wrap in wraps:
        text = wrap(text)

    script = parse(text)

    assert ["rm", "-rf", "x y"] in words(script), text
    assert Code.PARSE_ERROR not in {problem.code for problem in script.problems}, text


@given(TEXTS)
def test_a_text_without_errors_hides_nothing_behind_it(text: str) -> None:
    errors = {problem.code for problem in parse(text).problems}
    if errors & {Code.PARSE_ERROR, Code.TOO_LONG, Code.TOO_DEEP}:
        return

    assert ["rm", "-rf", "x"] in words(parse(f"{text}\n\nrm -rf x\n")), text


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_a_quoted_command_line_is_read_as_it_was_quoted(argv: list[str]) -> None:
    script = parse(shlex.join(["a", *argv]))

    assert words(script) == [["a", *argv]]
    assert words(of_argv(argv)) == [argv]


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "(",
            "`",
            "$(",
            "{",
            "{ ",
            "<<a\n",
            "'",
            '"',
            "\\",
            '"$(',
            "${",
            "((",
            "$((",
            "[[ ",
            "if ",
        ),
        *("case x in ", "a[", "a=(", "x() ", "! ", "time ", "\\\n", "a\\\n", "&& ", ";", "|", "a;"),
        *("#\n", "<(", "$[", "`\\`", "\\`", "$'", "a <<'a\n", "for a in ", "function ", "*(", "é"),
        *(
            "{a,b}",
            "$x",
            ")",
            "}",
            "<<<",
            "${x:-",
            '"`',
            "a=",
            "1>",
            "((a)",
            "((a) b)\n",
            "$(a <<b\n",
        ),
        *("a <<b <<c ", "`a`", "a $(b) `c`\n", "a b c d e f ", "\ud800", "\0", "a[$(b)]"),
    ],
)
def test_hostile_sizes_are_read_to_the_end(unit: str) -> None:
    script = parse((unit * READ_MAX)[:READ_MAX])

    assert script.problems
