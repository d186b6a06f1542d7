"""MCP tool `trial`: what a command on trial has changed; apply, discard or undo it."""

from typing import Any

import anyio.to_thread
from mcp_types import CallToolResult

from shelltie.basics.frozen import frozen
from shelltie.errors import NoSuchTrial
from shelltie.frontends.mcp.request import ONLY_CLIENT, ToolCall
from shelltie.frontends.mcp.run_to_session import Handover
from shelltie.frontends.mcp.tools.schema import (
    TEXT,
    Acts,
    answer_fields,
    declare,
    lean,
    optional,
    read,
    required,
    result,
    schema_of,
)
from shelltie.running.on_trial import TrialReport
from shelltie.running.options import RunOptions

_DIFF_SHOWN = 20_000
_ACTIONS = ("changes", "apply", "discard", "undo")
_DESCRIPTION = """\
What a run on trial changed, with a diff; apply, discard or undo it. To apply may wait for a \
person's yes."""


@frozen
class TrialArguments:
    """What `trial` takes."""

    id: str = required("From `run`.", minLength=1)
    action: str = required("What to do.", enum=list(_ACTIONS))
    paths: list[str] | None = optional("Only these.", minItems=1)


_OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        **answer_fields(
            TrialReport,
            without="folder",
            status={"enum": ["open", "applied", "discarded", "undone"]},
        ),
        "diff": TEXT,
        "note": TEXT,
        "error": TEXT,
        "errorCode": TEXT,
    },
}

TRIAL = declare(
    "trial", "Changes on trial", _DESCRIPTION, Acts.RUNS, schema_of(TrialArguments), _OUTPUT
)


async def trial(handover: Handover, call: ToolCall) -> CallToolResult:
    """Do what is asked with one trial of this client's. A client with a server of its own may
    have had another server before, so those of its workspace are its, too.

    Raises: TerminalError.
    """
    given = read(call.arguments, TrialArguments)
    trials: Any = handover.supervisor.trials
    trials = trials.loaded
    workspace = handover.supervisor.placement.workspace_for(RunOptions())
    ours = handover.trial_owners.get(given.id) == call.owner
    if not ours and not (call.owner == ONLY_CLIENT and trials.is_of(given.id, workspace)):
        raise NoSuchTrial(
            f"there is no trial {given.id!r} of yours; a person has `shelltie changes` for all"
        )
    by = call.requester.caller.client
    if given.action == "changes":
        return await _changes(trials, given)
    if given.action == "apply":
        done = await trials.apply(given.id, given.paths, call.requester)
    elif given.action == "discard":
        done = await trials.discard(given.id, by)
    else:
        done = await trials.undo(given.id, by)
    answer = lean({"id": done.id, "status": str(done.status), "note": done.why})
    told = f"{done.id} is {done.status}" + (f": {done.why}" if done.why else "")
    return result(answer, ok=True, text=told)


async def _changes(trials: Any, given: TrialArguments) -> CallToolResult:  # noqa: ANN401  imported when used
    end = await trials.look(given.id)
    told, chosen = end.report(), end.changes.select(given.paths)
    diff = await anyio.to_thread.run_sync(lambda: chosen.diff(limit=_DIFF_SHOWN))
    answer: dict[str, object] = {
        "id": told.id,
        "status": told.status,
        "summary": chosen.summary(),
        "changes": chosen.lines(),
        "objections": list(told.objections),
        "tried": told.tried,
        "diff": diff.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
    }
    lines = (str(answer["summary"]), *chosen.lines(), *(f"Ask: {it}" for it in told.objections))
    lines = (*lines, told.tried) if told.tried else lines
    return result(lean(answer), ok=True, text="\n".join((*lines, str(answer["diff"]))))
