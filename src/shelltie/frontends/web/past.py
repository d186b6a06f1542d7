"""History for the page: past commands, and everything on record about one, from the journal."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shelltie.basics import visible_text
from shelltie.output.text import clean, cut_tail
from shelltie.record.past_runs import HistoryFilter, PastRun, facts_of, find, latest

_ROWS_MAX = 500
_OUTPUT_MAX = 64 * 1024
_TEXTS = ("command", "cwd", "client", "reason")


def past_rows(journal: Path, wanted: Mapping[str, str]) -> list[dict[str, object]]:
    """The last ones that match, the newest first.

    Raises: JournalUnusable, JournalUnreadable.
    """
    count = wanted.get("count", "100")
    matching = HistoryFilter(
        client=wanted.get("client", ""),
        text=wanted.get("text", ""),
        failed=wanted.get("only") == "failed",
        refused=wanted.get("only") == "refused",
    )
    most = min(int(count) if count.isdecimal() else 100, _ROWS_MAX)
    return [_row(run) for run in latest(journal, most, matching)]


def past_run(journal: Path, name: str) -> dict[str, object]:
    """One of them: its record in order, and the end of what it printed.

    Raises: NoRecordedRun, JournalUnusable, JournalUnreadable.
    """
    run = find(journal, name)
    known: dict[str, Any] = {}
    record = facts_of(journal, run.id)
    for _, _, body in record:
        known |= {key: value for key, value in body.items() if value not in (None, "", [])}
    steps = [{"kind": kind, "at": at} for kind, at, _ in record]
    trial = {**known, **next((body for kind, _, body in reversed(record) if kind == "trial"), {})}
    told = f"{trial['trial']}, {trial['status']}: {known['summary']}" if "trial" in known else ""
    return {**_row(run), "known": known, "trial": told, "steps": steps, **_output(run)}


def _row(run: PastRun) -> dict[str, object]:
    row = {**run.to_json(), "ending": run.ending, "well": run.well, "running": run.running}
    return {
        name: visible_text.inline(value) if name in _TEXTS and isinstance(value, str) else value
        for name, value in row.items()
    }


def _output(run: PastRun) -> dict[str, object]:
    if run.file is None:
        printed = (run.stdout or 0) + (run.stderr or 0)
        return {"output": "", "problem": "what it printed was not kept" if printed else ""}
    try:
        data = Path(run.file).read_bytes()
    except OSError:
        return {"output": "", "problem": "what it printed is no longer kept"}
    return {"output": clean(cut_tail(data, _OUTPUT_MAX)), "problem": ""}
