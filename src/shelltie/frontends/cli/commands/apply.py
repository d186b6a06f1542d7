"""`shelltie apply`: makes the changes of a trial real, after a person has seen them."""

import os
from argparse import Namespace

from shelltie.frontends.cli.find_question import confirmed
from shelltie.frontends.cli.main import NOT_DONE
from shelltie.frontends.cli.open_trials import requester, with_trials
from shelltie.running.trial_runs import TrialEnd, Trials
from shelltie.trials.trial_store import Trial


def main(args: Namespace) -> int:
    """Show what is worth a look, and apply it."""

    async def look(trials: Trials) -> TrialEnd:
        return await trials.look(args.id)

    end = with_trials(look)
    paths = [_relative(end, path) for path in args.paths] or None
    who = requester()
    if who is None and end.objections and not args.yes:
        for line in end.changes.select(paths).lines():
            print(f"  {line}")
        for why in end.objections:
            print(f"⚠ {why}")
        if not confirmed(f"Apply {end.trial.id}?"):
            print("Left as it was.")
            return NOT_DONE

    async def apply(trials: Trials) -> Trial:
        return await trials.apply(args.id, paths, who)

    trial = with_trials(apply)
    print(f"applied {trial.id}: {end.changes.select(paths).summary()}")
    if trial.why:
        print(trial.why)
    print(f"→ shelltie undo {trial.id}")
    return 0


def _relative(end: TrialEnd, path: str) -> str:
    """As the change set has it: from the workspace, wherever somebody is."""
    workspace = end.trial.workspace
    here = os.path.realpath(".")
    inside = f"{here}/".startswith(f"{workspace}/")
    whole = os.path.normpath(os.path.join(here if inside else workspace, path))  # noqa: PTH118  of a text
    return os.path.relpath(whole, workspace)
