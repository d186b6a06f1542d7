"""`shelltie kill`: ends runs and sessions with their whole process trees."""

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import Any, cast

from shelltie.basics import visible_text
from shelltie.errors import NoServerAnswer
from shelltie.frontends.cli.commands.ps import show
from shelltie.frontends.cli.console import Style, print_error, width
from shelltie.frontends.cli.find_question import confirmed
from shelltie.frontends.cli.find_run import (
    FoundRun,
    describe_exit,
    failed,
    find_all,
    list_runs,
)
from shelltie.frontends.cli.find_staying import end_staying, lone_runs, split_names
from shelltie.frontends.cli.main import NOT_DONE, SHELLTIE_FAILED, WRONG_USAGE
from shelltie.frontends.control import client
from shelltie.frontends.control.run_row import exit_from_json

_GONE_TIMEOUT = 30.0  # seconds; after that it is said that it still takes its time
_BATCH = 1000  # ids that fit into a request
_Ends = dict[str, dict[str, Any]]


def main(args: Namespace) -> int:
    """End them; say what became of each."""
    if bool(args.ids) == args.all:
        print_error("which? Give the IDs that `shelltie ps` shows, or --all")
        return WRONG_USAGE
    lone = lone_runs()
    staying, ids = split_names(args.ids, lone)
    meant = _everybody() if args.all else find_all(ids) if ids else []
    if args.all:
        held = {run.listed.run_id for run in meant}
        staying = [run for run in staying if run not in held]
    if not meant and not staying:
        print("Nothing runs.")
        return 0
    if args.all and not args.yes:
        show(meant, Style(sys.stdout, args.color))
        for one in lone:
            print(f"{one.id}  stays, and no program holds it: {one.command}")
        if not confirmed(f"End all {len(meant) + len(staying)}?"):
            print("Left as they were.")
            return NOT_DONE
    return max(_end_in_all(meant, hard=args.hard), end_staying(staying))


def _everybody() -> list[FoundRun]:
    _, runs, problems = list_runs(look=True)
    for problem in problems:
        print_error(problem)
    return [run for run in runs if not run.listed.ended or run.listed.left]


def _end_in_all(meant: Sequence[FoundRun], *, hard: bool) -> int:
    """All servers at once: each may have somebody who takes their time."""
    by_server = [
        list(group)
        for _, group in groupby(
            sorted(meant, key=lambda one: one.server.path), lambda one: one.server.path
        )
    ]
    with ThreadPoolExecutor(max_workers=16) as threads:
        return max(threads.map(partial(_end, hard=hard), by_server), default=0)


def _end(group: list[FoundRun], *, hard: bool) -> int:
    code = 0
    for start in range(0, len(group), _BATCH):
        batch = group[start : start + _BATCH]
        try:
            ends = _ends(batch, hard=hard)
        except NoServerAnswer as error:
            return max(code, failed(batch[0], error))
        code = max(code, *(_tell(one, ends.get(one.listed.run_id)) for one in batch))
    return code


def _ends(batch: list[FoundRun], *, hard: bool) -> _Ends:
    """What became of each, once all are gone or patience has ended."""
    deadline = time.monotonic() + _GONE_TIMEOUT
    ids = [run.listed.run_id for run in batch]
    ends = _asked(batch[0], ids, hard=hard)
    while time.monotonic() < deadline and not all(
        end["settled"] or end["left"] for end in ends.values()
    ):
        ends = _asked(batch[0], ids, again=True)
    return ends


def _asked(one: FoundRun, ids: list[str], **how: bool) -> _Ends:
    said = client.ask(one.server.path, "kill", ids=ids, **how)
    try:
        return {str(end["runId"]): end for end in cast(list[Any], said["runs"])}
    except (KeyError, TypeError) as error:
        raise NoServerAnswer(
            f"the server {one.server.pid} says what we do not understand"
        ) from error


def _tell(found: FoundRun, end: dict[str, Any] | None) -> int:
    command = visible_text.brief(found.listed.command, width() // 2)
    if found.listed.ended and not found.listed.left:
        print(f"{found.id} had ended already: {command}")
    elif end is None or end["settled"]:
        said = describe_exit(exit_from_json(end)) if end else "it had just ended"
        print(f"{found.id} ended ({said}), nobody is left: {command}")
    elif end["left"]:
        print_error(f"{found.id}: {end['left']} are left although SIGKILL was sent: {command}")
        return SHELLTIE_FAILED
    else:
        print_error(f"{found.id} is being ended, and takes its time: {command}")
        return NOT_DONE
    return 0
