"""Compares what bash executes with what we say it would: `python -m benchmarks.fuzz_shell`.

Where our reader has no doubts and shfmt agrees, nothing that bash executed or wrote may be missing
from our list; and nothing that is judged safe may execute or write anything else.
"""

import argparse
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.jail import Ran, jail
from benchmarks.rows import Goal, Of, Row
from benchmarks.shell_scripts import Scripts
from shelltie.safety.judge import find_shfmt
from shelltie.safety.rating import rate
from shelltie.safety.rule_set import RuleFile, RuleSet
from shelltie.shell.parse import parse
from shelltie.shell.script import PartKind, Script, Word
from shelltie.shell.shfmt import SHFMT_ARGS, agree
from shelltie.verdict import Rating, Verdict

_COUNT = 20_000
_BATCH = 200
_EVALUATING, _SPOILED = 0.15, 0.45  # of all scripts
_RULES = """
[[rule]]
command = "c1, c2, c3, c4, c5, c6, c7, c8, c9"
verdict = "safe"
flags = "any"
"""
_VARIES = (PartKind.EXPANSION, PartKind.VARIABLE)
_END = r"\x00"  # of a word; `\0` would swallow a digit behind it
_ANY_WORDS = r"(?:[^\x00]*\x00)*"
_ANY_TEXT = r"[^\x00]*"


@dataclass(slots=True)
class Findings:
    """How often what was seen, and every script that did more than we said."""

    counts: Counter[str] = field(default_factory=Counter)
    misses: list[str] = field(default_factory=list)

    def miss(self, kind: str, text: str, did: Iterable[object]) -> None:
        """Bash did something in `text` that we know nothing of."""
        for each in did:
            self.counts[f"misses: {kind}"] += 1
            self.misses.append(f"{kind}: {each!r} in {text!r}")

    def add(self, other: "Findings") -> None:
        """Both together."""
        self.counts.update(other.counts)
        self.misses += other.misses


@dataclass(frozen=True, slots=True)
class Sample:
    """A script; in one that evaluates, a parser cannot see all that will run."""

    text: str
    evaluates: bool


def fuzz(seed: int, count: int) -> Findings:
    """Run `count` scripts in a jail, and compare."""
    samples = list(_samples(seed, count))
    batches = [samples[at : at + _BATCH] for at in range(0, count, _BATCH)]
    found = Findings()
    with _rules() as rules, ThreadPoolExecutor(2) as pool:
        for part in pool.map(lambda batch: _compare(batch, rules), batches):
            found.add(part)
    return found


def _samples(seed: int, count: int) -> Iterator[Sample]:
    scripts = Scripts(seed)
    for _ in range(count):
        lot = scripts.dice.random()
        if lot < _EVALUATING:
            yield Sample(scripts.evaluating(), evaluates=True)
        elif lot < _EVALUATING + _SPOILED:
            yield Sample(scripts.spoiled(), evaluates=False)
        else:
            yield Sample(scripts.well_formed(), evaluates=False)


@contextmanager
def _rules() -> Iterator[RuleSet]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "made-up.toml"
        file.write_text(_RULES, encoding="utf-8")
        yield RuleSet((RuleFile(file),))


def _compare(batch: list[Sample], rules: RuleSet) -> Findings:
    found = Findings()
    with jail() as cell:
        did = cell.run([sample.text for sample in batch])
    for sample, ran in zip(batch, did, strict=True):
        _look(sample, ran, rules, found)
    return found


def _look(sample: Sample, ran: Ran, rules: RuleSet, found: Findings) -> None:
    script = parse(sample.text)
    found.counts.update(("scripts",) if not ran.valid else ("scripts", "valid for bash"))
    found.counts["executed commands"] += len(ran.argvs)
    found.counts["ended by force"] += ran.late
    if script.problems:
        return
    found.counts.update(("accepted",) if not ran.valid else ("accepted", "accepted, and valid"))
    if not sample.evaluates:
        found.miss("command", script.text, unforeseen_commands(script, ran))
        found.miss("file", script.text, unforeseen_files(script, ran))
    if not (script.plain or _agreed(script)):
        return
    found.counts["agreed"] += 1
    found.counts["executed commands in agreed scripts"] += len(ran.argvs)
    _look_at_safe(script, ran, rate(script, rules), found)


def _look_at_safe(script: Script, ran: Ran, verdict: Verdict, found: Findings) -> None:
    if verdict.rating is not Rating.SAFE:
        return
    found.counts["safe"] += 1
    found.counts["executed commands in safe scripts"] += len(ran.argvs)
    found.miss("command in a safe script", script.text, _unjudged(verdict, ran))
    found.miss("file in a safe script", script.text, ran.files)


def _agreed(script: Script) -> bool:
    shfmt = subprocess.run(
        (find_shfmt() or "shfmt", *SHFMT_ARGS),
        input=script.text.encode("utf-8", "surrogatepass"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=10,
        check=False,
    )
    return shfmt.returncode == 0 and agree(script, shfmt.stdout) is None


def unforeseen_commands(script: Script, ran: Ran) -> list[tuple[str, ...]]:
    """What bash executed that is no command of `script`, whatever its words become."""
    foreseen = [
        re.compile("".join(map(_possible, command.words)))
        for command in script.commands
        if command.words and command.loop is None
    ]
    return [argv for argv in ran.argvs if not _is_among(argv, foreseen)]


def unforeseen_files(script: Script, ran: Ran) -> list[str]:
    """What bash wrote that is the target of no redirection of `script`."""
    targets = [each.target for command in script.commands for each in command.redirects]
    foreseen = [re.compile(_possible(target)) for target in targets if target is not None]
    return [name for name in ran.files if not _is_among((name,), foreseen)]


def _unjudged(verdict: Verdict, ran: Ran) -> list[tuple[str, ...]]:
    argvs = {command.argv for command in verdict.commands}
    judged = [re.compile("".join(map(_judged_word, argv))) for argv in argvs]
    return [argv for argv in ran.argvs if not _is_among(argv, judged)]


def _judged_word(word: str | None) -> str:
    if word is None:
        return _ANY_WORDS
    return (_ANY_TEXT if word.startswith("~") else re.escape(word)) + _END


def _is_among(argv: tuple[str, ...], foreseen: list[re.Pattern[str]]) -> bool:
    line = "".join(f"{word}\0" for word in argv)
    return any(each.fullmatch(line) for each in foreseen)


def _possible(word: Word) -> str:
    """An expression for all that a word can become, each with a NUL behind it."""
    if not word.single or any("@" in part.text for part in word.parts if part.kind in _VARIES):
        return _ANY_WORDS
    texts = [
        re.escape(part.text) if part.kind is PartKind.TEXT else _ANY_TEXT for part in word.parts
    ]
    return "".join(texts) + _END


def measure() -> list[Row]:
    """What was missed in many scripts."""
    found = fuzz(seed=1, count=_COUNT)
    what = f"fuzz: missed of {found.counts['executed commands']} executed commands"
    return [Row(what, "", len(found.misses), goal=Goal(Of.OURS, 0))]


def main() -> None:
    """Print the counts and every miss; fail if there is one."""
    parser = argparse.ArgumentParser(prog="benchmarks.fuzz_shell", description=__doc__)
    parser.add_argument("--count", type=int, default=_COUNT, help="how many scripts")
    parser.add_argument("--seed", type=int, default=1, help="which scripts")
    args = parser.parse_args()
    found = fuzz(args.seed, args.count)
    for what, count in found.counts.items():
        print(f"{count:8} {what}")
    for miss in found.misses:
        print(miss)
    print(f"{len(found.misses):8} misses")
    raise SystemExit(1 if found.misses else 0)


if __name__ == "__main__":
    main()
