"""`shelltie changes`: trials, and what each of them has changed."""

import sys
import time
from argparse import Namespace

from shelltie.basics import visible_text
from shelltie.basics.json_codec import as_json
from shelltie.basics.times import human_duration
from shelltie.errors import InvalidParameters
from shelltie.frontends.cli.console import print_json, table
from shelltie.frontends.cli.open_trials import with_trials
from shelltie.frontends.reports.run_report import next_steps
from shelltie.running.trial_runs import TrialEnd, Trials
from shelltie.trials.trial_store import Trial


def main(args: Namespace) -> int:
    """Show one, or list all."""
    if args.id is None:
        if args.diff:
            raise InvalidParameters("which? Give the ID that `shelltie changes` lists")
        _list(with_trials(_all), json=args.json)
        return 0

    async def look(trials: Trials) -> TrialEnd:
        return await trials.look(args.id)

    end = with_trials(look)
    if args.diff and sys.stdout.isatty():  # what is in a file may steer a terminal
        print("\n".join(map(visible_text.inline, end.changes.diff().split("\n"))), end="")
    elif args.diff:
        sys.stdout.buffer.write(end.changes.diff().encode("utf-8", "surrogateescape"))
    elif args.json:
        told = as_json(end.report())
        print_json({**told, **end.changes.to_json(), "outcome": end.trial.outcome})
    else:
        _show(end)
    return 0


async def _all(trials: Trials) -> list[Trial]:
    return trials.list()


def _list(trials: list[Trial], *, json: bool) -> None:
    if json:
        print_json([as_json(trial) for trial in trials])
    elif not trials:
        print("Nothing has run on trial.")
    else:
        now = time.time()
        table(
            (
                trial.id,
                str(trial.status),
                human_duration(max(0.0, now - trial.started_ns / 1e9)),
                visible_text.inline(trial.workspace),
                visible_text.inline(trial.command),
            )
            for trial in trials
        )


def _show(end: TrialEnd) -> None:
    told = end.report()
    print(f"{told.id}: {visible_text.inline(end.trial.command)} ({end.trial.outcome})")
    print(told.summary)
    for line in end.changes.lines():
        print(f"  {line}")
    for why in told.objections:
        print(f"⚠ {why}")
    if told.tried:
        print(f"⚠ {visible_text.inline(told.tried)}")
    print(f"→ {next_steps(told, lambda action: f'shelltie {action} {told.id}')}")
