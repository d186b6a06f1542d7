"""Hook requests over the control socket: who may have a verdict from this server.

A server that would read other settings than
the hook itself does not answer it, nor does one that a command of ours started.
"""

from collections.abc import Mapping

from shelltie.environment import child
from shelltie.errors import InvalidParameters
from shelltie.frontends.control.hook_judge import HookJudge
from shelltie.frontends.control.line_format import MessageFields
from shelltie.frontends.control.peer import Peer
from shelltie.frontends.control.server import Perform
from shelltie.running.supervisor import Supervisor
from shelltie.settings import paths
from shelltie.settings.layers import from_environment


def commands(supervisor: Supervisor) -> dict[str, Perform]:
    """What the socket can do about them."""
    judges = HookJudge(supervisor.bus.publish)

    async def hook(_: Peer, given: MessageFields) -> MessageFields:
        _must_see_our_settings(given.get("environ"))
        return await judges.answer(given)

    return {"hook": hook}


def _must_see_our_settings(environ: object) -> None:
    """Refuse a hook whose own variables lead to other settings than ours do.

    Raises: InvalidParameters, ConfigWrong.
    """
    ours = child.inherited()
    if child.RUN_MARK in ours:
        raise InvalidParameters("a server that a command started answers no hooks")
    theirs = environ if isinstance(environ, dict) else {}
    if _settings_seen({str(k): str(v) for k, v in theirs.items()}) != _settings_seen(ours):
        raise InvalidParameters("this server has other settings")


def _settings_seen(environ: Mapping[str, str]) -> list[object]:
    """What of the environment decides about a verdict; `hook_program` sends it."""
    places = [find(environ) for find in (paths.home_dir, paths.user_file, paths.state_dir)]
    return [environ.get("PATH"), *places, *from_environment(environ)]
