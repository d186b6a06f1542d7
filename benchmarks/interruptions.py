"""`python -m benchmarks.interruptions [FILE]`: questions per 100 commands, for each preset.

FILE has a JSON object with `command` on each line; without one, the everyday commands of our
corpus are used. Nothing is run: each is judged, and the decisions of the presets are counted.
"""

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio

from benchmarks.labelled import CORPUS
from shelltie.approval.decision import decide_by_profile
from shelltie.assemble_parts import judge_of
from shelltie.model import Command
from shelltie.settings.all_settings import PRESETS
from shelltie.settings.config import Config
from shelltie.verdict import Decision, Rating, Verdict

PROFILES = ("run", "session", "bash")


def commands_of(file: Path | None) -> list[str]:
    """The commands of a file, or the everyday ones of the corpus."""
    # Not splitlines: some commands hold other line separators.
    text = (file or CORPUS).read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.split("\n") if line]
    return [row["command"] for row in rows if file is not None or "everyday" in row["tags"]]


async def judged(commands: Sequence[str], workspace: Path) -> list[tuple[str, Verdict]]:
    """Each with what is said of it; what stands there several times is judged once."""
    judge = judge_of(Config(), workspace)
    known = dict[str, Verdict]()
    for text in commands:
        if text not in known:
            known[text] = await judge.judge(Command(text, cwd=str(workspace)))
    return [(text, known[text]) for text in commands]


def counted(
    verdicts: Sequence[tuple[str, Verdict]], workspace: Path
) -> dict[tuple[str, str], Counter[Decision]]:
    """How often each preset allows, asks and denies, by preset and profile."""
    place = str(workspace)
    return {
        (preset, name): Counter(
            decide_by_profile(getattr(profiles, name), text, verdict, place, place)
            for text, verdict in verdicts
        )
        for preset, profiles in PRESETS.items()
        for name in PROFILES
    }


def page(verdicts: Sequence[tuple[str, Verdict]], workspace: Path) -> Iterator[str]:
    """A table in Markdown."""
    ratings = Counter(verdict.rating for _, verdict in verdicts)
    total = len(verdicts)
    told = ", ".join(f"{rating} {100 * ratings[rating] / total:.1f} %" for rating in Rating)
    yield f"{total} commands, {len({text for text, _ in verdicts})} different: {told}"
    yield ""
    yield "| preset | profile | asks per 100 | refuses per 100 |"
    yield "| --- | --- | --- | --- |"
    for (preset, name), counts in counted(verdicts, workspace).items():
        asks, denies = (100 * counts[one] / total for one in (Decision.ASK, Decision.DENY))
        yield f"| `{preset}` | `{name}` | {asks:.1f} | {denies:.1f} |"


async def main(file: Path | None) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as place:
        workspace = Path(place).resolve()
        verdicts = await judged(commands_of(file), workspace)
        print("\n".join(page(verdicts, workspace)))


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]) if sys.argv[1:] else None)
