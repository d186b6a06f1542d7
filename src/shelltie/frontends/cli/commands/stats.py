"""`shelltie stats`: usual durations by command shape and project, and limits that would fit."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from shelltie.assemble_parts import policy_file
from shelltie.basics import visible_text
from shelltie.basics.frozen import frozen
from shelltie.basics.times import human_duration
from shelltie.frontends.cli.console import Style, columns, list_table, print_json
from shelltie.limits.experience import Usual, proposed, usual
from shelltie.limits.resolve import AskedLimits, resolve
from shelltie.model import Limits
from shelltie.record.history import last, project_of, shapes
from shelltie.settings import paths
from shelltie.settings.layers import load

_HEAD = ("COMMAND", "RUNS", "P50", "P95", "LONGEST", "SILENT", "BY LIMIT", "SUGGESTED", "PROJECT")
_SHAPE_MAX, _PROJECT_MAX = 24, 24
_WIDE = 110  # columns; below it there is no room for what few need
_ONLY_WIDE = ("LONGEST", "SILENT", "BY LIMIT")
_PARTS = 2  # of the path of a project: enough to tell it from others


@frozen
class UsualRow:
    """What is usual for one shape, and limits that would fit."""

    project: str
    known: Usual
    by_limit: int
    limits: Limits
    better: Limits

    @property
    def fitting(self) -> str:
        """Limits that would fit, if those of the policy do not: in all, and silent."""
        better = self.better
        changed = better != self.limits
        return f"{_said(better.total)}/{_said(better.silence)}" if changed else "-"

    def to_json(self) -> dict[str, object]:
        """For programs."""
        known, changed = self.known, self.better != self.limits
        return {
            "shape": known.shape,
            "project": self.project,
            "runs": known.n,
            "p50Sec": known.p50,
            "p95Sec": known.p95,
            "longestSec": known.longest,
            "silenceP95Sec": known.silence_p95,
            "silenceLongestSec": known.silence_longest,
            "endedByLimit": self.by_limit,
            "limits": {"execSec": self.limits.total, "silenceSec": self.limits.silence},
            "suggested": {"execSec": self.better.total, "silenceSec": self.better.silence}
            if changed
            else None,
        }


def main(args: Namespace) -> int:
    """Print them."""
    found = list(rows(args.n, here=args.here))
    if args.json:
        print_json([row.to_json() for row in found])
    elif not found:
        print("No command was run often enough to say anything about it.")
    else:
        wide = columns() >= _WIDE
        shown = [i for i, name in enumerate(_HEAD) if wide or name not in _ONLY_WIDE]
        cells = [[row[i] for i in shown] for row in map(_cells, found)]
        list_table(Style(sys.stdout, args.color), [_HEAD[i] for i in shown], cells)
    return 0


def rows(count: int, *, here: bool) -> Iterator[UsualRow]:
    """Every shape that was run, the most frequent first."""
    config = load(paths.here())
    policy = policy_file(config, paths.here()).current()
    project = project_of(str(paths.here())) if here else ""
    for shape, where in shapes(config.journal, project, count):
        samples = last(config.journal, shape, where)
        known = usual(shape, samples)
        if known is not None:
            limits = resolve(policy, shape.replace(" + ", " && "), AskedLimits())
            enough = known.n >= config.adaptive.min_samples
            better = proposed(limits, known, policy.max_total) if enough else limits
            yield UsualRow(where, known, sum(one.by_limit for one in samples), limits, better)


def _cells(row: UsualRow) -> tuple[str, ...]:
    known = row.known
    spans = (known.p50, known.p95, known.longest, known.silence_p95)
    return (
        visible_text.brief(known.shape, _SHAPE_MAX),
        str(known.n),
        *map(human_duration, spans),
        str(row.by_limit or "-"),
        "-"
        if row.better == row.limits
        else f"{_said(row.better.total)}/{_said(row.better.silence)}",
        _short(row.project),
    )


def _short(project: str) -> str:
    """The end of its path, where the whole has no room."""
    if len(project) <= _PROJECT_MAX:
        return project
    return "…/" + "/".join(Path(project).parts[-_PARTS:])


def _said(span: float | None) -> str:
    return "none" if span is None else human_duration(span).replace(" ", "")
