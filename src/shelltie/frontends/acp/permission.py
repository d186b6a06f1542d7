"""ACP `session/request_permission`: an approval question as a request, and its answer."""

from collections.abc import Mapping
from typing import Any

import anyio.to_thread

from shelltie.approval.always import offered_scopes
from shelltie.approval.card import card, elsewhere, hides_danger, text_of
from shelltie.approval.question import Answer, Question, Scope
from shelltie.basics.visible_text import brief, inline
from shelltie.frontends.acp.diff_content import diff_content
from shelltie.frontends.reports.hidden_operands import hides_operand
from shelltie.frontends.reports.question_report import is_short, without_secrets

_WIDTH = 100
_TITLE = 200
_ALLOWED = {
    "allow-once": Scope.ONCE,
    "allow-session": Scope.SESSION,
    "allow-always": Scope.ALWAYS,
    "allow-kind": Scope.KIND,
}
_OPTIONS = (
    ("allow-once", "Allow once", "allow_once"),
    ("allow-session", "Allow exactly this until shelltie ends", "allow_always"),
    ("allow-always", "Always allow exactly this, in this directory", "allow_always"),
    ("reject-once", "Do not run it", "reject_once"),
)
_APPLY_OPTIONS = (
    ("allow-once", "Apply these changes", "allow_once"),
    ("reject-once", "Do not apply them", "reject_once"),
)


async def request_for(
    question: Question, session_id: str, secret: str, hidden: Mapping[str, str]
) -> dict[str, Any]:
    """The same as `permission_request`, without holding up others where that takes long."""
    asked = question, session_id, secret, hidden
    if is_short(question):
        return permission_request(*asked)
    return await anyio.to_thread.run_sync(permission_request, *asked, abandon_on_cancel=True)


def permission_request(
    question: Question, session_id: str, secret: str, hidden: Mapping[str, str]
) -> dict[str, Any]:
    """The parameters of `session/request_permission`, with all that a yes is bound to.

    `secret` is for its tool call: an agent that knew the id could show other words under it.
    `hidden` are values never to repeat.
    """
    scopes, kind = offered_scopes(question), question.kind
    apply = question.is_apply
    *yes, no = _APPLY_OPTIONS if apply else _OPTIONS
    if kind is not None:
        yes.append(("allow-kind", f"Always this kind: {inline(kind.told)}", "allow_always"))
    shown = without_secrets(question, hidden)
    lines = card(shown, now=shown.asked_at, width=_WIDTH)
    redacted = hides_operand(question, shown)
    whole = not redacted and not hides_danger(shown, width=_WIDTH)
    diff = diff_content(text_of(shown), shown.command.cwd) if apply and whole else []
    told = "\n".join(lines if whole else (*lines, "", elsewhere(shown, secret=redacted)))
    return {
        "sessionId": session_id,
        "toolCall": {
            "toolCallId": f"shelltie-{secret}",
            "title": brief(text_of(shown), _TITLE),
            "kind": "edit" if apply else "execute",
            "status": "pending",
            "content": [
                {"type": "content", "content": {"type": "text", "text": fenced(told)}},
                *diff,
            ],
        },
        "options": [
            {"optionId": option, "name": name, "kind": category}
            for option, name, category in (*yes, no)
            if option not in _ALLOWED or (whole and _ALLOWED[option] in scopes)
        ],
    }


def permission_answer(asked: dict[str, Any], result: object, by: str) -> Answer | None:
    """What was chosen; `None` if this is no answer: others may still be asked."""
    offered = {option["optionId"] for option in asked["options"]}
    match result:
        case {"outcome": {"outcome": "selected", "optionId": str(option)}}:
            if option in _ALLOWED and option not in offered:
                return None
            allowed = option in _ALLOWED
            return Answer(allowed=allowed, scope=_ALLOWED.get(option, Scope.ONCE), by=by)
        case {"outcome": {"outcome": "cancelled"}}:
            return Answer(allowed=False, by=by, reason="the turn was cancelled")
        case _:
            return None


def fenced(text: str) -> str:
    """As a block of Markdown that nothing in the text can end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}console\n{text}\n{fence}"
