"""Verdict for a hook without a server: assembles the engine, judges one command, and records it."""

from pathlib import Path

import anyio

from shelltie.assemble import assemble
from shelltie.assemble_parts import policy_file
from shelltie.frontends.control.hook_requests import HookJudge
from shelltie.frontends.control.line_format import MessageFields
from shelltie.settings.layers import load


def judge(request: MessageFields) -> dict[str, object]:
    """The same answer as a server's.

    Raises: TerminalError.
    """
    return anyio.run(_judge, request)


async def _judge(request: MessageFields) -> dict[str, object]:
    place = Path(str(request["cwd"]))
    config = load(place)
    async with assemble(config, policy_file(config, place)) as supervisor:
        return dict(await HookJudge(supervisor).answer(request))
