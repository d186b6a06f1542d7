"""HTML of `shelltie report`: how runs ended, what was refused, what is slow, when it was."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from types import MappingProxyType

from shelltie.basics.times import human_duration, local_time
from shelltie.frontends.cli.html import code, ending, kind, page, plain, table
from shelltie.limits.experience import Usual
from shelltie.model import signal_name
from shelltie.record.past_runs import PastRun

LearnedRow = tuple[str, Usual, str]  # the project, what is usual in it, and limits that would fit

_TOP = 10
_BUCKETS = 60
_STEPS = (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 7 * 86400)
_HIGH = 100  # of the chart, in its own units
_WHY = {
    "exit 0": "it went well",
    "exit 126": "it could not be executed",
    "exit 127": "there is no such program",
    "timeout (total)": "it took longer than its limit",
    "timeout (silence)": "it printed nothing for longer than its limit",
    "stopped": "somebody stopped it",
    "refused": "a rule or a person said no",
    "lost": "its server died",
    "not started": "it could not be started",
    "running": "it runs, or its server has not said otherwise",
    "starting": "it is about to start",
}


def report(
    runs: Sequence[PastRun],
    learned: Sequence[LearnedRow],
    title: str,
    answers: Mapping[bool, int] = MappingProxyType({}),
) -> str:
    """Everything about these runs, the newest of which is first; `answers` counts yes and no."""
    if not runs:
        return page(title, ["<p>Nothing was recorded.</p>"])
    return page(
        title,
        [
            *_summary(runs, answers),
            *_chart(runs),
            '<div class="sides">',
            *_section("Ends, and why", _ends(runs)),
            *_section("Ended by a limit, a person or a crash", _most_often_cut(runs)),
            "</div>",
            *_section("Refused", _refused(runs)),
            *_section("Slowest", _slowest(runs)),
            *_section("How long commands take", _usual(learned)),
            *_section("Timeline", "\n".join(_days(runs))),
        ],
    )


def _section(title: str, body: str) -> Iterator[str]:
    yield f"<section><h2>{escape(title)}</h2>"
    yield f"{body}</section>"


# At a glance


def _summary(runs: Sequence[PastRun], answers: Mapping[bool, int]) -> Iterator[str]:
    since, until = (local_time(edge(run.began for run in runs)) for edge in (min, max))
    zone = time.strftime("%Z", time.localtime(runs[0].began))
    yield f'<p class="soft">{since} to {until} ({escape(zone)})</p>'
    well, cut = sum(run.well for run in runs), sum(run.cut for run in runs)
    going, refused = sum(run.running for run in runs), sum(run.refused for run in runs)
    failed = len(runs) - well - cut - going - refused
    tiles = [
        (str(len(runs)), "commands", ""),
        (f"{well / len(runs):.0%}", "ended well", ""),
        (str(failed), "failed", "bad" if failed else ""),
        (str(cut), "were ended", "late" if cut else ""),
        (str(refused), "refused", "bad" if refused else ""),
        (str(answers.get(True, 0)), "approved by a person", ""),
        (human_duration(sum(run.duration or 0 for run in runs)), "in all", ""),
    ]
    if going:
        tiles.append((str(going), "not over", ""))
    yield '<div class="tiles">'
    for figure, name, colour in tiles:
        yield f'<div><b class="{colour}">{escape(figure)}</b>{escape(name)}</div>'
    yield "</div>"


def _chart(runs: Sequence[PastRun]) -> Iterator[str]:
    """How many runs began when: a column for each stretch of time."""
    first, last = (edge(run.began for run in runs) for edge in (min, max))
    step = next((step for step in _STEPS if (last - first) / step < _BUCKETS), _STEPS[-1])
    start = first // step * step
    count = int((last - start) // step) + 1
    columns = [Counter[str]() for _ in range(count)]
    for run in runs:
        columns[int((run.began - start) // step)][kind(run)] += 1
    highest = max(column.total() for column in columns)
    yield f'<svg class="chart" viewBox="0 0 {count} {_HIGH}" preserveAspectRatio="none">'
    for place, column in enumerate(columns):
        yield from _column(place, column, highest, local_time(start + place * step))
    yield "</svg>"
    yield (
        '<div class="legend"><i class="well"></i>ended well<i class="late"></i>ended by a limit, a'
        ' person or a crash<i class="bad"></i>failed or refused · the highest column is'
        f" {highest} command{'s' * (highest != 1)}</div>"
    )
    left, middle = local_time(start)[:16], f"a column is {human_duration(step)}"
    right = local_time(start + count * step)[:16]
    yield f'<div class="ends"><span>{left}</span><span>{middle}</span><span>{right}</span></div>'


def _column(place: int, column: Counter[str], highest: int, at: str) -> Iterator[str]:
    told = f"<title>{at}: {column.total()} commands, {column['well']} well</title>"
    floor = float(_HIGH)
    for colour in ("well", "late", "bad"):
        if tall := column[colour] / highest * _HIGH * 0.96:
            floor -= tall
            size = f'x="{place + 0.08:.2f}" width="0.84" y="{floor:.1f}" height="{tall:.1f}"'
            yield f'<rect class="{colour}" {size}>{told}</rect>'


# What stands out


def _ends(runs: Sequence[PastRun]) -> str:
    counts = Counter(run.ending for run in runs)
    colours = {run.ending: kind(run) for run in runs}
    rows = [
        (
            f'<span class="{colours[how]}">{plain(how)}</span>',
            f'<div class="bar"><i class="{colours[how]}"'
            f' style="left:0;width:{count / len(runs):.1%}"></i></div>',
            str(count),
            f'<span class="soft">{escape(_why(how))}</span>',
        )
        for how, count in counts.most_common(_TOP)
    ]
    return table(("end#short", "#wide", "runs#n", "why#grow"), rows)


def _why(how: str) -> str:
    if how in _WHY:
        return _WHY[how]
    number = int(how.removeprefix("exit ")) if how.startswith("exit ") and how[5:].isdigit() else 0
    if 128 < number <= 128 + 64:
        return f"{signal_name(number - 128)} ended it"
    return "the command said so"


def _most_often_cut(runs: Sequence[PastRun]) -> str:
    cut = [run for run in runs if run.cut]
    counts = Counter(run.command for run in cut)
    hows: dict[str, Counter[str]] = {command: Counter() for command in counts}
    for run in cut:
        hows[run.command][run.ending] += 1
    rows = [
        (
            str(count),
            code(command),
            ", ".join(f"{n} {plain(how)}" for how, n in hows[command].items()),
        )
        for command, count in counts.most_common(_TOP)
    ]
    return table(("times#n", "command#grow", "how#soft"), rows)


def _refused(runs: Sequence[PastRun]) -> str:
    """Each command once, with how often, who wanted it and why not."""
    refused = [run for run in runs if run.refused]
    counts = Counter(run.command for run in refused)
    rows = [
        (
            str(counts[run.command]),
            plain(run.client or "-"),
            code(run.command),
            plain(run.reason or ""),
        )
        for run in {run.command: run for run in reversed(refused)}.values()
    ]
    ordered = sorted(rows, key=lambda row: -int(row[0]))[:_TOP]
    return table(("times#n", "client#short", "command#grow", "why#soft"), ordered)


def _slowest(runs: Sequence[PastRun]) -> str:
    """Each command once, with its slowest run."""
    ended = sorted(runs, key=lambda run: -(run.duration or 0))
    each = list({run.command: run for run in reversed(ended) if run.duration}.values())[::-1]
    rows = [
        (
            human_duration(run.duration or 0),
            ending(run),
            local_time(run.began)[:16],
            code(run.command),
        )
        for run in sorted(each, key=lambda run: -(run.duration or 0))[:_TOP]
    ]
    return table(("took#n", "end#short", "began#short soft wide", "command#grow"), rows)


def _usual(learned: Sequence[LearnedRow]) -> str:
    rows = [
        (
            code(known.shape),
            str(known.n),
            *map(human_duration, (known.p50, known.p95, known.longest)),
            plain(fitting),
            plain(project),
        )
        for project, known, fitting in learned
        if known.n > 1
    ]
    heads = ("command#grow", "runs#n", "half#n", "95 %#n", "longest#n wide", "limits that fit#n")
    note = '<p class="soft">Half of the runs took so long or less, and 95 % so long or less.</p>'
    return (note if rows else "") + table((*heads, "project#short soft wide"), rows)


# The timeline


def _days(runs: Sequence[PastRun]) -> Iterator[str]:
    """A list for each day, the newest first and open."""
    is_open = " open"
    for day, group in groupby(
        runs, key=lambda run: time.strftime("%A, %Y-%m-%d", time.localtime(run.began))
    ):
        those = list(group)
        bad = sum(not run.well and not run.running for run in those)
        count = f"{len(those)} run{'s' * (len(those) > 1)}" + (f", {bad} not well" if bad else "")
        yield f'<details{is_open}><summary>{day} <span class="soft">{count}</span></summary>'
        yield _timeline(those)
        yield "</details>"
        is_open = ""


def _timeline(runs: Sequence[PastRun]) -> str:
    first = min(run.began for run in runs)
    span = max(1.0, max(run.began + (run.duration or 0) for run in runs) - first)
    where = _once(run.cwd for run in runs)
    rows = [
        (
            local_time(run.began)[11:19],
            "" if run.duration is None else human_duration(run.duration),
            ending(run),
            plain(run.client or "-"),
            _bar(run, first, span),
            code(run.command) + (f' <span class="soft">in {plain(cwd)}</span>' if cwd else ""),
        )
        for run, cwd in zip(runs, where, strict=True)
    ]
    return table(
        (
            "time#short soft",
            "took#n",
            "end#short",
            "client#short soft wide",
            "#wide",
            "command#grow",
        ),
        rows,
    )


def _once(words: Iterable[str]) -> Iterator[str]:
    """Each where it is another than the one before."""
    before = ""
    for word in words:
        yield "" if word == before else word
        before = word


def _bar(run: PastRun, first: float, span: float) -> str:
    left, wide = (run.began - first) / span, (run.duration or 0) / span
    place = f"left:min({left:.2%},100% - 3px);width:{min(wide, 1 - left):.2%}"
    return f'<div class="bar"><i class="{kind(run)}" style="{place}"></i></div>'
