"""Approval over the control socket: list, read and answer pending questions."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

from shelltie.approval.broker import Broker
from shelltie.approval.question import Answer, Scope
from shelltie.basics.ids import as_short_id
from shelltie.errors import InvalidParameters
from shelltie.frontends.control.line_format import MessageFields
from shelltie.frontends.control.peer import Peer
from shelltie.frontends.control.question_row import to_json
from shelltie.frontends.control.server import (
    Control,
    Perform,
    behalf_of,
    must_be_a_person,
)

_REASON_MAX = 1000


@asynccontextmanager
async def answerable(
    broker: Broker, environ: Mapping[str, str], about: MessageFields = MappingProxyType({})
) -> AsyncIterator[Control]:
    """A socket through which the broker's questions can be answered."""
    async with Control(commands(broker), environ, about) as control:
        broker.reachable = control.path is not None
        try:
            yield control
        finally:
            broker.reachable = False


def commands(broker: Broker) -> dict[str, Perform]:
    """What the socket can do about them."""

    async def pending(_: Peer, given: MessageFields) -> MessageFields:
        wanted = given.get("id")
        if given.get("watch") is True:
            broker.note_watcher()
        found = broker.pending() if wanted is None else [broker.find(as_short_id(str(wanted)))]
        return {"questions": [to_json(one) for one in found], "problem": broker.problem}

    async def answer(peer: Peer, given: MessageFields) -> MessageFields:
        where = "" if given.get("behalf") is None else ", on the page"
        name, digest, said = _said(given, f"a person (uid {peer.uid}){where}")
        await must_be_a_person(peer, lambda: broker.unheld, behalf=behalf_of(given))
        taken, late = await broker.answer(name, digest, said)
        return {"allowed": taken.allowed, "scope": taken.scope, "late": late, "note": taken.reason}

    return {"pending": pending, "answer": answer}


def _said(given: MessageFields, by: str) -> tuple[str, str, Answer]:
    match given:
        case {"id": str(name), "digest": str(digest), "allowed": bool(allowed)}:
            scope, reason = given.get("scope", Scope.ONCE), given.get("reason", "")
        case _:
            raise InvalidParameters("an answer needs id, digest and allowed")
    if scope not in tuple(Scope) or not isinstance(reason, str):
        raise InvalidParameters(f"scope must be one of {', '.join(Scope)}, and reason a text")
    made = Answer(allowed=allowed, scope=Scope(str(scope)), by=by, reason=reason[:_REASON_MAX])
    return as_short_id(name), digest, made
