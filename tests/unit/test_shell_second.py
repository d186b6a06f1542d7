"""The second parser: what shfmt says of a text counts only where it says the same as we do."""

import json
import subprocess

import pytest

from shelltie.safety.judge import find_shfmt
from shelltie.shell.parse import parse
from shelltie.shell.script import Doubt
from shelltie.shell.shfmt import SHFMT_ARGS, agree
from shelltie.verdict import Code, Span


def shfmt(text: str) -> bytes:
    program = find_shfmt()
    assert program is not None
    return subprocess.run(
        (program, *SHFMT_ARGS),
        input=text.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=10,
        check=False,
    ).stdout


def disagreement(text: str, of: str | None = None) -> Doubt | None:
    return agree(parse(text), shfmt(text if of is None else of))


@pytest.mark.parametrize(
    "text",
    [
        *("ls", "git log --oneline -5 | head -3 && ls -la", "a; b & c || d", "! a", "time -p a b"),
        *("'a b' \"c d\" e\\ f $'\\x41'", 'a $x "${y}" $(b `c`) $((1 + 1))', "x=1 y= a", "x=1"),
        *("a >f 2>&1 <g >>h", "a &>f", "a <<E\nb $(c)\nE\n", "a <<'E'\n$(c)\nE\n", "a <<<b"),
        *("a <<-E\n\tb\n\tE\n", "a <(b) >(c)", "if a; then b; else c; fi", "while a; do b; done"),
        *("for i in a b; do c $i; done", "case $x in a|b) c ;; *) d ;; esac", "f() { a; }; f"),
        *("[[ -n $x && a == b* ]]", "(( x > 1 ))", "for ((i=0; i<2; i++)); do a; done", "(a; b)"),
        *(
            "export x=1",
            "a \\\n  b",
            "a # b\nc",
            "é 'ü' ö",
            'a "b \\" \\$ c"',
            "a 2>/dev/null\\\n b",
        ),
    ],
)
def test_both_read_it_alike(text: str) -> None:
    assert disagreement(text) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        *(("ls", "ls -l"), ("ls", "la"), ("ls", "ls; ls"), ("ls a", "ls 'a"), ("a >f", "a >g")),
        *(("a >f", "a >>f"), ("x=1 a", "y=1 a"), ("a $x", "a  x"), ("a 'b c'", "a  b c ")),
        *(("for i in a; do b; done", "for i in ab; do b; done"), ("a", "[[ a ]]"), ("a", "((a))")),
    ],
)
def test_another_tree_is_noticed(text: str, other: str) -> None:
    problem = disagreement(text, of=other)

    assert problem is not None
    assert (problem.code, problem.span) == (Code.PARSER_DISAGREEMENT, Span(0, len(text)))


def test_what_bash_reads_differently_is_never_agreed() -> None:
    text = "a <&-o b"  # for bash `-` closes the descriptor, and `o` is an argument

    assert [word.value for word in parse(text).commands[0].words] == ["a", "o", "b"]
    assert disagreement(text) is not None


@pytest.mark.parametrize(
    "garbage",
    [
        *(b"", b"{", b"null", b"[]", b"7", b'"a"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000),
        b'{"Type": "CallExpr", "Args": [{}]}',
        b'{"Type": "CaseClause"}',
        b'{"Redirs": [{}]}',
        b'{"Redirs": [7]}',
        b'{"Type": "CallExpr", "Args": 7}',
        b'{"Type": "CallExpr", "Assigns": [{"Name": null}]}',
    ],
)
def test_garbage_is_no_agreement(garbage: bytes) -> None:
    problem = agree(parse("ls"), garbage)

    assert problem is not None
    assert problem.code is Code.PARSER_DISAGREEMENT


def test_a_tree_that_is_too_large_is_no_agreement() -> None:
    assert agree(parse("ls"), json.dumps([0] * 100_000).encode()) is not None


@pytest.mark.parametrize(("opening", "closing"), [("( ", " )"), ("a $(", ")"), ("{ ", "; }")])
def test_deep_nesting_is_no_agreement_and_no_exception(opening: str, closing: str) -> None:
    text = opening * 300 + "a" + closing * 300

    script = parse(text)

    assert script.problems
    assert agree(script, shfmt(text)) is not None or len(script.commands) == 1
