"""Which patterns of a search show nearly every line, whatever dialect reads them."""

import pytest

from shelltie.safety.search_pattern import fits_most_lines


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "",
            ".",
            ".*",
            "$",
            "=",
            "--",
            "//",
            ": ",
            "a",
            "a.b",
            "[[:alpha:]]+",
            "[abc]{2,9}",
            "ab?c?",
        ),
        *(
            "foo|",
            "foo|=",
            "foo\\|=",
            "foo\n",
            "foo\n=",
            "(foo)?",
            "\\(foo\\)*",
            "(foo){0}",
            "(foo){,3}",
        ),
        *("^(?!foo)", "(?x)e # foo", "(?#foo)", "(*UTF)", "(?<foo>.)", "(?P<foo>.)", "(?(1)foo)"),
        *(
            "\\w",
            "\\x3d",
            "\\x{3d}",
            "\\p{Lu}",
            "\\Q=\\E",
            "\\cA",
            "\\o{75}",
            "\\075",
            "=\\",
            "a\\{0\\}b",
        ),
        *("\0", "==", "-----", "-" * 100_000, "\\d+"),
    ],
)
def test_a_pattern_that_may_show_every_line_is_told(pattern: str) -> None:
    assert fits_most_lines(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        *("foo", "=>", "->", "a !== b", "\\->", "</div>", "x := 1", "std::", "===", "&&"),
        *(
            "foo|bar",
            "foo\\|bar",
            "foo\nbar",
            "(foo|bar)+",
            "(?:foo|bar)",
            "(?i)foo",
            "(?<=foo)",
            "a+bc",
        ),
        *(
            "print\\(",
            "\\bfoo\\b",
            "\\<foo",
            "^import ",
            "[a-z]foo",
            "foo[",
            "foo.*",
            "x(ab)",
            "def [a-z]+",
        ),
    ],
)
def test_a_pattern_with_a_telling_text_in_each_alternative_is_an_ordinary_one(pattern: str) -> None:
    assert not fits_most_lines(pattern)
