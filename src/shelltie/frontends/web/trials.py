"""Trials on the page: the change set of one, and apply, discard or undo by a person."""

import hashlib
from collections.abc import Mapping
from typing import Any

import anyio.to_thread

from shelltie.basics import visible_text
from shelltie.errors import InvalidParameters, TrialOver
from shelltie.frontends.api import Terminal
from shelltie.model import Caller
from shelltie.running.trial_runs import TrialEnd, Trials
from shelltie.trials.unified_diff import NOT_ALL

_CALLER = Caller(client="shelltie")
_DIFF_SHOWN = 400_000  # characters
_BY = "a person"


async def trial_report(name: str) -> dict[str, object]:
    """What it has changed, with the diff; of one that is decided how.

    Raises: NoSuchTrial, TrialBusy, TrialError.
    """
    async with Terminal(caller=_CALLER) as terminal:
        trials: Trials = terminal.trials
        try:
            return await anyio.to_thread.run_sync(_open_report, await trials.look(name))
        except TrialOver:
            trial = next(one for one in trials.list() if one.id == name)
    nothing = {"summary": trial.outcome, "objections": [], "diff": "", "digest": "", "more": False}
    return {"id": name, "status": trial.status, "why": visible_text.inline(trial.why), **nothing}


def _open_report(end: TrialEnd) -> dict[str, object]:
    diff = end.changes.diff(limit=_DIFF_SHOWN)
    shown = "\n".join(map(visible_text.inline, diff.rstrip("\n").split("\n"))) if diff else ""
    return {
        "id": end.trial.id,
        "status": end.trial.status,
        "why": end.trial.outcome,
        "summary": end.changes.summary(),
        "objections": [visible_text.inline(one) for one in end.objections],
        "diff": shown,
        "digest": _digest(end),
        "more": diff.endswith(NOT_ALL),
    }


def _digest(end: TrialEnd) -> str:
    return hashlib.sha256(repr(end.changes.changes).encode()).hexdigest()


async def decide_trial(given: Mapping[str, Any]) -> Mapping[str, object]:
    """Apply, discard or undo it: a person has seen it, as the digest says.

    Raises: InvalidParameters, NoSuchTrial, TrialBusy, TrialOver, TrialError.
    """
    name, act = str(given.get("trial")), given.get("act")
    async with Terminal(caller=_CALLER) as terminal:
        trials: Trials = terminal.trials
        if act == "undo":
            trial = await trials.undo(name, _BY)
        elif act == "discard":
            trial = await trials.discard(name, _BY)
        elif act == "apply":
            if _digest(await trials.look(name)) != given.get("digest"):
                raise InvalidParameters("its changes are not those that were shown: look again")
            trial = await trials.apply(name, None, None)
        else:
            raise InvalidParameters("act must be apply, discard or undo")
    return {"status": trial.status, "why": visible_text.inline(trial.why)}
