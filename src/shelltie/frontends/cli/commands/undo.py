"""`shelltie undo`: takes back what was applied of a trial."""

from argparse import Namespace

from shelltie.frontends.cli.open_trials import with_trials
from shelltie.running.trial_runs import Trials
from shelltie.trials.trial_store import Trial


def main(args: Namespace) -> int:
    """Have everything as it was."""

    async def undo(trials: Trials) -> Trial:
        return await trials.undo(args.id, "a person")

    print(f"undone {with_trials(undo).id}: the workspace is as it was before it was applied")
    return 0
