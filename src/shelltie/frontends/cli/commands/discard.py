"""`shelltie discard`: forgets the changes of a trial."""

from argparse import Namespace

from shelltie.frontends.cli.open_trials import with_trials
from shelltie.running.trial_runs import Trials
from shelltie.trials.trial_store import Trial


def main(args: Namespace) -> int:
    """Forget them."""

    async def discard(trials: Trials) -> Trial:
        return await trials.discard(args.id, "a person")

    print(f"discarded {with_trials(discard).id}")
    return 0
