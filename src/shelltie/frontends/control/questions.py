"""Approval over the control socket: list, read and answer pending questions."""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

from shelltie.approval.broker import Broker, Pending
from shelltie.approval.kinds import Kind, ProvedKind
from shelltie.approval.question import Answer, Input, Question, Scope
from shelltie.basics.ids import as_short_id
from shelltie.errors import InvalidParameters
from shelltie.frontends.control.messages import MessageFields
from shelltie.frontends.control.peer import Peer
from shelltie.frontends.control.server import Control, Perform, must_be_a_person
from shelltie.model import Command, TerminalSize
from shelltie.verdict import Code, Rating, Reason, Span, Verdict

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
        name, digest, said = _said(given, f"a person (uid {peer.uid})")
        await must_be_a_person(peer, lambda: broker.unheld)
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


def to_json(pending: Pending) -> dict[str, object]:
    """All that a person needs to know to answer."""
    question = pending.question
    command, given = question.command, question.input
    return {
        "id": question.id,
        "rating": question.verdict.rating,
        "late": pending.late,
        "client": question.client,
        "askedAt": question.asked_at,
        "command": command.text,
        "argv": None if command.argv is None else list(command.argv),
        "cwd": command.cwd,
        "env": question.env,
        "pty": command.pty is not None,
        "stdin": None if given is None else _input_to_json(given),
        "provider": question.provider,
        "reasons": [_reason_to_json(reason) for reason in question.verdict.reasons],
        "digest": question.digest,
        "kind": None if question.kind is None else _kind_to_json(question.kind),
    }


def _kind_to_json(kind: ProvedKind) -> dict[str, object]:
    return {"kind": kind.kind, "workspace": kind.workspace, "detail": kind.detail}


def _kind_from_json(said: Mapping[str, Any]) -> ProvedKind:
    return ProvedKind(Kind(said["kind"]), str(said["workspace"]), str(said["detail"]))


def _input_to_json(given: Input) -> dict[str, object]:
    head = base64.b64encode(given.head).decode("ascii")
    return {"size": given.size, "sha256": given.digest, "head": head}


def _reason_to_json(reason: Reason) -> dict[str, object]:
    return {
        "code": reason.code,
        "rating": reason.rating,
        "message": reason.message,
        "start": reason.span.start,
        "end": reason.span.end,
    }


def from_json(said: Mapping[str, Any]) -> Pending:
    """The same again at the other end; only the reasons' rules and wrappers are not carried over.

    Raises: KeyError, TypeError, ValueError if this is no question.
    """
    argv, given = said["argv"], said["stdin"]
    command = Command(
        text=str(said["command"]),
        argv=None if argv is None else tuple(map(str, argv)),
        cwd=str(said["cwd"]),
        env={str(k): None if v is None else str(v) for k, v in dict(said["env"]).items()},
        pty=TerminalSize() if said["pty"] else None,
    )
    question = Question(
        id=str(said["id"]),
        command=command,
        verdict=Verdict(Rating(said["rating"]), tuple(map(_reason_from_json, said["reasons"]))),
        provider=str(said["provider"]),
        client=str(said["client"]),
        asked_at=float(said["askedAt"]),
        digest=str(said["digest"]),
        input=None if given is None else _input_from_json(given),
        kind=None if said.get("kind") is None else _kind_from_json(said["kind"]),
    )
    return Pending(question, late=bool(said["late"]))


def _input_from_json(said: Mapping[str, Any]) -> Input:
    return Input(int(said["size"]), str(said["sha256"]), base64.b64decode(said["head"]))


def _reason_from_json(said: Mapping[str, Any]) -> Reason:
    span = Span(int(said["start"]), int(said["end"]))
    code = Code(said["code"]) if said["code"] in set(Code) else Code.LISTED  # of a later version
    return Reason(code, Rating(said["rating"]), str(said["message"]), span)
