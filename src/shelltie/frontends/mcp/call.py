"""One request of a client: what it wants, whose it is, and how its client can be reached."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext

from shelltie.model import Caller
from shelltie.running.gate import Party

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


def call_of(
    context: Context, name: str, arguments: Mapping[str, object] | None, owner: str
) -> Call:
    """What a request asks for."""
    return Call(name, arguments or {}, owner, Party(Caller(client=client_of(context))))
