"""Rule files: what they may say, what is told when they are wrong, and that ours are right."""

import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from shelltie.errors import ConfigWrong
from shelltie.safety import rule_set
from shelltie.safety.protected_names import TABLES, make_tables
from shelltie.safety.rating import rate
from shelltie.safety.rule import Rule
from shelltie.safety.rule_examples import failures, open_rules
from shelltie.safety.rule_parser import compile_rules
from shelltie.safety.rule_set import (
    INDEX,
    PROGRAMS,
    RuleFile,
    RuleSet,
    make_index,
    read_family,
    read_index,
    without_examples,
    write_compiled,
)
from shelltie.shell.parse import parse
from shelltie.verdict import Code, Rating

FAMILIES = sorted(PROGRAMS.glob("*.toml"))
SCHEMA = PROGRAMS.parent / "rules.schema.json"

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a rule file."""

    def written(text: str) -> Path:
        path = tmp_path / f"rules{len(list(tmp_path.iterdir()))}.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def compiled(text: str) -> list[Rule]:
    return compile_rules(text, "own.toml", family="own", trusted=False)


def wrong(text: str) -> str:
    with pytest.raises(ConfigWrong) as error:
        compiled(text)
    return str(error.value)


def rated(command: str, rules: RuleSet) -> Rating:
    return rate(parse(command), rules).rating


# ---- what is told about a wrong file --------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            '[[rule]]\ncommand = "x"\nverdict = "safe"\nvallue = "-n"',
            "own.toml:4: vallue: is not known; did you mean value?",
        ),
        (
            '[[rule]]\ncommand = "x"\nverdict = "save"',
            "own.toml:3: verdict: 'save' is not known; did you mean safe?",
        ),
        ('[[rule]]\ncommand = "x"', "own.toml:1: verdict: is missing"),
        ('[[rule]]\nverdict = "safe"', "own.toml:1: command: is missing"),
        ('[[rule]]\ncommand = "x"\nverdict = "unknown"\nwhy = "x"', "own.toml:1: code: is missing"),
        (
            '[[rule]]\ncommand = "x"\nverdict = "unknown"\ncode = "run_code"\nwhy = "x"',
            "own.toml:4: code: 'run_code' is not known; did you mean runs_code?",
        ),
        (
            '[[rule]]\ncommand = "x"\nverdict = "safe"\n\n[[rule]]\ncommand = "y"\n'
            'verdict = "safe"\noperands = "red*"',
            "own.toml:8: operands: 'red' is not known; did you mean read?",
        ),
        (
            '[[rule]]\ncommand = "x"\nverdict = "safe"\noperands = "read* text*"',
            "own.toml:4: operands: only one kind may repeat",
        ),
        (
            '[[rule]]\ncommand = "x"\nverdict = "safe"\nbool = "-a"\nvalue = "-a"',
            "own.toml:5: value: -a is listed twice",
        ),
        (
            '[[rule]]\ncommand = "x"\nverdict = "safe"\n[[rule.when]]\nflag = "-r"\n'
            'verdict = "dangerous"\ncode = "destroys_data"\nwhy = "x"',
            "own.toml:5: flag: is not known; did you mean flags?",
        ),
        (
            '[[rule]]\ncommand = "x"\nverdict = "dangerous"\ncode = "privilege"\nwhy = "x"\n'
            '[[rule.when]]\nflags = "-r"\nverdict = "unknown"\ncode = "network"\nwhy = "x"',
            "own.toml:8: verdict: may not be milder than the rule's own",
        ),
        (
            '[[rule]]\ncommand = "x"\nverdict = "safe"\n[[rule.when]]\noperand = "(a+)+"\n'
            'verdict = "dangerous"\ncode = "destroys_data"\nwhy = "x"',
            "own.toml:5: operand: '(a+)+' repeats a part",
        ),
        (
            '[[rule]]\ncommand = "x"\nverdict = "safe"\nrequires = "git-confg"',
            "own.toml:4: requires: 'git-confg' is not known; did you mean git-config?",
        ),
        (
            '[[rule]]\ncommand = "x"\nverdict = "safe"\ndeny = { exec_flg = "-x" }',
            "own.toml:4: deny: 'exec_flg' is not known; did you mean exec_flag?",
        ),
        (
            '[[rule]]\ncommand = "x"\nverdict = "safe"\nstop = "yes"',
            "own.toml:4: stop: must be true",
        ),
        ('[[rule]]\ncommand = "x"\nverdict = "safe"\nbool = 3', "own.toml:4: bool: must be a text"),
        ('[[rules]]\ncommand = "x"', "own.toml:1: rules: is not known; did you mean rule?"),
        ("rule = 3", "own.toml:1: rule: must be written as [[rule]]"),
        ("[[rule", "own.toml: is not TOML"),
    ],
)
def test_every_error_names_the_file_the_line_and_the_key(text: str, told: str) -> None:
    assert told in wrong(text)


def test_all_problems_are_told_at_once_up_to_a_limit() -> None:
    many = '[[rule]]\ncommand = "x"\nverdict = "safe"\n' + "\n".join(
        f"key{number} = 1" for number in range(30)
    )

    lines = wrong(many).splitlines()

    assert len(lines) == 21
    assert lines[-1] == "10 more problems are not listed"


def test_a_comma_makes_several_rules() -> None:
    rules = compiled('[[rule]]\ncommand = "a b, c"\nverdict = "safe"')

    assert [rule.command for rule in rules] == [("a", "b"), ("c",)]


# ---- ours -----------------------------------------------------------------------------------


def test_the_index_says_which_file_speaks_of_which_program() -> None:
    assert read_index() == make_index(), "run scripts/rules-index"
    assert json.loads(INDEX.read_text(encoding="utf-8"))["git"]


def test_the_tables_say_what_their_files_say() -> None:
    assert json.loads(TABLES.read_bytes()) == make_tables(), "run scripts/rules-index"


def test_the_build_reads_our_rules_as_they_are_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_set, "COMPILED", tmp_path)

    write_compiled()

    for family in FAMILIES:
        made = json.loads((tmp_path / f"{family.stem}.json").read_bytes())
        text = without_examples(family.read_text(encoding="utf-8-sig"))
        assert made == {"text": text, "document": tomllib.loads(text)}


@pytest.mark.parametrize("spoiled", ["", "{", '{"text": "of another version", "document": {}}'])
def test_what_the_build_has_read_counts_as_long_as_the_file_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoiled: str
) -> None:
    monkeypatch.setattr(rule_set, "COMPILED", tmp_path)
    write_compiled()
    made = json.loads((tmp_path / "files.json").read_bytes())
    (tmp_path / "files.json").write_text(json.dumps(made | {"document": {}}), encoding="utf-8")

    unread = rate(parse("ls"), RuleSet()).rating
    (tmp_path / "files.json").write_text(spoiled, encoding="utf-8")
    read = rate(parse("ls"), RuleSet()).rating

    assert (unread, read) == (Rating.UNKNOWN, Rating.SAFE)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda path: path.stem)
def test_our_rules_do_what_their_examples_show(family: Path) -> None:
    assert list(failures(read_family(family), RuleSet(), family.name)) == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda path: path.stem)
def test_our_rule_files_are_as_the_schema_says(family: Path) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    document = tomllib.loads(family.read_text(encoding="utf-8"))

    errors = list(jsonschema.Draft202012Validator(schema).iter_errors(document))

    assert [error.message for error in errors] == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda path: path.stem)
def test_the_patterns_of_our_rules_can_be_compiled(family: Path) -> None:
    for rule in read_family(family):
        for when in rule.whens:
            for pattern in [when.operand or "", *(text for _, text in when.value)]:
                re.compile(pattern)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda path: path.stem)
def test_our_rule_files_say_the_same_without_their_examples(family: Path) -> None:
    text = family.read_text(encoding="utf-8")

    short = compile_rules(without_examples(text), "x", family=family.stem, trusted=True)

    assert [bare(rule) for rule in short] == [bare(rule) for rule in read_family(family)]


def bare(rule: Rule) -> Rule:
    whens = tuple(replace(when, examples=()) for when in rule.whens)
    return replace(rule, match=(), not_match=(), line=0, whens=whens)


def test_the_schema_knows_every_code() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))

    assert schema["$defs"]["code"]["enum"] == list(Code)


# ---- the user's -----------------------------------------------------------------------------

OWN = '[[rule]]\ncommand = "{}"\nverdict = "{}"\ncode = "network"\nwhy = "because"\n'


def test_a_users_rule_makes_an_unknown_program_known(write: Write) -> None:
    path = write('[[rule]]\ncommand = "frob show"\nverdict = "safe"\nmatch = ["frob show x"]')

    rules = open_rules([RuleFile(path)])

    assert rated("frob show x", rules) is Rating.SAFE
    assert rated("frob drop x", rules) is Rating.UNKNOWN


def test_a_users_rule_replaces_ours_for_the_same_command_only(write: Write) -> None:
    rules = open_rules([RuleFile(write(OWN.format("git log", "dangerous")))])

    assert rated("git log", rules) is Rating.DANGEROUS
    assert rated("git status", rules) is Rating.SAFE


def test_a_users_rule_may_be_milder_than_ours(write: Write) -> None:
    text = '[[rule]]\ncommand = "mkdir"\nverdict = "safe"\nflags = "any"\noperands = "text*"'

    assert rated("mkdir x", open_rules([RuleFile(write(text))])) is Rating.SAFE


@pytest.mark.parametrize("command", ["mkdir", "sudo", "frob"])
def test_a_file_that_may_only_tighten_makes_nothing_milder(write: Write, command: str) -> None:
    text = f'[[rule]]\ncommand = "{command}"\nverdict = "safe"\nflags = "any"\noperands = "text*"'

    rules = open_rules([RuleFile(write(text), tighten_only=True)])

    assert rated(f"{command} x", rules) is rated(f"{command} x", RuleSet())


@pytest.mark.parametrize("command", ["ls", "git log", "frob"])
def test_a_file_that_may_only_tighten_can_tighten(write: Write, command: str) -> None:
    path = write(OWN.format(command, "dangerous"))

    assert rated(command, open_rules([RuleFile(path, tighten_only=True)])) is Rating.DANGEROUS


@pytest.mark.parametrize("example", ['match = ["frob -x"]', 'not_match = ["frob"]'])
def test_a_rule_that_fails_its_own_examples_is_refused(write: Write, example: str) -> None:
    path = write(f'[[rule]]\ncommand = "frob"\nverdict = "safe"\n{example}')

    with pytest.raises(ConfigWrong, match=rf"{path.name}:1: (not_)?match: 'frob"):
        open_rules([RuleFile(path)])


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigWrong, match="no such file"):
        open_rules([RuleFile(tmp_path / "absent.toml")])
    with pytest.raises(ConfigWrong, match="cannot be read"):
        open_rules([RuleFile(tmp_path)])


@pytest.mark.parametrize("name", ["frob", "frob3", "frob-1.2", "frab.x"])
def test_a_program_is_found_by_pattern_and_without_its_version(write: Write, name: str) -> None:
    rules = open_rules([RuleFile(write('[[rule]]\ncommand = "frob, frab.*"\nverdict = "safe"'))])

    assert rated(name, rules) is Rating.SAFE
    assert rated("frobber", rules) is Rating.UNKNOWN


def test_subcommands_may_be_patterns_and_the_exact_one_wins(write: Write) -> None:
    text = '[[rule]]\ncommand = "frob * list-*"\nverdict = "safe"\n' + OWN.format(
        "frob key list-all", "dangerous"
    )
    rules = open_rules([RuleFile(write(text))])

    assert rated("frob x list-y", rules) is Rating.SAFE
    assert rated("frob key list-all", rules) is Rating.DANGEROUS
    assert rated("frob x drop-y", rules) is Rating.UNKNOWN


def test_options_may_be_allowed_everywhere(write: Write) -> None:
    text = (
        '[[rule]]\ncommand = "frob"\nverdict = "safe"\nvalue = "-n"\neverywhere = true\n'
        '[[rule]]\ncommand = "frob get"\nverdict = "safe"\n'
        '[[rule]]\ncommand = "frab"\nverdict = "safe"\nvalue = "-n"\n'
        '[[rule]]\ncommand = "frab get"\nverdict = "safe"\n'
    )
    rules = open_rules([RuleFile(write(text))])

    assert rated("frob -n x get y", rules) is Rating.SAFE
    assert rated("frob get y -n x", rules) is Rating.SAFE
    assert rated("frab -n x get y", rules) is Rating.SAFE
    assert rated("frab get y -n x", rules) is Rating.UNKNOWN
