"""`shelltie audit verify | tail | export`: the journal, for people and programs."""

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from shelltie.basics import visible_text
from shelltie.basics.times import local_clock
from shelltie.frontends.cli.console import Style, list_table, marked, print_json
from shelltie.frontends.cli.monitor_rows import files_text
from shelltie.record import anchor, queries
from shelltie.record.anchor import Anchored
from shelltie.record.chain import Checked
from shelltie.record.past_runs import end_of
from shelltie.record.queries import AuditLine
from shelltie.settings import paths
from shelltie.settings.config import Config
from shelltie.settings.layers import load

_DAMAGED = 1
_ID = 12
_HEAD = ("SEQ", "TIME", "EVENT", "RUN", "DETAILS")
# What tells most about an entry, the first of them that it has.
_NAMED = {"pid": "process {}", "pids": "processes {}", "through": "up to entry {}"}
_TELLING = ("command", "message", "reason", "state", "pids", "pid", "facts", "through")


def main(args: Namespace) -> int:
    """Do it; the exit code."""
    config = load(paths.here())
    return _ACTIONS[args.action](args, config)


def _verify(args: Namespace, config: Config) -> int:
    heads, kept = list(args.head or ()), Anchored()
    if config.audit.anchor is not None:
        kept = anchor.read(Path(config.audit.anchor))
    found = queries.verify(config.journal, [*heads, *kept.heads])
    if kept.problem is not None:
        found = replace(found, problems=(*found.problems, kept.problem))
    if args.json:
        print_json({**_proof(found, config), "warnings": list(kept.torn)})
    else:
        _show(found, kept, Style(sys.stdout, args.color))
        if not (heads or kept.heads):
            remark = "no head to compare with: a cut end would not show. Keep this one elsewhere."
            print(remark, file=sys.stderr)
    return _DAMAGED if found.problems else 0


def _proof(found: Checked, config: Config) -> dict[str, object]:
    return {
        "ok": not found.problems,
        "path": str(config.journal),
        "entries": found.entries,
        "first": found.first,
        "trimmedAt": None if found.trimmed is None else queries.moment(found.trimmed),
        "head": None if found.head is None else str(found.head),
        "headsCompared": found.compared,
        "headsTooOld": found.older,
        "problems": list(found.problems),
    }


def _show(found: Checked, kept: Anchored, ink: Style) -> None:
    for problem in found.problems:
        print(marked(ink, "✗", visible_text.inline(problem)))
    if not found.problems:
        print(marked(ink, "✓", f"{found.entries} entries are as they were written"))
    for torn in kept.torn:
        print(marked(ink, "⚠", visible_text.inline(torn)))
    for remark in _remarks(found):
        print(marked(ink, "·", remark))
    if found.head is not None:
        print(f"head {found.head}")


def _remarks(found: Checked) -> Iterator[str]:
    if found.first > 1 and found.trimmed is not None:
        when = queries.moment(found.trimmed)
        yield f"entries before {found.first} were removed by age or size, the last time at {when}"
    if found.compared:
        yield f"{found.compared} of the heads kept elsewhere are compared"
    if found.older:
        yield f"{found.older} of them are older than what is kept, and cannot be compared"


def _tail(args: Namespace, config: Config) -> int:
    lines = queries.tail(config.journal, args.n)
    if args.json:
        _print_lines(lines)
    elif lines:
        list_table(Style(sys.stdout, args.color), _HEAD, map(_row, lines))
    else:
        print("Nothing is recorded.")
    return 0


def _export(args: Namespace, config: Config) -> int:
    _print_lines(queries.entries(config.journal, args.after))
    return 0


_ACTIONS: dict[str, Callable[[Namespace, Config], int]] = {
    "verify": _verify,
    "tail": _tail,
    "export": _export,
}


def _print_lines(lines: Iterable[AuditLine]) -> None:
    sys.stdout.writelines(f"{json.dumps(line.to_json())}\n" for line in lines)


def _row(line: AuditLine) -> tuple[str, ...]:
    known = line.to_json()
    words = (_when(known), str(line.entry.kind), str(line.entry.run)[:_ID], _telling(known))
    return str(line.entry.seq), *map(visible_text.inline, words)


def _when(known: Mapping[str, object]) -> str:
    """Local time, as everywhere that people read it; what is no time stays as it is."""
    try:
        at = datetime.fromisoformat(str(known["at"])).astimezone().timestamp()
    except (ValueError, OverflowError):  # it was changed
        return str(known["at"])[:14]
    return local_clock(at, time.time())


def _telling(known: Mapping[str, object]) -> str:
    state, code, limit = (known.get(name) for name in ("state", "exitCode", "limit"))
    if state and not known.get("command"):
        end = end_of(str(state), code if isinstance(code, int) else None, str(limit or ""))
        return end if end == "exit 0" else f"✗ {end}"
    if "allowed" in known:
        return f"{'yes' if known['allowed'] else 'no'}, {known.get('reason') or known.get('by')}"
    if "trial" in known:
        told = f"{known['trial']} {known.get('status')}"
        return f"{told}: {known['summary']}" if known.get("summary") else told
    if "action" in known:
        return files_text(known)
    for name in _TELLING:
        if known.get(name) not in (None, "", []):
            return _NAMED.get(name, "{}").format(known[name])
    return ""
