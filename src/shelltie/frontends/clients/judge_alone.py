"""Verdict for a hook without a server: judges one command and records it, without an event loop."""

from pathlib import Path

from shelltie.basics.worker_threads import CallersThread, without_loop
from shelltie.events import Event
from shelltie.frontends.control.hook_judge import HookJudge
from shelltie.frontends.control.line_format import MessageFields
from shelltie.record.short_lived import record
from shelltie.settings.layers import load


def judge(request: MessageFields) -> dict[str, object]:
    """The same answer as a server's.

    Raises: TerminalError.
    """
    events = list[Event]()
    answer = without_loop(HookJudge(events.append, CallersThread()).answer(request))
    record(load(Path(str(request["cwd"]))), events)
    return dict(answer)
