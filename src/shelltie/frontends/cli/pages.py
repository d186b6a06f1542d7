"""Pages that need nothing but themselves: no scripts, no fonts, no network."""

import time
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from shelltie.approval import shown
from shelltie.model import human_duration
from shelltie.policy.learned import Usual
from shelltie.record.past import PastRun

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: #1c2024; background: #fcfcfd }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #e3e5e8;
  vertical-align: top }
td.n { text-align: right; white-space: nowrap } th.n { text-align: right }
code, pre { font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere }
pre { background: #f2f3f5; padding: 1rem; border-radius: 6px }
.bar { position: relative; height: .8rem; min-width: 16rem; background: #f0f1f3 }
.bar i { position: absolute; top: 0; bottom: 0; min-width: 2px; background: #30a46c }
.bar i.bad { background: #e5484d } .bar i.late { background: #f5a623 }
.bad { color: #c62a2f } .late { color: #ad5700 } .muted { color: #6b7280 }
@media (prefers-color-scheme: dark) {
  body { color: #e6e8eb; background: #16181b } pre, .bar { background: #22252a }
  td, th { border-color: #2e3238 } .bad { color: #ff6369 } .late { color: #ffb224 } }
"""
_TOP = 10
_SHOWN_MAX = 300


def _page(title: str, body: Iterable[str]) -> str:
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style></head><body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def of_run(run: PastRun, output: str) -> str:
    """One run, and what it printed."""
    took = "" if run.duration is None else f" after {human_duration(run.duration)}"
    about = f"{_when(run.began)}, in {run.cwd}: {run.ending}{took}"
    return _page(
        f"shelltie run {run.id}",
        [
            f"<p>{_code(run.command)}</p>",
            f'<p class="{_class(run)}">{escape(about)}</p>',
            f"<pre>{escape(output)}</pre>",
        ],
    )


def report(runs: Sequence[PastRun], learned: Sequence[tuple[str, Usual, str]], title: str) -> str:
    """Everything about these runs, the newest of which is first; with limits that would fit."""
    ended = [run for run in runs if run.duration is not None]
    slowest = sorted(ended, key=lambda run: -(run.duration or 0))[:_TOP]
    return _page(
        title,
        [
            _summary(runs),
            "<h2>Ends, and why</h2>",
            _table(("end", "runs#"), _counted(run.ending for run in runs)),
            "<h2>Slowest</h2>",
            _table(("took#", "end", "command"), map(_slow, slowest)),
            "<h2>Most often ended by a limit or a person</h2>",
            _table(("command", "times#"), _counted(map(_named, filter(_cut, runs)))),
            "<h2>How long commands take</h2>",
            _table(
                ("shape", "runs#", "p50#", "p95#", "longest#", "limits that would fit", "project"),
                map(_learned, learned),
            ),
            "<h2>Timeline</h2>",
            _timeline(runs),
        ],
    )


def _summary(runs: Sequence[PastRun]) -> str:
    well = sum(run.well for run in runs)
    if not runs:
        return "<p>Nothing was recorded.</p>"
    since, until = _when(min(run.began for run in runs)), _when(max(run.began for run in runs))
    return f"<p>{len(runs)} runs from {since} to {until}; {well} ended well.</p>"


def _counted(words: Iterable[str]) -> Iterator[tuple[str, ...]]:
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_TOP]:
        yield _code(word), str(count)


def _cut(run: PastRun) -> bool:
    return run.state in ("timed_out", "killed", "lost")


def _named(run: PastRun) -> str:
    return run.command[:_SHOWN_MAX]


def _slow(run: PastRun) -> tuple[str, ...]:
    end = f'<span class="{_class(run)}">{escape(run.ending)}</span>'
    return human_duration(run.duration or 0), end, _code(_named(run))


def _learned(row: tuple[str, Usual, str]) -> tuple[str, ...]:
    project, known, fitting = row
    spans = map(human_duration, (known.p50, known.p95, known.longest))
    shape = _code(known.shape)
    return shape, str(known.n), *spans, escape(fitting), escape(project)


def _timeline(runs: Sequence[PastRun]) -> str:
    if not runs:
        return ""
    first = min(run.began for run in runs)
    span = max(1.0, max(run.began + (run.duration or 0) for run in runs) - first)
    rows = []
    for run in runs:
        left, wide = (run.began - first) / span, (run.duration or 0) / span
        kind = _class(run)
        bar = f'<i class="{kind}" style="left:{left:.2%};width:{min(wide, 1 - left):.2%}"></i>'
        took = "" if run.duration is None else human_duration(run.duration)
        end = f'<span class="{kind}">{escape(run.ending)}</span>'
        command = _code(_named(run))
        rows.append((_when(run.began), took, end, f'<div class="bar">{bar}</div>', command))
    return _table(("began", "took#", "end", "", "command"), rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already; a head with a # is above numbers."""
    classes = [' class="n"' if head.endswith("#") else "" for head in heads]
    top = "".join(
        f"<th{kind}>{escape(head.rstrip('#'))}</th>"
        for kind, head in zip(classes, heads, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(classes, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{top}</tr>\n{body}</table>" if body else '<p class="muted">None.</p>'


def _code(text: str) -> str:
    """A command, with whatever cannot be seen in it made visible."""
    return f"<code>{escape(shown.inline(text))}</code>"


def _class(run: PastRun) -> str:
    if run.well or run.duration is None:
        return "well"
    return "late" if _cut(run) else "bad"


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at)) + " UTC"
