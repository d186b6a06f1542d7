"""Arguments are told apart as the program itself would do it."""

import pytest

from shelltie.safety.option_split import SplitArguments, roles, slots_for, split
from shelltie.safety.rule import Role, Rule
from shelltie.safety.rule_parser import compile_rules
from shelltie.safety.values import Values
from shelltie.shell.parse import parse
from shelltie.verdict import Code


def rule(text: str) -> Rule:
    return compile_rules(
        f'[[rule]]\ncommand = "x"\nverdict = "safe"\n{text}', "t", family="t", trusted=True
    )[0]


def given(rule_text: str, command: str, *, stop: bool = False) -> SplitArguments:
    script = parse(command)
    args = Values(script).args(script.commands[0].words)[1:]
    return split(rule(rule_text), args, {}, stop=stop)


def flags(found: SplitArguments) -> list[tuple[str, str | None]]:
    return [(one.flag.name, one.value.value if one.value else None) for one in found.flags]


def operands(found: SplitArguments) -> list[str | None]:
    return [arg.value for arg in found.operands]


@pytest.mark.parametrize(
    ("command", "expected", "left"),
    [
        ("x -ab f", [("-a", None), ("-b", None)], ["f"]),
        ("x -an5 f", [("-a", None), ("-n", "5")], ["f"]),
        ("x -n 5 f", [("-n", "5")], ["f"]),
        ("x --lines=5 f", [("--lines", "5")], ["f"]),
        ("x --lines 5 f", [("--lines", "5")], ["f"]),
        ("x f -a", [("-a", None)], ["f"]),
        ("x -- -a f", [("--", None)], ["-a", "f"]),
        ("x - f", [], ["-", "f"]),
        ("x --color f", [("--color", None)], ["f"]),
        ("x --color=no f", [("--color", "no")], ["f"]),
        ("x -Uq f", [("-U", "q")], ["f"]),
        ("x -U q", [("-U", None)], ["q"]),
        ("x -12", [("-#", None)], []),
        ("x --arg a b f", [("--arg", "b")], ["f"]),
    ],
)
def test_gnu_options_take_their_values(
    command: str, expected: list[tuple[str, str | None]], left: list[str]
) -> None:
    found = given(
        'bool = "-a -b -#"\nvalue = "-n --lines"\noptional = "--color -U"\npair = "--arg"', command
    )

    assert flags(found) == expected
    assert operands(found) == left
    assert not found.unknown


def test_the_first_operand_may_end_the_options() -> None:
    found = given('bool = "-a"', "x -a y -a", stop=True)

    assert flags(found) == [("-a", None)]
    assert operands(found) == ["y", "-a"]


def test_an_option_that_is_not_listed_is_unknown() -> None:
    assert [arg.value for arg in given('bool = "-a"', "x -ab --c").unknown] == ["-ab", "--c"]
    assert not given('bool = "-a"\nflags = "any"', "x -ab --c").unknown


def test_an_abbreviation_is_every_option_it_may_mean_and_never_certain() -> None:
    text = 'bool = "--output-mode"\nwrites = "--output"\nvalue = "--other"'

    found = given(text, "x --out f")

    assert {one.flag.name for one in found.flags} == {"--output", "--output-mode"}
    assert found.unknown


def test_a_unique_abbreviation_takes_its_value() -> None:
    assert flags(given('value = "--lines"', "x --li 5")) == [("--lines", "5")]


def test_words_can_be_options() -> None:
    found = given(
        'style = "word"\nbool = "! -print"\nvalue = "-name"', "x . ! -name a -print --name=b"
    )

    assert flags(found) == [("!", None), ("-name", "a"), ("-print", None), ("-name", "b")]
    assert operands(found) == ["."]


def test_a_bundle_takes_its_values_in_order() -> None:
    found = given(
        'style = "bundle"\nbool = "-t -z"\nreads = "-f"\nvalue = "-C"', "x tfzC a.tar d f"
    )

    assert flags(found) == [("-t", None), ("-f", "a.tar"), ("-z", None), ("-C", "d")]
    assert operands(found) == ["f"]


def test_without_style_everything_is_an_operand() -> None:
    assert operands(given('style = "none"', "x -a -- b")) == ["-a", "--", "b"]


def test_a_command_inside_ends_at_its_mark() -> None:
    found = given(
        'style = "word"\nexec = "-exec"\nbool = "-print"',
        r"x . -exec a {} \; -exec b {} + -print -exec c",
    )

    assert [[arg.value for arg in inner] for inner in found.inner] == [
        ["a", "{}"],
        ["b", "{}"],
        ["c"],
    ]
    assert ("-print", None) in flags(found)


@pytest.mark.parametrize("word", ["$x", '"$x"', "$(ls)", "*", "?a", "-$x"])
def test_a_word_that_may_become_an_option_is_loose(word: str) -> None:
    assert given("", f"x {word}").loose


@pytest.mark.parametrize(
    "word", ["'$x'", 'src/"$x"', "src/*.py", "~/x", "a{b,c}", "$HOME", "-- $x"]
)
def test_a_word_that_cannot_become_an_option_is_not(word: str) -> None:
    assert not given("", f"x {word}").loose


def test_an_option_only_a_condition_names_is_seen_but_not_allowed() -> None:
    condition = (
        '[[rule.when]]\nflags = "--burn"\nverdict = "dangerous"\ncode = "destroys_data"\nwhy = "."'
    )

    found = given(condition, "x --burn")

    assert [one.flag.code for one in found.flags] == [Code.UNKNOWN_FLAG]


def by_role(slots: str, *words: str) -> tuple[list[tuple[Role, int]], int]:
    script = parse("x " + " ".join(words))
    args = Values(script).args(script.commands[0].words)[1:]
    found, rest = roles(rule(f'operands = "{slots}"').operands, args)
    return [(role, len(some)) for role, some in found], len(rest)


@pytest.mark.parametrize(
    ("slots", "words", "expected", "too_many"),
    [
        ("text read*", ["p", "a", "b"], [(Role.TEXT, 1), (Role.READ, 2)], 0),
        ("read+ write", ["a", "b", "c"], [(Role.READ, 2), (Role.WRITE, 1)], 0),
        ("read? write?", ["a"], [(Role.READ, 1)], 0),
        ("text?", ["a", "b"], [(Role.TEXT, 1)], 1),
        ("", ["a"], [], 1),
        ("text command", ["5", "rm", "x"], [(Role.TEXT, 1), (Role.COMMAND, 2)], 0),
        ("assign* command", ["A=1", "B=2", "ls", "C=3"], [(Role.ASSIGN, 2), (Role.COMMAND, 2)], 0),
        ("host shell", ["h", "ls", "x"], [(Role.HOST, 1), (Role.SHELL, 2)], 0),
    ],
)
def test_operands_find_their_places(
    slots: str, words: list[str], expected: list[tuple[Role, int]], too_many: int
) -> None:
    assert by_role(slots, *words) == (expected, too_many)


def test_an_option_can_change_what_operands_are() -> None:
    made = rule('value = "-e"\noperands = "sed read*"\noperands_with = { "-e" = "read*" }')

    assert slots_for(made, frozenset({"-e"})) == made.operands_with[0][1]
    assert slots_for(made, frozenset()) == made.operands
