"""MCP elicitation: asks the client's person during the call, or by having the call repeated.

A client of the 2026 protocol cannot be asked while it waits. Its call returns at once with the
question and a token; it asks its person, and repeats the call with the token and the answer. A
token cannot be guessed, works once, and only for the same call of the same client.
"""

import hashlib
import json
import secrets as chance
import time
from collections.abc import Callable, Mapping
from typing import Any

import anyio.to_thread
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from shelltie.approval.always import offered_scopes
from shelltie.approval.broker import LATER, OPEN_MAX, Later
from shelltie.approval.card import card, elsewhere, hides_danger
from shelltie.approval.question import LATE_ANSWER_WINDOW, Answer, Question, Scope
from shelltie.basics import visible_text
from shelltie.basics.frozen import frozen
from shelltie.errors import ConfirmationRequired
from shelltie.frontends.mcp.request import RequestContext
from shelltie.frontends.reports.hidden_operands import hides_operand
from shelltie.frontends.reports.question_report import is_short, without_secrets

_KEY, _SCOPE = "allow", "scope"
_SCOPES = {
    Scope.ONCE: "once",
    Scope.SESSION: "this session (until shelltie ends)",
    Scope.ALWAYS: "always, exactly this command in this directory",
}
_NAME_ROOM = 60
_BAD_STATE = (
    "Invalid or expired requestState: it works once, for the same call, and for "
    f"{LATE_ANSWER_WINDOW / 60:.0f} minutes. Repeat the call without it to be asked again"
)

CallOutcome = CallToolResult | InputRequiredResult


@frozen
class _OpenQuestion:
    """What a token stands for."""

    call: str
    question: str
    until: float


class Dialogue:
    """A way to whoever sits at a client that can be asked during the call."""

    def __init__(self, context: RequestContext, name: str, secrets: Mapping[str, str]) -> None:
        self.name = name
        self.can_ask = _has_forms(context) and context.session.can_send_request
        self._context = context
        self._secrets = secrets

    async def ask(self, question: Question) -> Answer | None:
        """See `Channel`."""
        message = await message_for(question, self._secrets)
        session, call = self._context.session, self._context.request_id
        said = await session.elicit_form(message.text, form_of(question), call)
        return answer_of(said, self.name, whole=message.whole)

    def instead_of(self, result: CallToolResult) -> CallOutcome:
        """What the call returns."""
        return result


class Round:
    """A way to whoever sits at a client that repeats its call with the answer."""

    def __init__(
        self,
        context: RequestContext,
        name: str,
        secrets: Mapping[str, str],
        keep: Callable[[Question], str],
        answered: tuple[str, ElicitResult] | None,
    ) -> None:
        self.name = name
        self.can_ask = _has_forms(context)
        self._secrets = secrets
        self._keep = keep
        self._answered = answered
        self._wanted: tuple[Question, str] | None = None

    async def ask(self, question: Question) -> Answer | Later | None:
        """See `Channel`."""
        message = await message_for(question, self._secrets)
        if self._answered is not None and self._answered[0] == question.digest:
            return answer_of(self._answered[1], self.name, whole=message.whole)
        self._wanted = question, message.text
        return LATER

    def instead_of(self, result: CallToolResult) -> CallOutcome:
        """What the call returns: the question, unless somebody else was faster to answer it."""
        if self._wanted is None or _unanswered(result) != self._wanted[0].id:
            return result
        question, text = self._wanted
        form = ElicitRequestFormParams(message=text, requested_schema=form_of(question))
        return InputRequiredResult(
            input_requests={_KEY: ElicitRequest(params=form)}, request_state=self._keep(question)
        )


class Confirmations:
    """Everything that clients of one server were asked and have not answered.

    `secrets` are values that no question repeats. Without `ask`, clients are asked nothing.
    """

    def __init__(
        self,
        secrets: Mapping[str, str],
        *,
        ask: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._secrets = secrets
        self._ask = ask
        self._clock = clock
        self._asked: dict[str, _OpenQuestion] = {}

    def channel(
        self, context: RequestContext, params: CallToolRequestParams, client: str, owner: str
    ) -> Dialogue | Round:
        """How the client of this call can be asked.

        Raises: MCPError if it brings a token that is not, or no longer, for this call.
        """
        name = visible_text.brief(client, _NAME_ROOM) or "the client"
        made = self._channel(context, params, name, owner)
        made.can_ask = made.can_ask and self._ask
        return made

    def _channel(
        self, context: RequestContext, params: CallToolRequestParams, name: str, owner: str
    ) -> Dialogue | Round:
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return Dialogue(context, name, self._secrets)

        def keep(question: Question) -> str:
            call = _fingerprint(params, owner)
            return self._keep(
                _OpenQuestion(call, question.digest, self._clock() + LATE_ANSWER_WINDOW)
            )

        return Round(context, name, self._secrets, keep, self._answered(params, owner))

    def _answered(
        self, params: CallToolRequestParams, owner: str
    ) -> tuple[str, ElicitResult] | None:
        """What was asked, and the answer that a repeated call brings. Uses its token up."""
        if params.request_state is None:
            return None
        asked = self._asked.get(params.request_state)
        late = asked is not None and asked.until <= self._clock()
        if asked is None or late or asked.call != _fingerprint(params, owner):
            raise MCPError(INVALID_PARAMS, _BAD_STATE, {"reason": "invalid_request_state"})
        del self._asked[params.request_state]
        said = (params.input_responses or {}).get(_KEY)
        return (asked.question, said) if isinstance(said, ElicitResult) else None

    def _keep(self, asked: _OpenQuestion) -> str:
        for old in list(self._asked)[: max(0, len(self._asked) - OPEN_MAX + 1)]:
            del self._asked[old]
        token = chance.token_urlsafe(32)
        self._asked[token] = asked
        return token


def answer_of(said: ElicitResult, name: str, *, whole: bool = True) -> Answer | None:
    """Yes only if it is said in so many words: some clients accept whatever they are asked.

    A dialogue that was closed, or that a client without a person closed itself, says nothing; nor
    does a yes to what was not shown as a `whole`.
    """
    if said.action == "cancel":
        return None
    content = said.content or {}
    allowed = said.action == "accept" and content.get(_KEY) is True
    if allowed and not whole:
        return None
    scope = content.get(_SCOPE)
    return Answer(
        allowed=allowed,
        scope=Scope(str(scope)) if allowed and scope in {*Scope} else Scope.ONCE,
        by=name,
        unclear=said.action == "accept" and not isinstance(content.get(_KEY), bool),
    )


def form_of(question: Question) -> dict[str, Any]:
    """The fields of a dialogue. Only a yes is required: what is left out of the rest is once."""
    scopes = offered_scopes(question)
    title = "Apply these changes" if question.is_apply else "Allow this command"
    yes = "applies exactly these changes" if question.is_apply else "lets exactly this command run"
    return {
        "type": "object",
        "properties": {
            _KEY: {
                "type": "boolean",
                "title": title,
                "description": f"Yes {yes}. Anything else is no.",
                "default": False,
            },
            _SCOPE: {
                "type": "string",
                "title": "How long the yes holds",
                "enum": [str(scope) for scope in scopes],
                "enumNames": [_scope_name(scope, question) for scope in scopes],
                "default": str(Scope.ONCE),
            },
        },
        "required": [_KEY],
    }


def _scope_name(scope: Scope, question: Question) -> str:
    if question.kind is not None and scope is Scope.KIND:
        return f"always this kind: {visible_text.inline(question.kind.told)}"
    return _SCOPES[scope]


def _unanswered(result: CallToolResult) -> object:
    """The question for want of whose answer a command was not run."""
    match result.structured_content:
        case {"errorCode": ConfirmationRequired.code, "details": {"question": question}}:
            return question
        case _:
            return None


def _has_forms(context: RequestContext) -> bool:
    """It declares forms, or, as was usual before there was anything else, just elicitation."""
    capabilities = context.session.client_capabilities
    asking = None if capabilities is None else capabilities.elicitation
    return asking is not None and (asking.form is not None or asking.url is None)


def _fingerprint(params: CallToolRequestParams, owner: str) -> str:
    bound = json.dumps([owner, params.name, params.arguments or {}], sort_keys=True)
    return hashlib.sha256(bound.encode("ascii")).hexdigest()


_WISHES = {False: "run this command", True: "apply these changes of a command that ran on trial"}
_ADVICE = {
    False: "Allow it only if you want exactly this to run.",
    True: "Allow it only if you want exactly these changes. `shelltie undo` takes them back.",
}
# In Markdown this is a block of code, in which a command's own Markdown means nothing.
_MARGIN = " " * 4


@frozen
class ConfirmationText:
    """What a person reads before they say yes; whether all that is dangerous is in it."""

    text: str
    whole: bool


async def message_for(question: Question, secrets: Mapping[str, str]) -> ConfirmationText:
    """What a person reads before they say yes. `secrets` are values never to repeat."""
    now = time.time()
    if is_short(question):
        return message(question, secrets, now)
    return await anyio.to_thread.run_sync(message, question, secrets, now, abandon_on_cancel=True)


def message(question: Question, secrets: Mapping[str, str], now: float) -> ConfirmationText:
    """The same, however long it takes."""
    shown = without_secrets(question, secrets)
    secret = hides_operand(question, shown)
    whole = not secret and not hides_danger(shown)
    wish = _WISHES[question.is_apply]
    advice = _ADVICE[question.is_apply] if whole else elsewhere(shown, secret=secret)
    lines = [(_MARGIN + line).rstrip() for line in card(shown, now=now)]
    text = "\n".join((f"An agent wants to {wish}:", "", *lines, "", advice))
    return ConfirmationText(text, whole)
