"""What bash really executes is what we said it would: the short form of `benchmarks.fuzz_shell`."""

import subprocess

import pytest

from benchmarks.fuzz_shell import fuzz, unforeseen_commands, unforeseen_files
from benchmarks.jail import NEEDS, jail
from shelltie.shell.parse import parse

pytestmark = [pytest.mark.needs(*NEEDS), pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def can_be_jailed() -> None:
    """Some systems let only root have namespaces."""
    try:
        with jail() as cell:
            cell.run([":"])
    except subprocess.CalledProcessError:
        pytest.skip("needs root, or user namespaces")


def test_nothing_that_runs_is_missing_from_our_list_and_nothing_safe_does_more() -> None:
    found = fuzz(seed=7, count=300)

    assert found.misses == []
    assert found.counts["executed commands in agreed scripts"] > 100
    assert found.counts["executed commands in safe scripts"] > 20


TRICKY = (
    *("c1 `c2 \\`c3 a\\``", "c1 ${x:+`c2`} \"${y:-$(c3 'b c')}\"", "c1 <<E\n$(c2)\n`c3 d`\nE\nc4"),
    *("c\\\n1 -a; c2 $(c3 <<'E'\n)\nE\n)", "c1 <(c2) > >(c3)", "! c1 || time c2 && c3 & c4"),
    *("case a in (a) c1;;& b) c2;; *) c3;& d) c4; esac", "f() { c1 \"$@\"; }; f a 'b c' | c2"),
    *(
        "for i in a b; do c1 $i >f$i; done",
        "if c1; then c2; else c3; fi 2>g",
        "c1 $'a\\'b' 'c'\"d\"",
    ),
    *(
        "{ c1; (c2; c3) } >h; c4 <&-o",
        "[[ a =~ (a|b) && -n $(c1) ]]; (( $(c4) + 1 ))",
        "c1 # c2\nc3",
    ),
    *(
        "x=$(c1) y=`c2` c3",
        "c1 <<-E | c2\n\t$(c3)\n\tE\n",
        "c1 \\\n  a \\\n  b",
        "c1 {a,b}{1..2} *",
    ),
)


def test_in_tricky_texts_every_command_and_every_file_is_foreseen() -> None:
    with jail() as cell:
        ran = cell.run(TRICKY)

    for text, did in zip(TRICKY, ran, strict=True):
        assert did.valid, text
        assert unforeseen_commands(parse(text), did) == [], text
        assert unforeseen_files(parse(text), did) == [], text


def test_a_command_that_we_do_not_know_of_would_be_noticed() -> None:
    """The oracle itself works: it sees what another text than the one that we read has done."""
    with jail() as cell:
        (did,) = cell.run(["c1 a; c2 'b c' >f"])

    read = parse("c1 a")
    assert unforeseen_commands(read, did) == [("c2", "b c")]
    assert unforeseen_files(read, did) == ["f"]
