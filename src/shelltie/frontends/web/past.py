"""History for the page, from the journal: past commands, why each ended, timeline, replay."""

import base64
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shelltie.basics import visible_text
from shelltie.basics.json_codec import as_json
from shelltie.errors import OutputNotKept
from shelltie.limits.experience import Usual, usual
from shelltie.model import Limit, State
from shelltie.output.text import clean, cut_tail
from shelltie.record.history import last, project_of
from shelltie.record.past_runs import (
    HistoryFilter,
    PastRun,
    facts_of,
    find,
    latest,
    marks_since,
)
from shelltie.record.recording import recording_of
from shelltie.shell.shape import shape

_MOST = 500
_OUTPUT_MAX = 64 * 1024
_REPLAYED_MAX = 2 * 1024 * 1024  # bytes; a page draws as much in a second
_TEXTS = ("command", "cwd", "client", "reason")
_LONGER = 2.0  # times the limit that was too short
_BEYOND = 1.5  # times the longest that was seen


def past_rows(journal: Path, wanted: Mapping[str, str]) -> list[dict[str, object]]:
    """The last ones that match, the newest first.

    Raises: JournalUnusable, JournalUnreadable.
    """
    count = wanted.get("count", "100")
    matching = HistoryFilter(
        client=wanted.get("client", ""),
        text=wanted.get("text", ""),
        since=_seconds(wanted.get("since", "")),
        failed=wanted.get("only") == "failed",
        refused=wanted.get("only") == "refused",
    )
    most = min(int(count) if count.isdecimal() else 100, _MOST)
    return [_row(run) for run in latest(journal, most, matching)]


def timeline(journal: Path, wanted: Mapping[str, str]) -> dict[str, object]:
    """Runs, and when each was asked about, answered and warned.

    Raises: JournalUnusable, JournalUnreadable.
    """
    since = _seconds(wanted.get("since", ""))
    marks = [as_json(one) for one in marks_since(journal, since)]
    return {"runs": past_rows(journal, {**wanted, "count": str(_MOST)}), "marks": marks}


def past_run(journal: Path, name: str) -> dict[str, object]:
    """One of them: its record in order, why it ended, and the end of what it printed.

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
    more = {"trial": told, **_usual(journal, run, known), **_end(run)}
    return {**_row(run), "known": known, "steps": steps, **more}


def replay(journal: Path, name: str) -> dict[str, object]:
    """What it printed, and when it had printed how much; of very much the end.

    Raises: NoRecordedRun, OutputNotKept, JournalUnusable, JournalUnreadable.
    """
    run = find(journal, name)
    recording = recording_of(run)
    dropped = max(0, len(recording.data) - _REPLAYED_MAX)
    data = base64.b64encode(recording.data[dropped:]).decode("ascii")
    times = [(at, end - dropped) for at, end in recording.times if end > dropped]
    ready = [body for kind, _, body in facts_of(journal, run.id) if kind == "ready"]
    size = {name: one.get(name) for one in ready for name in ("rows", "columns") if one.get(name)}
    return {"times": times, "data": data, "dropped": dropped, "size": size or None}


def _row(run: PastRun) -> dict[str, object]:
    row = {**run.to_json(), "ending": run.ending, "well": run.well, "running": run.running}
    return {
        name: visible_text.inline(value) if name in _TEXTS and isinstance(value, str) else value
        for name, value in row.items()
    }


def _usual(journal: Path, run: PastRun, known: Mapping[str, Any]) -> dict[str, object]:
    """How long such commands take, and after a timeout a limit that would do."""
    kind = shape(run.command)
    found = usual(kind, last(journal, kind, project_of(run.cwd))) if kind else None
    return {
        "usual": None if found is None else as_json(found),
        "longer": _longer_limit(run, known.get("limits") or {}, found),
    }


def _longer_limit(
    run: PastRun, limits: Mapping[str, Any], found: Usual | None
) -> dict[str, object] | None:
    if run.state != State.TIMED_OUT or run.limit not in (Limit.TOTAL, Limit.SILENCE):
        return None
    silent = run.limit == Limit.SILENCE
    seen = 0.0 if found is None else found.silence_longest if silent else found.longest
    limit = limits.get(run.limit) or 0.0
    return {"limit": run.limit, "seconds": math.ceil(max(limit * _LONGER, seen * _BEYOND, 2.0))}


def _end(run: PastRun) -> dict[str, object]:
    """What it printed last."""
    try:
        data = recording_of(run).data
    except OutputNotKept as error:
        return {"output": "", "problem": "" if run.refused else str(error)}
    return {"output": clean(cut_tail(data, _OUTPUT_MAX)), "problem": ""}


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0
