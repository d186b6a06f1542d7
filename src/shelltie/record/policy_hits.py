"""Hit counts of the policy, from the journal: how often each category and each reason applied."""

import sqlite3
from collections import Counter
from contextlib import closing
from itertools import islice
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.errors import JournalUnreadable
from shelltie.record.database import explained, open_for_reading
from shelltie.record.past_runs import entry_body

_ENTRIES_MAX = 20_000  # the newest; a fifth of a second to read
_CATEGORIES = """
    SELECT coalesce(category, ''), count(*), sum(state = 'timed_out') FROM runs
    WHERE began >= ? GROUP BY 1 ORDER BY 2 DESC"""
_JUDGED = """
    SELECT at, body FROM entries WHERE kind IN ('ready', 'refused') ORDER BY seq DESC"""


@frozen
class PolicyHits:
    """Since a moment: runs and timeouts of each category; decisions; reasons with their counts."""

    since: float
    categories: dict[str, tuple[int, int]]
    decisions: dict[str, int]
    reasons: dict[str, int]


def policy_hits(path: Path, since: float) -> PolicyHits:
    """Count them.

    Raises: JournalUnusable, JournalUnreadable.
    """
    decisions: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    try:
        with closing(open_for_reading(path)) as connection:
            rows = connection.execute(_CATEGORIES, (since,)).fetchall()
            for at, body in islice(connection.execute(_JUDGED), _ENTRIES_MAX):
                if at < since * 1_000_000:
                    break
                known = entry_body(body) or {}
                decisions[str(known.get("decision") or "allow")] += 1
                reasons.update({str(code) for code in known.get("reasons") or ()})
    except sqlite3.Error as error:
        raise JournalUnreadable(f"{path}: it cannot be read: {explained(error, path)}") from error
    categories = {str(name): (int(runs), int(cut or 0)) for name, runs, cut in rows}
    return PolicyHits(since, categories, dict(decisions.most_common()), dict(reasons.most_common()))
