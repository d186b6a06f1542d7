"""`shelltie undo`: takes back what was applied of a trial."""

from argparse import Namespace

from shelltie.frontends.cli.on_trial import with_trials
from shelltie.running.trial_runs import Trials
from shelltie.trials.store import Trial


def main(args: Namespace) -> int:
    """Have everything as it was."""

    async def undo(trials: Trials) -> Trial:
        return await trials.undo(args.id, "a person")

    print(f"undone {with_trials(undo).id}: the workspace is as it was before it was applied")
    return 0
