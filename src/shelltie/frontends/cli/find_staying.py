"""Finds and ends what outlived its program and no server lists (detached runs), for `kill`."""

from collections.abc import Sequence

import anyio

from shelltie.basics import visible_text
from shelltie.errors import TerminalError
from shelltie.frontends.cli.console import print_error, width
from shelltie.frontends.cli.find_run import describe_exit, list_runs
from shelltie.frontends.cli.main import NOT_DONE
from shelltie.keeper.stay_folder import staying_runs
from shelltie.model import Caller
from shelltie.settings import layers, paths

_PREFIX_MIN = 4


def find_staying(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Of these ids, what stays and is in no server's list, and the rest; without any, all of it."""
    living = sorted(staying_runs(layers.load(paths.here())))
    if not living:
        return [], list(names)
    listed = {found.listed.run_id for found in list_runs()[1]}
    alone = [run for run in living if run not in listed]
    if not names:
        return alone, []
    found, rest = dict[str, None](), list[str]()
    for name in names:
        wanted = name.strip().upper()
        matches = [run for run in alone if run.startswith(wanted) and len(wanted) >= _PREFIX_MIN]
        if len(matches) == 1:
            found[matches[0]] = None
        else:
            rest.append(name)
    return list(found), rest


def end_staying(runs: Sequence[str]) -> int:
    """End each of them, and say what became of it."""
    return anyio.run(_end, runs) if runs else 0


async def _end(runs: Sequence[str]) -> int:
    from shelltie.frontends.api import Terminal  # most that is ended runs in a server

    code = 0
    async with Terminal(caller=Caller(client="shelltie kill")) as terminal:
        for run in runs:
            note = terminal.staying_runs.note(run)
            command = visible_text.brief(note.command, width() // 2) if note else "unknown"
            try:
                outcome = await terminal.staying_runs.end(run, "shelltie kill")
            except TerminalError as error:
                print_error(f"{run}: {visible_text.inline(str(error))}")
                code = NOT_DONE
                continue
            how = f" ({describe_exit(outcome.exit)})" if outcome and outcome.exit else ""
            print(f"{run} ended{how}, nobody is left: {command}")
    return code
