"""One request of a client: what it wants, whose it is, and how its client can be reached."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext

from shelltie.approval.broker import Channel
from shelltie.frontends.mcp.guests import GUEST, Guest
from shelltie.model import Caller
from shelltie.running.gate import Party

_ONLY_CLIENT = "stdio"
Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool and its arguments. `owner` stands for the client: nobody else sees its sessions."""

    name: str
    arguments: Mapping[str, object]
    owner: str
    party: Party


def client_of(context: Context) -> str:
    """`claude-code 2.1.197`, as the client calls itself; both eras say it, if in other places."""
    about = context.session.client_params
    return "" if about is None else f"{about.client_info.name} {about.client_info.version}".strip()


def owner_of(context: Context) -> str:
    """Whose sessions a request may see: stdio has one client, the door of HTTP knows each."""
    if context.request is None:
        return _ONLY_CLIENT
    guest: Guest = context.request.scope[GUEST]
    about = context.session.client_params
    return guest.owner("" if about is None else about.client_info.name)


def call_of(
    context: Context,
    name: str,
    arguments: Mapping[str, object] | None,
    channel: Channel | None = None,
) -> Call:
    """What a request asks for; its client can be asked through the channel."""
    party = Party(Caller(client=client_of(context)), channel)
    return Call(name, arguments or {}, owner_of(context), party)
