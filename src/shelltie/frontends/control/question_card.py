"""A pending question as the web page shows it: nothing hidden, nothing cut. Pure.

Control, invisible and bidirectional characters are written as their names, so that the text on the
page is the text that would run.
"""

from collections.abc import Mapping
from typing import Any

from shelltie.approval.always import offered_scopes, shown_rule
from shelltie.approval.card import text_of
from shelltie.approval.question import Question, Scope
from shelltie.basics import visible_text
from shelltie.frontends.control.question_row import from_json

_WIDE = 100_000  # the page breaks lines itself


def card_of(row: Mapping[str, Any]) -> dict[str, object]:
    """What the page needs to show it and to answer it.

    Raises: KeyError, TypeError, ValueError if this is no question.
    """
    pending = from_json(row)
    question = pending.question
    scopes = offered_scopes(question)
    return {
        "id": question.id,
        "digest": question.digest,
        "rating": question.verdict.rating,
        "isApply": question.is_apply,
        "command": _visible(text_of(question)),
        "isArgv": question.command.argv is not None,
        "doubts": visible_text.notes(text_of(question)),
        "cwd": visible_text.inline(question.command.cwd),
        "client": visible_text.inline(question.client),
        "provider": question.provider,
        "pty": question.command.pty is not None,
        "env": [_variable(name, value) for name, value in sorted(question.env.items())],
        "input": _input(question),
        "reasons": _reasons(row),
        "askedAt": question.asked_at,
        "expiresAt": pending.expires_at,
        "late": pending.late,
        "scopes": list(scopes),
        "rule": shown_rule(question) if Scope.ALWAYS in scopes else "",
        "kind": "" if question.kind is None else question.kind.told,
    }


def _visible(text: str) -> list[str]:
    """Its lines; the gutter in front of each is the page's to draw."""
    return [line[len(visible_text.GUTTER) :] for line in visible_text.lines(text, _WIDE)]


def _variable(name: str, value: str | None) -> dict[str, object]:
    shown = visible_text.inline(name if value is None else f"{name}={value}")
    return {"unset": value is None, "text": shown}


def _input(question: Question) -> dict[str, object] | None:
    given = question.input
    if given is None:
        return None
    text = given.head.decode("utf-8", "replace")
    return {"size": given.size, "lines": _visible(text), "more": given.size - len(given.head)}


def _reasons(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """Each once, the worst first as the server sorted them."""
    found = {}
    for one in row["reasons"]:
        shown = {
            name: visible_text.inline(str(one.get(name) or ""))
            for name in ("rating", "code", "message", "program", "rule")
        }
        found[tuple(shown.values())] = shown
    return list(found.values())
