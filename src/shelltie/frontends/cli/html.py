"""Self-contained HTML pages: escaping, tables, styles; no scripts, no fonts, no network."""

from collections.abc import Iterable, Sequence
from html import escape

from shelltie.basics import visible_text
from shelltie.basics.times import human_duration, local_time
from shelltie.record.past_runs import PastRun

_STYLE = """
:root { --ink: #1c2024; --soft: #60646c; --page: #fcfcfd; --card: #f2f3f5; --line: #e3e5e8;
  --well: #30a46c; --late: #ad5700; --bad: #c62a2f; --late-bar: #f5a623; --bad-bar: #e5484d }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #9ba1a6; --page: #16181b; --card: #22252a; --line: #2e3238;
    --late: #ffb224; --bad: #ff6369 } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem;
  color: var(--ink); background: var(--page) }
h1 { font-size: 1.4rem; margin-bottom: .2rem; overflow-wrap: anywhere }
h2 { font-size: 1.1rem; margin: 2rem 0 .4rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
td, th { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top }
th { font-weight: 600; color: var(--soft); font-size: .85rem }
.n { text-align: right; white-space: nowrap } .short { white-space: nowrap }
td.grow { width: 60% }
code, pre { font: 13px/1.45 ui-monospace, monospace; white-space: pre-wrap;
  overflow-wrap: anywhere }
pre { background: var(--card); padding: 1rem; border-radius: 6px }
.well { color: inherit } .bad { color: var(--bad) } .late { color: var(--late) }
.soft { color: var(--soft) } p.soft { margin: .2rem 0 .6rem }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0 }
.tiles div { background: var(--card); border-radius: 8px; padding: .5rem 1rem; min-width: 6rem }
.tiles b { display: block; font-size: 1.35rem; font-weight: 600 }
.chart { width: 100%; height: 6rem; background: var(--card); border-radius: 8px; display: block }
.chart .well { fill: var(--well) } .chart .bad { fill: var(--bad-bar) }
.chart .late { fill: var(--late-bar) }
.legend { font-size: .85rem; color: var(--soft); margin: .3rem 0 }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: 2px;
  margin: 0 .4em 0 1.2em }
.legend i:first-child { margin-left: 0 }
.legend i.well { background: var(--well) } .legend i.late { background: var(--late-bar) }
.legend i.bad { background: var(--bad-bar) }
.ends { display: flex; justify-content: space-between; font-size: .85rem; color: var(--soft) }
.bar { position: relative; height: .8rem; margin-top: .3rem; min-width: 8rem; border-radius: 3px;
  background: var(--card) }
.bar i { position: absolute; top: 0; bottom: 0; min-width: 3px; border-radius: 3px;
  background: var(--well) }
.bar i.bad { background: var(--bad-bar) } .bar i.late { background: var(--late-bar) }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr));
  gap: 0 3rem }
details { margin: .4rem 0 } summary { cursor: pointer; padding: .3rem 0 }
@media (max-width: 45rem) { .wide { display: none } td, th { padding-right: .5rem } }
"""
_COMMAND_MAX, _TITLE_MAX = 300, 100


def page(title: str, body: Iterable[str]) -> str:
    """A whole page; the pieces are HTML already."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{plain(title)}</title>\n<style>{_STYLE}</style></head><body>\n"
        f"<h1>{plain(title)}</h1>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def of_run(run: PastRun, output: str) -> str:
    """One run, and what it printed."""
    took = "" if run.duration is None else f" after {human_duration(run.duration)}"
    who = f", by {run.client}" if run.client else ""
    about = f"{local_time(run.began)}, in {run.cwd}{who}: {run.ending}{took}"
    return page(
        run.command if len(run.command) <= _TITLE_MAX else run.command[:_TITLE_MAX] + "…",
        [
            f"<p>{code(run.command)}</p>",
            f'<p class="{kind(run)}">{plain(about)}</p>',
            f"<pre>{escape(output)}</pre>",
        ],
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already. A head is its text and, after a #, the classes of its column."""
    names = [head.partition("#")[::2] for head in heads]
    classes = [f' class="{classes}"' if classes else "" for _, classes in names]
    top = "".join(
        f"<th{kind}>{escape(name)}</th>" for kind, (name, _) in zip(classes, names, strict=True)
    )
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(classes, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{top}</tr>\n{body}</table>" if body else '<p class="soft">None.</p>'


def code(text: str) -> str:
    """A command, with whatever cannot be seen in it made visible."""
    cut = text if len(text) <= _COMMAND_MAX else text[:_COMMAND_MAX] + "…"
    return f"<code>{plain(cut)}</code>"


def plain(text: str) -> str:
    """Any text, in one line, with whatever cannot be seen in it made visible."""
    return escape(visible_text.inline(text))


def ending(run: PastRun) -> str:
    """How it ended, in its colour."""
    return f'<span class="{kind(run)}">{plain(run.ending)}</span>'


def kind(run: PastRun) -> str:
    """Its class: it went well or runs, was ended by somebody, or failed or was refused."""
    if run.well or run.running:
        return "well"
    return "late" if run.cut else "bad"
