"""ToolCall: one MCP request with its client, owner, deadline and approval channel."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from mcp.server.context import ServerRequestContext

from shelltie.approval.broker import Channel
from shelltie.basics.frozen import frozen
from shelltie.environment import child
from shelltie.frontends.mcp.http.clients import CLIENT_KEY, HttpClient
from shelltie.model import Caller
from shelltie.running.options import Requester
from shelltie.running.run import Run
from shelltie.sessions.staying_sessions import SessionClient

ONLY_CLIENT = "stdio"
RequestContext = ServerRequestContext[Any, Any]


@frozen
class FollowedRun:
    """The run a call is about; `task` is its name for the client, `activity` what it does now."""

    run: Run
    task: str = ""
    activity: Callable[[], str] = str


def _unheard(_: FollowedRun) -> None:
    """For a client that is told nothing before the answer."""


@frozen
class ToolCall:
    """A tool and its arguments. `owner` stands for the client: nobody else sees its sessions.

    The answer must be there at `until`. Whoever starts something lets the client `follow` it.
    """

    name: str
    arguments: Mapping[str, object]
    owner: str
    requester: Requester
    until: float = math.inf
    follow: Callable[[FollowedRun], None] = _unheard
    lasting: str = ONLY_CLIENT  # what stands for the client in the next server as well

    @property
    def who(self) -> SessionClient:
        """Whose sessions it is about."""
        return SessionClient(self.owner, self.lasting, self.requester.caller.client)


def client_of(context: RequestContext) -> str:
    """`claude-code 2.1.197`, as the client calls itself; both eras say it, if in other places."""
    about = context.session.client_params
    return "" if about is None else f"{about.client_info.name} {about.client_info.version}".strip()


def owner_of(context: RequestContext) -> str:
    """Whose sessions a request may see: stdio has one client, the door of HTTP knows each."""
    if context.request is None:
        return ONLY_CLIENT
    guest: HttpClient = context.request.scope[CLIENT_KEY]
    about = context.session.client_params
    return guest.owner("" if about is None else about.client_info.name)


def lasting_owner_of(context: RequestContext) -> str:
    """The same without what is another one after a restart: whoever has the credential."""
    if context.request is None:
        return ONLY_CLIENT
    guest: HttpClient = context.request.scope[CLIENT_KEY]
    return guest.credential


def requester_of(client: str, channel: Channel, window: float) -> Requester:
    """Who asks for a command, and can be asked through the channel for `window` seconds."""
    # Who starts us inside a run, as `shelltie acp` does it, finds what was asked there by its mark.
    agent = child.inherited_variable(child.RUN_MARK)
    answer_timeout = None if math.isinf(window) else window
    return Requester(Caller(client=client, agent=agent), channel, answer_timeout)
