"""A pending question as JSON, at both ends of the control socket. Pure."""

import base64
from collections.abc import Mapping
from typing import Any

from shelltie.approval.question import Input, Pending, ProvedKind, Question
from shelltie.basics import json_codec
from shelltie.model import Command, TerminalSize
from shelltie.verdict import Code, Rating, Reason, Span, Verdict


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
        "expiresAt": pending.expires_at,
        "command": command.text,
        "argv": None if command.argv is None else list(command.argv),
        "cwd": command.cwd,
        "env": question.env,
        "pty": command.pty is not None,
        "stdin": None
        if given is None
        else {
            "size": given.size,
            "sha256": given.digest,
            "head": base64.b64encode(given.head).decode("ascii"),
        },
        "provider": question.provider,
        "reasons": [_reason_to_json(reason) for reason in question.verdict.reasons],
        "digest": question.digest,
        "kind": None if question.kind is None else json_codec.as_json(question.kind),
    }


def _reason_to_json(reason: Reason) -> dict[str, object]:
    return {
        "code": reason.code,
        "rating": reason.rating,
        "message": reason.message,
        "start": reason.span.start,
        "end": reason.span.end,
        "program": reason.program,
        "rule": reason.rule,
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
        input=None
        if given is None
        else Input(int(given["size"]), str(given["sha256"]), base64.b64decode(given["head"])),
        kind=None if said.get("kind") is None else json_codec.from_json(ProvedKind, said["kind"]),
    )
    expires = said.get("expiresAt")
    return Pending(question, bool(said["late"]), None if expires is None else float(expires))


def _reason_from_json(said: Mapping[str, Any]) -> Reason:
    span = Span(int(said["start"]), int(said["end"]))
    code = Code(said["code"]) if said["code"] in set(Code) else Code.LISTED  # of a later version
    return Reason(code, Rating(said["rating"]), str(said["message"]), span)
