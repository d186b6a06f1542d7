"""Self-test of rule files: a rule that fails its own `match` examples is not used."""

from collections.abc import Iterable, Iterator, Sequence

from shelltie.errors import ConfigWrong
from shelltie.safety.rating import rate
from shelltie.safety.rule import Rule
from shelltie.safety.rule_set import RuleFile, RuleSet, read_family
from shelltie.shell.parse import parse
from shelltie.verdict import Rating

_TOLD_MAX = 20


def open_rules(files: Sequence[RuleFile] = ()) -> RuleSet:
    """The rules we ship and the user's own, whose examples all hold.

    Raises: ConfigWrong.
    """
    rules = RuleSet(files)
    wrong: list[str] = []
    for file in files:
        wrong += failures(read_family(file.path, trusted=False), rules, str(file.path))
    if wrong:
        raise ConfigWrong("\n".join(wrong[:_TOLD_MAX]))
    return rules


def failures(written: Iterable[Rule], rules: RuleSet, file: str) -> Iterator[str]:
    """One line for each example that does not hold."""
    seen: set[int] = set()
    for rule in written:
        if rule.line not in seen:
            seen.add(rule.line)
            yield from (f"{file}:{rule.line}: {problem}" for problem in _failures(rule, rules))


def _failures(rule: Rule, rules: RuleSet) -> Iterator[str]:
    for example in rule.match:
        if (got := _rating(example, rules)) is not rule.verdict:
            yield f"match: {example!r} is {got}, not {rule.verdict}"
    for example in rule.not_match:
        if (got := _rating(example, rules)) is rule.verdict:
            yield f"not_match: {example!r} is {got} as well"
    for when in rule.whens:
        for example in when.examples:
            if (got := _rating(example, rules)) is not when.verdict:
                yield f"when.match: {example!r} is {got}, not {when.verdict}"


def _rating(command: str, rules: RuleSet) -> Rating:
    return rate(parse(command), rules).rating
