import pytest

from shelltie.running.exit_meaning import exit_meaning


@pytest.mark.parametrize(
    ("text", "code", "means"),
    [
        ("grep x f", 1, "grep: nothing matched"),
        ("/usr/bin/grep -rn 'a;b' src", 1, "grep: nothing matched"),
        ("rg x", 1, "rg: nothing matched"),
        ("git -C sub grep x", 1, "git: nothing matched"),
        ("find . | xargs grep x", 123, "xargs: nothing matched in some of it"),
        ("diff a b", 1, "diff: they differ"),
        ("cmp a b", 1, "cmp: they differ"),
        ("git diff --quiet", 1, "git: there are differences"),
        ("git merge-base --is-ancestor a b", 1, "git: it is no ancestor"),
        ("test -f x", 1, "test: the condition is false"),
        ("[ -f x ]", 1, "[: the condition is false"),
        ("[[ -f x ]]", 1, "[[: the condition is false"),
        ("pgrep -f x", 1, "pgrep: no process matched"),
        ("which x", 1, "which: no such program"),
        ("command -v x", 1, "command: no such program"),
        ("systemctl is-active x", 3, "systemctl: it is not active"),
        ("jq -e .a f.json", 1, "jq: the last result is false or null"),
        ("cat f | grep x", 1, "grep: nothing matched"),
        ("cd a && grep x f", 1, "grep: nothing matched"),
        ("npm test; grep x f", 1, "grep: nothing matched"),
        ("make\ngrep x f\n", 1, "grep: nothing matched"),
        ("make || grep x f", 1, "grep: nothing matched"),
        ("grep -q x f && echo yes", 1, "grep: nothing matched"),
        ("test -f f && grep x f", 1, "test: the condition is false or grep: nothing matched"),
        ("sudo LC_ALL=C grep x f 2>/dev/null", 1, "grep: nothing matched"),
        ("timeout 5 grep x f", 1, "grep: nothing matched"),
    ],
)
def test_a_code_that_is_an_answer_is_told_as_one(text: str, code: int, means: str) -> None:
    assert exit_meaning(text, code, complained=False) == means


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("grep x f", 0),
        ("grep x f", 2),
        ("diff a b", 2),
        ("git diff", 1),
        ("git push", 1),
        ("false", 1),
        ("npm test", 1),
        ("npm test && grep x f", 1),
        ("grep x f | head", 1),
        ("grep x f; make", 1),
        ("grep x f &", 1),
        ("! grep x f", 1),
        ("(grep x f)", 1),
        ("for f in *; do grep x $f; done", 1),
        ("if grep x f; then make; fi", 1),
        ("set -e; make; grep x f", 1),
        ("set -o pipefail; make | grep x", 1),
        ("grep $(make) f", 1),
        ("grep 'x f", 1),
        ("", 1),
    ],
)
def test_any_other_code_stays_what_it_is(text: str, code: int) -> None:
    assert exit_meaning(text, code, complained=False) is None


def test_who_complained_has_failed() -> None:
    assert exit_meaning("cat nowhere | grep x", 1, complained=True) is None
