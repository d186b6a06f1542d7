"""Limits from a table against limits learned from history, on simulated commands.

`python -m benchmarks.learned_limits [RUNS] [SEED]` prints the policies side by side. Thirteen
shapes of commands, with caches that hit or miss, stragglers, machines under load and suites that
grow; two of a hundred runs hang, in one of four ways. The shapes are assumptions: the ranking
matters, and not the third digit. Limits and thresholds are those of the product, which is asked
for each run.
"""

import math
import random
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median

from benchmarks.rows import Goal, Of, Row
from shelltie.limits.experience import KEPT, Usual, expected, proposed, usual
from shelltie.limits.policy import TimeoutPolicy
from shelltie.limits.policy_file import find
from shelltie.limits.resolve import AskedLimits, resolve
from shelltie.model import Limits, Sample

_RUNS, _SEED = 40_000, 7
_MIN_SAMPLES = 20
_HANGS = 0.02
_STRAGGLERS = 0.004
_LONGEST = 7200.0
_LOADS = (1.0, 1.0, 1.0, 1.0, 1.0, 1.3, 2.0, 4.0)
_REGIME = 400  # runs for which the machine is under the same load
_INPUT = 2.0  # seconds after which a prompt is seen
_KINDS = {"prompt": 0.35, "idle": 0.30, "spin": 0.15, "noisy": 0.20}


@dataclass(frozen=True, slots=True)
class Shape:
    """A command, how often it is run, and how long it takes when nothing is wrong.

    `quiet` is how much of its time its longest silence takes, from and to; of those silences the
    share `idle` is spent without any work of its own, as when it waits for a network.
    """

    text: str
    weight: float
    middle: float
    spread: float
    quiet: tuple[float, float]
    idle: float
    miss: float = 0.0  # how often a cache misses
    cost: float = 1.0  # how many times longer it then takes
    grows: float = 0.0


SHAPES = (
    Shape("git status", 22, 0.05, 0.6, (0.5, 1.0), 0.1),
    Shape("rg needle", 18, 0.3, 1.0, (0.3, 1.0), 0.0),
    Shape("eslint .", 8, 8, 0.5, (0.8, 1.0), 0.0, miss=0.15, cost=3),
    Shape("npx tsc --noEmit", 8, 15, 0.4, (0.9, 1.0), 0.0, miss=0.2, cost=2.5),
    Shape("pytest tests", 14, 25, 0.7, (0.1, 0.4), 0.3, grows=0.6),
    Shape("npm test", 8, 40, 0.6, (0.1, 0.5), 0.2, grows=0.6),
    Shape("npm install", 4, 15, 0.7, (0.3, 0.8), 0.5, miss=0.2, cost=3),
    Shape("pip install -e .", 3, 15, 0.8, (0.3, 0.9), 0.4, miss=0.2, cost=5),
    Shape("cargo build", 5, 30, 0.9, (0.2, 0.6), 0.0, miss=0.15, cost=6),
    Shape("npm run build", 4, 30, 0.5, (0.4, 0.8), 0.05, miss=0.1, cost=2),
    Shape("docker build .", 2, 60, 0.8, (0.2, 0.5), 0.3, miss=0.2, cost=5),
    Shape("npm run e2e", 3, 110, 0.5, (0.2, 0.5), 0.3, grows=0.6),
    Shape("git push", 1, 3, 0.8, (0.5, 1.0), 0.7),
)


@dataclass(frozen=True, slots=True)
class Event:
    """One run. Without a hang it ends after `duration`; a hang begins at `hangs_at`, for ever."""

    duration: float
    silent_from: float
    silent_for: float
    works: bool
    hang: str | None = None
    hangs_at: float = math.inf


@dataclass(frozen=True, slots=True)
class Judged:
    """When a policy first said something, and when it ended the run; infinity is never."""

    reported: float
    killed: float


def runs(count: int, dice: random.Random) -> Iterator[tuple[Shape, Event]]:
    """What happens on one machine, in order."""
    weights = [shape.weight for shape in SHAPES]
    load = 1.0
    for number in range(count):
        if number % _REGIME == 0:
            load = dice.choice(_LOADS)
        (shape,) = dice.choices(SHAPES, weights)
        yield shape, _event(shape, load * (1 + shape.grows * number / count), dice)


def _event(shape: Shape, factor: float, dice: random.Random) -> Event:
    took = shape.middle * dice.lognormvariate(0, shape.spread) * factor
    took *= shape.cost if dice.random() < shape.miss else 1.0
    if dice.random() < _STRAGGLERS:
        took *= dice.paretovariate(1.2) + 1
    took = min(took, _LONGEST)
    silent = took * dice.uniform(*shape.quiet)
    begins = dice.uniform(0, took - silent)
    works = dice.random() >= shape.idle
    if dice.random() >= _HANGS:
        return Event(took, begins, silent, works)
    (kind,) = dice.choices([*_KINDS], [*_KINDS.values()])
    return Event(took, begins, silent, works, kind, dice.uniform(0, took))


# Policies


def _silences(event: Event) -> Iterator[tuple[float, float, bool]]:
    """Each silence: from when, to when, and whether the tree works meanwhile."""
    end = min(event.silent_from + event.silent_for, event.hangs_at)
    if end > event.silent_from:
        yield event.silent_from, end, event.works
    if event.hang not in (None, "noisy"):
        begins = event.silent_from if end == event.hangs_at else event.hangs_at
        yield begins, math.inf, event.hang == "spin"


def _silence_kills(event: Event, limits: Limits, *, evidence: bool) -> float:
    """When the silence limit ends it."""
    for begins, ends, works in _silences(event):
        at = max(begins + (limits.silence or math.inf), limits.silence_from)
        if at < ends and not (evidence and works):
            return at
    return math.inf


def _killed(event: Event, limits: Limits, *, evidence: bool) -> float:
    ends = event.duration if event.hang is None else math.inf
    at = min(limits.total or math.inf, _silence_kills(event, limits, evidence=evidence))
    return at if at < ends else math.inf


def by_table(event: Event, limits: Limits, _: Usual | None) -> Judged:
    """Two plain clocks. Nothing is said before the end."""
    at = _killed(event, limits, evidence=False)
    return Judged(at, at)


def by_evidence(event: Event, limits: Limits, _: Usual | None) -> Judged:
    """As with `adaptive.mode = "off"`: warned before a limit, and who works is not silent."""
    at = _killed(event, limits, evidence=True)
    return Judged(_first(event, [*_warnings(limits, event)], at), at)


def by_history(event: Event, limits: Limits, known: Usual | None) -> Judged:
    """As with `adaptive.mode = "apply"`."""
    if known is None or known.n < _MIN_SAMPLES:
        at = _killed(event, limits, evidence=True)
        return Judged(_first(event, [*_warnings(limits, event), *_prompts(event)], at), at)
    limits = proposed(limits, known)
    at = _killed(event, limits, evidence=True)
    told = [*_warnings(limits, event), *_prompts(event), *_unusual(event, known)]
    return Judged(_first(event, told, at), at)


def _first(event: Event, told: list[float], killed: float) -> float:
    """The first word; of a hang, the first after it has begun."""
    since = 0.0 if event.hang is None else event.hangs_at
    ends = event.duration if event.hang is None else math.inf
    return min([one for one in (*told, killed) if since <= one < ends], default=math.inf)


def _warnings(limits: Limits, event: Event) -> Iterator[float]:
    total, silence = limits.total or math.inf, limits.silence or math.inf
    yield total - min(30.0, total / 2)
    for begins, ends, _ in _silences(event):
        at = begins + silence - min(30.0, silence / 2)
        if at < ends:
            yield at


def _prompts(event: Event) -> Iterator[float]:
    if event.hang == "prompt":
        yield event.hangs_at + _INPUT


def _unusual(event: Event, known: Usual) -> Iterator[float]:
    thresholds = expected(known)
    yield thresholds.slow
    for begins, ends, works in _silences(event):
        at = begins + (thresholds.silent if works else min(thresholds.idle, thresholds.silent))
        if at < ends:
            yield at


# What comes of them

Policy = Callable[[Event, Limits, Usual | None], Judged]
POLICIES: dict[str, Policy] = {
    "the table, as plain clocks": by_table,
    "the table, with evidence (off)": by_evidence,
    "learned (apply)": by_history,
}


@dataclass(slots=True)
class Tally:
    """What one policy did."""

    healthy: int = 0
    killed: int = 0
    false_reports: int = 0
    found: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    ended: list[float] = field(default_factory=list)

    def add(self, event: Event, judged: Judged) -> None:
        if event.hang is None or judged.killed < event.hangs_at:
            self.healthy += 1
            self.killed += judged.killed < math.inf
            self.false_reports += judged.reported < math.inf
        else:
            self.found[event.hang].append(judged.reported - event.hangs_at)
            self.ended.append(judged.killed - event.hangs_at)

    @property
    def false_kills(self) -> float:
        """In percent of the healthy runs."""
        return 100 * self.killed / self.healthy

    @property
    def told_after(self) -> float:
        """Seconds until the first word about a hang, in the middle."""
        return median(span for spans in self.found.values() for span in spans)


def simulate(count: int, seed: int) -> dict[str, Tally]:
    """Every policy, on the very same runs."""
    policy = find(Path("/"), None).current()
    return {name: _one(policy, count, seed, judge) for name, judge in POLICIES.items()}


def _one(policy: TimeoutPolicy, count: int, seed: int, judge: Policy) -> Tally:
    tally = Tally()
    limits = {shape: resolve(policy, shape.text, AskedLimits()) for shape in SHAPES}
    history: dict[Shape, deque[Sample]] = defaultdict(lambda: deque(maxlen=KEPT))
    for shape, event in runs(count, random.Random(seed)):
        known = usual(shape.text, tuple(history[shape])) if judge is by_history else None
        judged = judge(event, limits[shape], known)
        tally.add(event, judged)
        by_limit = judged.killed < math.inf
        idle = 0.0 if event.works else event.silent_for
        took = judged.killed if by_limit else event.duration
        history[shape].append(Sample(took, event.silent_for, idle, by_limit))
    return tally


def measure() -> list[Row]:
    """The two goals, with the plain table as what they are measured against."""
    table, _, ours = simulate(_RUNS // 4, _SEED).values()
    return [
        Row(
            "limits: healthy runs killed (simulated)",
            "%",
            ours.false_kills,
            table.false_kills,
            goal=Goal(Of.OURS, 0.2),
        ),
        Row(
            "limits: first word about a hang (simulated)",
            "s",
            ours.told_after,
            table.told_after,
            goal=Goal(Of.OURS, 5.0),
        ),
    ]


def main() -> None:
    """Print them side by side."""
    count, seed = [*map(int, sys.argv[1:3]), *(_RUNS, _SEED)[len(sys.argv[1:3]) :]]
    print(f"{count} runs, seed {seed}, {_HANGS:.0%} of them hang\n")
    head = ("policy", "healthy killed", "told without need", "first word: median", "mean")
    print(" | ".join([f"{head[0]:<32}", *head[1:], *_KINDS, "ended after: median"]))
    for name, tally in simulate(count, seed).items():
        spans = [span for found in tally.found.values() for span in found]
        cells = [
            f"{name:<32}",
            f"{tally.false_kills:>13.2f}%",
            f"{100 * tally.false_reports / tally.healthy:>16.1f}%",
            f"{tally.told_after:>17.1f}s",
            f"{mean(spans):>3.0f}s",
            *(f"{median(tally.found[kind]):>4.0f}s" for kind in _KINDS),
            f"{median(tally.ended):>18.0f}s",
        ]
        print(" | ".join(cells))


if __name__ == "__main__":
    main()
