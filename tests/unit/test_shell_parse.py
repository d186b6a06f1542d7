"""Every simple command of a text, with its words, redirections and places."""

import pytest

from shelltie.shell.parse import READ_MAX, is_unfinished, of_argv, parse
from shelltie.shell.script import Part, PartKind, Redirect, Simple, Word
from shelltie.verdict import Code, Span


def argvs(text: str) -> list[list[str | None]]:
    return [[word.value for word in each.words] for each in parse(text).commands if each.words]


def only(text: str) -> Simple:
    (command,) = parse(text).commands
    return command


def word(text: str) -> Word:
    """The first argument of the first command."""
    return parse(f"a {text}").commands[0].words[1]


def redirect(text: str) -> Redirect:
    (found,) = parse(text).commands[0].redirects
    return found


def codes(text: str) -> set[Code]:
    return {problem.code for problem in parse(text).problems}


# ---- words ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("b", "b"), ("'b c'", "b c"), ('"b c"', "b c"), ("b\\ c", "b c"), ("b'c'\"d\"", "bcd")),
        *(
            ("''", ""),
            ('""', ""),
            ("'\\n'", "\\n"),
            ('"\\n\\$\\`\\"\\\\"', '\\n$`"\\'),
            ("\\$x", "$x"),
        ),
        *(("$'a\\tb'", "a\tb"), ("$'\\x41\\101\\u0041'", "AAA"), ("$'\\''", "'"), ('$"b"', "b")),
        *(("$'a\\0b'", "a"), ("$'\\xc3\\xa9'", "é"), ("$'\\cA'", "\x01"), ("$", "$"), ("a$", "a$")),
        *(("b#c", "b#c"), ("b=c", "b=c"), ('"b\nc"', "b\nc"), ("-", "-")),
    ],
)
def test_a_literal_word_has_its_value(text: str, value: str) -> None:
    assert (word(text).text, word(text).value) == (text, value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("$x", Part(PartKind.VARIABLE, "x")),
        ("${x}", Part(PartKind.VARIABLE, "x")),
        ('"$x"', Part(PartKind.VARIABLE, "x", quoted=True)),
        ("$@", Part(PartKind.VARIABLE, "@")),
        ("$1", Part(PartKind.VARIABLE, "1")),
        ("$(b)", Part(PartKind.COMMAND, "$(b)", commands=(1,))),
        ('"`b; c`"', Part(PartKind.COMMAND, "`b; c`", quoted=True, commands=(1, 2))),
        ("<(b)", Part(PartKind.PROCESS, "<(b)", commands=(1,))),
        ("$((1 + $(b)))", Part(PartKind.ARITHMETIC, "$((1 + $(b)))", commands=(1,))),
        ("$[1]", Part(PartKind.ARITHMETIC, "$[1]")),
        ("${x:-$(b)}", Part(PartKind.EXPANSION, "${x:-$(b)}", commands=(1,))),
        ("${x[1]}", Part(PartKind.EXPANSION, "${x[1]}")),
    ],
)
def test_what_expands_is_a_part_of_its_own(text: str, part: Part) -> None:
    assert word(text).parts == (part,)
    assert word(text).value is None


def test_lines_are_not_joined_in_single_quotes() -> None:
    assert [word("'b\\\nc'").value, word('"b\\\nc"').value] == ["b\\\nc", "bc"]


def test_a_word_keeps_its_parts_in_order() -> None:
    assert word("b\"c $x\"'d'").parts == (
        Part(PartKind.TEXT, "b"),
        Part(PartKind.TEXT, "c ", quoted=True),
        Part(PartKind.VARIABLE, "x", quoted=True),
        Part(PartKind.TEXT, "d", quoted=True),
    )


@pytest.mark.parametrize(
    "text", ["*", "b?", "[ab]", "{b,c}", "{1..3}", "~", "x=~", "x=b:~", "~/b", "b{c,'d e'}"]
)
def test_a_pattern_may_become_other_words(text: str) -> None:
    assert word(text).pattern
    assert not word(text).single


@pytest.mark.parametrize("text", ["'*'", '"?"', "\\*", "b~", "{b}", "b]", "'{b,c}'", "{}", "b,c"])
def test_what_is_quoted_is_no_pattern(text: str) -> None:
    assert not word(text).pattern


def test_only_what_is_quoted_or_literal_stays_one_word() -> None:
    assert word('"$x"').single
    assert word("b'c'").single
    assert not word("$x").single
    assert not word('"$@"').single


# ---- commands -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        *(("a; b & c\nd", "abcd"), ("a && b || c | d |& e", "abcde"), ("(a; b)", "ab"), ("", "")),
        *(("{ a; b; }", "ab"), ("! a", "a"), ("time -p a", "a"), ("coproc a", "a"), ("a # b", "a")),
        *(("coproc N { a; }", "a"), ("if a; then b; elif c; then d; else e; fi", "abcde")),
        *(("while a; do b; done", "ab"), ("until a; do b; done", "ab"), ("for i; do a; done", "a")),
        *(("for ((i=0; i<$(a); i++)); do b; done", "ab"), ("select i in x; do a; done", "a")),
        *(("case x in y) a;; (z|w) b;& *) c; esac", "abc"), ("case $(a) in $(b)) c;; esac", "abc")),
        *(
            ("f() { a; }", "a"),
            ("function f { a; }", "a"),
            ("f() (a)", "a"),
            ("f() if a; then b; fi", "ab"),
        ),
        *(("x=$(a) b", "ba"), ("x=(1 $(a))", "a"), ("x[$(a)]=1", "a"), ("a <(b) >(c)", "abc")),
        *(
            ("a >$(b)", "ab"),
            ("a <<<$(b)", "ab"),
            ("a <<E\n$(b) `c`\nE\nd", "abcd"),
            ("a\n#b\nc", "ac"),
        ),
        *(("[[ -n $(a) ]] && b", "ab"), ("(( $(a) )) ; b", "ab"), ("a $(b $(c `d`))", "abcd")),
        *(('a "$(b "$(c)")"', "abc"), ('a ${x:-$(b)} "${x#`c`}"', "abc"), ("a $((1+$(b)))", "ab")),
        *(("a `b \\`c\\``", "abc"), ("a <<'E'\n$(b)\nE\nc", "ac"), ("a '$(b)'; c", "ac")),
        *(
            ("a $(case x in x) b;; esac)", "ab"),
            ("a $(b <<E\n)\nE\n); c", "abc"),
            ("((a); b)", "ab"),
        ),
    ],
)
def test_every_command_is_found_however_deep(text: str, names: str) -> None:
    found = [argv[0] for argv in argvs(text)]
    programs = [name for name in found if name is not None and name.isalpha() and len(name) == 1]

    assert sorted(set(programs) - set("xyzwi1")) == sorted(names)


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ("echo r\\\nm -rf x; r\\\nm -rf x", ["rm", "-rf", "x"]),
        ("echo ${x:-`rm x`}", ["rm", "x"]),
        ('echo "${x:-`rm x`}"', ["rm", "x"]),
        ("cat <<E\n`rm x`\nE\n", ["rm", "x"]),
        ("echo `echo \\`rm x\\``", ["rm", "x"]),
        ("coproc NAME { rm x; }", ["rm", "x"]),
        ("time rm x", ["rm", "x"]),
        ("[ -v 'a[$(rm x)]' ]", ["[", "-v", "a[$(rm x)]", "]"]),
    ],
)
def test_what_other_parsers_overlook_is_found(text: str, argv: list[str | None]) -> None:
    assert argv in argvs(text)


def test_assignments_stand_before_the_words() -> None:
    command = only("x=1 y+='b c' z[1]= a k=v")

    assert [(each.name, each.value and each.value.value) for each in command.assignments] == [
        ("x", "1"),
        ("y", "b c"),
        ("z[1]", ""),
    ]
    assert [each.value for each in command.words] == ["a", "k=v"]


def test_a_command_may_be_nothing_but_an_assignment() -> None:
    command = only("x=$y")

    assert (command.words, command.assignments[0].name) == ((), "x")


@pytest.mark.parametrize(
    ("text", "operator", "descriptor", "target"),
    [
        *(("a >f", ">", "", "f"), ("a 2>>f", ">>", "2", "f"), ("a <'f g'", "<", "", "f g")),
        *(("a >|f", ">|", "", "f"), ("a &>f", "&>", "", "f"), ("a &>>f", "&>>", "", "f")),
        *(("a <>f", "<>", "", "f"), ("a 2>&1", ">&", "2", "1"), ("a {x}>f", ">", "{x}", "f")),
        *((">f a", ">", "", "f"), ("a >f b", ">", "", "f"), ("a <&-o", "<&", "", "-")),
    ],
)
def test_redirections(text: str, operator: str, descriptor: str, target: str) -> None:
    found = redirect(text)

    assert (found.operator, found.descriptor) == (operator, descriptor)
    assert found.target is not None
    assert found.target.value == target


@pytest.mark.parametrize("text", ["(a) >f", "{ a; } >f", "if a; then a; fi >f", "[[ a ]] >f"])
def test_a_redirection_of_a_compound_is_a_command_without_words(text: str) -> None:
    last = parse(text).commands[-1]

    assert (last.words, len(last.redirects)) == ((), 1)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        *(
            ("a <<E\nb\nc\nE\n", "b\nc\n"),
            ("a <<'E'\n$x\nE\n", "$x\n"),
            ("a <<-E\n\tb\n\tE\n", "\tb\n"),
        ),
        *(("a <<E\nE\n", ""), ("a <<E\n$x\nE\n", None), ("a <<\\E\n`b`\nE\n", "`b`\n")),
        *(
            ("a <<E\nb\\\nc\nE\n", "bc\n"),
            ("a <<'E'\nb\\\nc\nE\n", "b\\\nc\n"),
            ("a <<<'b c'", "b c"),
        ),
    ],
)
def test_documents_have_their_body(text: str, body: str | None) -> None:
    found = redirect(text)

    assert found.body is not None
    assert (found.target, found.body.value) == (None, body)


def test_two_documents_on_one_line_follow_one_another() -> None:
    script = parse("a <<E; b <<'F'\n$(c)\nE\n$(d)\nF\ne")

    assert [each.words[0].value for each in script.commands] == ["a", "b", "c", "e"]
    assert script.problems == ()


def test_a_pipe_feeds_the_command_behind_it() -> None:
    feeds = [each.feeds for each in parse("a; b | c $(d) | (e; f)").commands]

    assert feeds == [(), (), (1,), (1,), (2, 3), (2, 3)]


def test_what_runs_in_the_background_is_marked() -> None:
    assert [each.background for each in parse("a; b | c & d").commands] == [
        False,
        True,
        True,
        False,
    ]


def test_a_loop_keeps_its_variable_and_words() -> None:
    loop, body = parse("for i in b 'c d' $x; do a; done").commands

    assert loop.loop == "i"
    assert [each.value for each in loop.words] == ["b", "c d", None]
    assert (body.loop, body.words[0].value) == (None, "a")


def test_functions_are_named() -> None:
    assert parse("f() { a; }; function g-h { b; }").functions == ("f", "g-h")


def test_spans_are_places_in_the_text() -> None:
    text = "x=1 a 'b c' >f <<E | d `e \\`f\\``\n$(g)\nE\n"
    script = parse(text)

    cut = [text[each.span.start : each.span.end] for each in script.commands]
    assert cut == ["x=1 a 'b c' >f <<E", "d `e \\`f\\``", "e \\`f\\`", "f", "g"]
    assert script.commands[0].words[1].span == Span(6, 11)


def test_spans_count_joined_lines() -> None:
    text = "a \\\n  b; c"

    first, second = parse(text).commands
    assert (first.words[1].span, second.span) == (Span(6, 7), Span(9, 10))


# ---- problems -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("a 'b", 'a "b', "a `b", "a $(b", "a ${b", "a $((1", "(a", "{ a", "a)", "a; }", "a &&"),
        *("| a", "a ;; b", "if a; then b", "if a; fi", "for i in; do", "case x in", "a <<E\nb"),
        *(
            "a <<E",
            "a >",
            "a > ;",
            "[[ a",
            "x=(a",
            "x=(a)b",
            "f()",
            "do",
            "a (b)",
            "a | | b",
            "! |",
        ),
    ],
)
def test_broken_text_is_told(text: str) -> None:
    assert Code.PARSE_ERROR in codes(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "rm x 'b",
            'rm x "b',
            "a `rm x",
            "a $(rm x",
            "(rm x",
            "rm x)",
            "a && rm x &&",
            "fi; rm x",
        ),
        *("a <<E\n$(rm x)", "if rm x", "a ${b:-$(rm x)", ") rm x", "a\n)\nrm x", "'$(\nrm x"),
    ],
)
def test_a_command_in_broken_text_is_found(text: str) -> None:
    assert ["rm", "x"] in [argv[:2] for argv in argvs(text)]


@pytest.mark.parametrize(
    "text",
    [
        *("coproc a", "a `b \\$c`", "a @(b|c)", "a <<$x\nb\n$x\n", "a ${x:-<(b)}", "x=(a # b\n)"),
        *("a $((b); c)", 'a "$$((b))"', "a $(b <<E\nE)", "a $(b <<E && \nE\nc;d)", "a <(x=(b) c)"),
    ],
)
def test_what_parsers_read_differently_is_told(text: str) -> None:
    assert Code.PARSER_DISAGREEMENT in codes(text)


def test_a_carriage_return_is_a_character_like_others() -> None:
    text = "a b\r\nc\r\n"

    assert argvs(text) == [["a", "b\r"], ["c\r"]]
    assert Code.INVISIBLE_CHARACTERS in codes(text)


def test_what_is_too_long_is_not_read() -> None:
    script = parse("a;\n" * READ_MAX)

    assert Code.TOO_LONG in {problem.code for problem in script.problems}
    assert not script.plain


@pytest.mark.parametrize(
    "text", ["ls", "ls -la 'a b' \"c\" | wc -l && b; c", "a \\\n b", "a || b\nc\n", "git log --x=1"]
)
def test_the_plain_subset(text: str) -> None:
    assert parse(text).plain


@pytest.mark.parametrize(
    "text",
    [
        *("a $x", "a `b`", "a >f", "a &", "(a)", "x=1 a", "a *", "a ~", "a \\b", "a # b", "! a"),
        *(
            "time a",
            "if a; then b; fi",
            '"a$x"',
            '"a!b"',
            "a {b,c}",
            "a\\\nb",
            "",
            "a 'b",
            "a <<E\nE\n",
        ),
    ],
)
def test_whatever_expands_or_nests_is_not_plain(text: str) -> None:
    assert not parse(text).plain


# ---- without a shell ------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [["ls"], ["a b", "$(c)", "*", "", "é", "d'e"], []])
def test_arguments_without_a_shell_are_literal(argv: list[str]) -> None:
    script = of_argv(argv)

    (command,) = script.commands
    assert [each.value for each in command.words] == argv
    assert [script.text[each.span.start : each.span.end] for each in command.words] == [
        each.text for each in command.words
    ]
    assert (script.plain, script.problems) == (True, ())
    assert all(each.single for each in command.words)


@pytest.mark.parametrize(
    ("lines", "unfinished"),
    [
        ("ls\n", False),
        ("", False),
        ("echo a |\n", True),
        ("echo a | # to whom\n", True),
        ("a &&\n", True),
        ("{ a\n", True),
        ("$(echo rm\n", True),
        ("while read l; do\n$l\n", True),
        ("while read l; do\n$l\ndone <<<x\n", False),
        ("cat <<X\na\n", True),
        ("cat <<X\na\nX\n", False),
        ("echo 'a\n", True),
        ('echo "a\n', True),
        ("echo `a\n", True),
        ("echo `if a`\n", False),
        ("f()\n", True),
        ("for i in a\n", True),
        ("case a in\n", True),
        ("a=(b\n", True),
        ("foo )\n", False),
        ("foo )\necho a |\n", True),
        ("for i in range(3):\n", False),
        ("case in point\n", False),
        ("cat <\n", False),
        ("${ a; }; b |\n", True),
        (")\n" * 100, True),
    ],
)
def test_a_text_is_unfinished_while_a_shell_would_wait_for_more(
    lines: str, unfinished: bool
) -> None:
    assert is_unfinished(lines) is unfinished
