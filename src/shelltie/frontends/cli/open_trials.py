"""Trials for the command line: opens the store with its journal, and says who decides."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio

from shelltie.approval.ancestry import why_not_a_person
from shelltie.frontends.api import Terminal
from shelltie.model import Caller
from shelltie.running.options import Requester
from shelltie.running.trial_runs import Trials

_T = TypeVar("_T")
_CLIENT = "shelltie"


def with_trials(act: Callable[[Trials], Awaitable[_T]]) -> _T:
    """Do something with the trials of this user; what it changes is recorded."""

    async def once() -> _T:
        async with _opened() as trials:
            return await act(trials)

    return anyio.run(once)


@asynccontextmanager
async def _opened() -> AsyncIterator[Trials]:
    async with Terminal(caller=Caller(client=_CLIENT)) as terminal:
        yield terminal.trials


def requester() -> Requester | None:
    """Nobody, where a person decides. For a command of an agent the rules do, or who is asked."""
    return None if why_not_a_person(os.getpid()) is None else Requester(Caller(client=_CLIENT))
