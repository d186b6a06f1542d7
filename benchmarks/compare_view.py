"""Compares safe commands in a read-only view with the same ones without: the same bytes?

`python -m benchmarks.compare_view [--first N] [--count N]` takes the labelled safe commands of the
corpus and the examples of the rules, each alone and in two pipes, in a scratch project where the
files that they name are there, and prints each whose output or exit code differs, unless it differs
by itself.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio

from benchmarks.labelled import CORPUS
from shelltie import Config, Result, Terminal
from shelltie.model import Command
from shelltie.safety.rule_set import PROGRAMS
from shelltie.verdict import Rating

_NAME = re.compile(r"(?<![\w/~$.-])(?!\.env\b)[\w.-]+(?:/[\w.-]+)*\.[a-z]{1,5}\b")
_CONTENT = {".json": '{"a": [1, 2], "name": "x"}\n', ".csv": "a,b\n1,2\n", ".py": "x = 1  # TODO\n"}
_SHAPES = ("{}", "{} 2>&1 | tail -3", "( {} ) | sort | wc -l")
_PATIENCE = 8.0  # seconds for one command
_NOT_FOUND = 127
_SHOWN = 300  # characters of what differs


def main() -> None:
    """Print what differs as lines of JSON, and in the end what was counted."""
    parser = argparse.ArgumentParser(prog="benchmarks.compare_view", description=__doc__)
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin with that one")
    parser.add_argument("--count", type=int, default=10**6, metavar="N", help="at most so many")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        os.environ["HOME"] = f"{place}/home"
        wanted = everyday_commands()[args.first : args.first + args.count]
        project = _project(Path(place) / "home" / "project", wanted)
        os.chdir(project)
        print(json.dumps(anyio.run(_compare, wanted, place)))


def everyday_commands() -> list[str]:
    """What is labelled safe, and what the rules that say safe have as examples, also in pipes."""
    rows = [json.loads(line) for line in CORPUS.read_text("utf-8").split("\n") if line]
    labelled = [row["command"] for row in rows if row["verdict"] == Rating.SAFE]
    alone = list(dict.fromkeys([*labelled, *_examples()]))
    return [shape.format(text) for shape in _SHAPES for text in alone if "\n" not in text]


def _examples() -> Iterator[str]:
    for family in sorted(PROGRAMS.glob("*.toml")):
        for rule in tomllib.loads(family.read_text("utf-8")).get("rule", ()):
            if rule.get("verdict") == Rating.SAFE:
                yield from rule.get("match", ())


def _project(place: Path, commands: Sequence[str]) -> Path:
    """A repository with whatever the commands name."""
    names = {found for text in commands for found in _NAME.findall(text)}
    for name in ("src/app.py", "README.md", "x", "y", "a", "b", "f", *sorted(names)):
        path = place / name
        if path.is_relative_to(place) and not any(one.is_file() for one in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_dir():
                path.write_text(_CONTENT.get(path.suffix, "one\ntwo words\n"), encoding="utf-8")
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run((*git, *words), cwd=place, check=True)
    return place


async def _compare(commands: Sequence[str], place: str) -> Counter[str]:
    counts = Counter[str]()
    async with (
        Terminal(Config.of(state_dir=f"{place}/one", safety_enforce="required")) as enforced,
        Terminal(Config.of(state_dir=f"{place}/other", safety_enforce="off")) as plain,
    ):
        judge = plain.supervisor.admission.judge
        for text in commands:
            verdict = await judge.judge(Command(text))
            if verdict.rating is not Rating.SAFE:
                counts["not safe in this place"] += 1
                continue
            if verdict.needs:
                counts["need more than a view has"] += 1
                continue
            without = await _run(plain, text)
            if without.exit_code == _NOT_FOUND:
                counts["programs that are not here"] += 1
                continue
            within = await _run(enforced, text)
            if "timeout" in (without.status, within.status):
                counts["too slow here"] += 1
                continue
            counts["compared"] += 1
            if _bytes(within) == _bytes(without):
                counts["the same"] += 1
            elif _bytes(await _run(plain, text)) != _bytes(without):
                counts["differ by themselves"] += 1
            else:
                counts["differ"] += 1
                _tell(text, without, within)
    return counts


async def _run(terminal: Terminal, text: str) -> Result:
    return await terminal.run(text, timeout=_PATIENCE, silence=_PATIENCE)


def _bytes(result: Result) -> tuple[object, ...]:
    return result.exit_code, result.stdout, result.stderr


def _tell(text: str, without: Result, within: Result) -> None:
    told = [str(_bytes(one))[:_SHOWN] for one in (without, within)]
    print(json.dumps({"text": text, "plain": told[0], "enforced": told[1]}), flush=True)


if __name__ == "__main__":
    main()
