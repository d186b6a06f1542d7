"""Throwaway workspaces: a yes for what can only destroy a directory that is removed anyway.

A framework makes a directory for one task, and in a sandbox or container there is nothing else that
a command could harm. What the policy denies stays denied.
"""

from pathlib import Path

from shelltie.approval.broker import Callback
from shelltie.approval.question import Answer, Question
from shelltie.model import Isolation
from shelltie.settings.config import Config
from shelltie.settings.layers import load

_CLOSED = ("off", "loopback")  # networks that lead nowhere


def approve_throwaway(isolation: str | None, config: Config | None = None) -> Callback | None:
    """Who says yes in a terminal whose commands all run so, in a directory made for them.

    Nobody, where the settings let them write elsewhere, too, or reach others by the network.
    """
    config = config or load(Path.cwd())
    if isolation == Isolation.SANDBOX:
        provider, elsewhere, network = "bubblewrap", config.sandbox.writable, config.sandbox.network
    elif isolation == Isolation.CONTAINER:
        provider, elsewhere = "container", config.container.mounts
        network = config.container.network
    else:
        return None
    if elsewhere or network not in _CLOSED:
        return None

    def answer(question: Question) -> Answer:
        inside = question.provider == provider
        why = "it runs isolated in a throwaway directory"
        return Answer(allowed=inside, by="adapter", reason=why if inside else "")

    return answer
