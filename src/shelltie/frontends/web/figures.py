"""Figures for the page: the policy with hit counts, and the health of every server."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shelltie.assemble_parts import policy_file
from shelltie.basics import visible_text
from shelltie.basics.json_codec import as_json
from shelltie.errors import NoServerAnswer
from shelltie.frontends.control.async_client import ask
from shelltie.frontends.control.live_rows import ServerSeen
from shelltie.frontends.reports.policy_report import policy_report
from shelltie.record.policy_hits import policy_hits
from shelltie.settings import paths
from shelltie.settings.layers import load

_SINCE = 7 * 86400.0


def policy_figures(journal: Path) -> dict[str, object]:
    """The limits in force here, and how often each category and reason applied in a week.

    Raises: ConfigWrong, PolicyWrong, JournalUnusable, JournalUnreadable.
    """
    here = paths.here()
    hits = as_json(policy_hits(journal, time.time() - _SINCE))
    return {"policy": policy_report(policy_file(load(here), here)), "hits": hits}


async def health_of(servers: Iterable[ServerSeen]) -> list[dict[str, object]]:
    """What each server says of itself, as `shelltie metrics --health` prints it."""
    found: list[dict[str, object]] = []
    for server in servers:
        try:
            said: dict[str, Any] = await ask(server.path, "health")
        except NoServerAnswer as error:
            silent = {"name": "answer", "ok": False, "message": visible_text.inline(str(error))}
            said = {"checks": [silent]}
        found.append({"server": server.name, "pid": server.pid, "checks": said.get("checks", [])})
    return found
