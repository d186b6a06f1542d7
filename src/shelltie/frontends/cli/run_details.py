"""`shelltie history show`: everything on record about one command, and what it printed."""

from collections.abc import Iterable, Iterator
from typing import Any

from shelltie.basics import visible_text
from shelltie.basics.times import human_duration, human_size, local_time
from shelltie.errors import OutputNotKept
from shelltie.frontends.cli import past_output
from shelltie.frontends.cli.console import Style, columns, print_json, wrap
from shelltie.frontends.reports.verdict_report import words_of
from shelltie.output.text import clean
from shelltie.record.past_runs import PastRun, facts_of, find
from shelltie.settings import paths
from shelltie.settings.layers import load

_LABEL = 10
_LINES = 40  # of its output; `logs` prints all
_COLOURS = {"safe": "green", "unknown": "yellow", "dangerous": "red"}

Fields = dict[str, Any]


def show(name: str, ink: Style, *, json: bool) -> int:
    """Print it; the exit code.

    Raises: NoRecordedRun, JournalUnusable, JournalUnreadable.
    """
    journal = load(paths.here()).journal
    run = find(journal, name)
    facts = facts_of(journal, run.id)
    if json:
        events = [{"kind": kind, "at": at, **body} for kind, at, body in facts]
        print_json({**run.to_json(), "record": events})
        return 0
    known: Fields = {}
    for _, _, body in facts:
        known |= {key: value for key, value in body.items() if value not in (None, "", [])}
    print(ink("bold", visible_text.brief(run.command, columns() * 3)))
    for label, text, colour in (*_rows(run, known), *_holders(facts)):
        line = wrap(visible_text.inline(text), f"  {label:<{_LABEL}}", " " * (_LABEL + 2))
        print(line.replace(text, ink(colour, text), 1) if colour else line)
    _print_output(run, ink)
    return 0


def _rows(run: PastRun, known: Fields) -> Iterator[tuple[str, str, str]]:
    """A label, a text and its colour, if any."""
    good = run.well or run.running
    took = "" if run.duration is None else f" after {human_duration(run.duration)}"
    yield "end", f"{'' if good else '✗ '}{run.ending}{took}", "" if good else "red"
    provider = known.get("provider")
    for label, text in (
        ("why", run.reason or known.get("stopReason") or known.get("error") or ""),
        ("id", run.id + (f" (session {run.session})" if run.session else "")),
        ("when", local_time(run.began)),
        ("in", run.cwd),
        ("client", _who(run, known)),
        ("where", (f"{provider}, isolation {known.get('isolation', 'none')}" if provider else "")),
    ):
        if text:
            yield label, str(text), ""
    if rating := str(known.get("verdict") or ""):
        yield "verdict", rating, _COLOURS.get(rating, "")
    yield from _decision(known)
    if limits := known.get("limits"):
        spans = [
            f"{name} {'none' if limits.get(name) is None else human_duration(limits[name])}"
            for name in ("total", "silence")
        ]
        yield "limits", (f"{', '.join(spans)} ({words_of(str(limits.get('source')))})"), ""
    for warning in known.get("warnings") or ():
        yield "warning", str(warning), ""


def _holders(facts: Iterable[tuple[str, float, Fields]]) -> Iterator[tuple[str, str, str]]:
    """Who held what stays, and when."""
    for kind, at, body in facts:
        if kind == "held":
            yield "held", f"from {local_time(at)} by {body.get('client') or '-'}", ""
        if kind == "released":
            yield "released", f"{local_time(at)}: {body.get('reason')}", ""


def _who(run: PastRun, known: Fields) -> str:
    parts = [run.client or "-"]
    parts += [f"{name} {known[name]}" for name in ("agent", "task") if known.get(name)]
    return ", ".join(parts)


def _decision(known: Fields) -> Iterator[tuple[str, str, str]]:
    why = "; ".join(dict.fromkeys(map(str, known.get("why") or known.get("reasons") or ())))
    if why:
        yield "because", why, ""
    if known.get("decision"):
        by = known.get("approvedBy")
        yield "decision", f"{known['decision']}{f', approved by {by}' if by else ''}", ""


def _print_output(run: PastRun, ink: Style) -> None:
    size = human_size((run.stdout or 0) + (run.stderr or 0))
    try:
        recording = past_output.load(run.id)
    except OutputNotKept as error:
        if not run.refused:
            print(f"  {'output':<{_LABEL}}{error}")
        return
    lines = clean(recording.data).splitlines()
    if not lines:
        print(f"  {'output':<{_LABEL}}none")
        return
    print(f"  {'output':<{_LABEL}}{size}")
    if len(lines) > _LINES:
        print(ink("dim", f"… {len(lines) - _LINES} lines before; shelltie logs {run.id[:12]}"))
    for line in lines[-_LINES:]:
        print(line)
