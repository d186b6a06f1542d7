"""Holds a run that stays and that no program holds (attach, resume), while a command looks at it.

This process then is its server: it has a control socket of its own, and is asked as any server is.
A server whose session it is takes it from here.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager

from shelltie.errors import AmbiguousRun, NoLiveRun, TerminalError
from shelltie.frontends.cli.find_run import FoundRun, find, list_runs
from shelltie.frontends.cli.find_staying import lone_runs, match_lone
from shelltie.model import Caller


@contextmanager
def found_or_held(name: str, client: str) -> Iterator[FoundRun]:
    """The one run or session that is meant; if nobody holds it, `client` does in this block.

    Raises: NoLiveRun; CannotStart if it cannot be held.
    """
    try:
        run = find(name)
    except AmbiguousRun:
        raise
    except NoLiveRun:
        lone = match_lone(name, lone_runs())
        if lone is None:
            raise
        with _held(lone.run, client) as held:
            yield held
        return
    yield run


@contextmanager
def _held(run: str, client: str) -> Iterator[FoundRun]:
    from shelltie.frontends.api import Terminal  # slow to import, and seldom needed
    from shelltie.frontends.terminal_thread import TerminalThread

    with closing(TerminalThread(Terminal(caller=Caller(client=client)))) as thread:
        # Not its own `adopt`: the end of a session is left for its client.
        thread.call(lambda terminal: terminal.staying_runs.adopt(run, client))
        ours = (one for one in list_runs()[1] if one.server.pid == os.getpid())
        found = next((one for one in ours if one.listed.run_id == run), None)
        if found is None:
            raise TerminalError(f"{run} is held, but there is no place for a socket to reach it")
        yield found
