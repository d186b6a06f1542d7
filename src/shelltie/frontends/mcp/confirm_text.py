"""Text of an elicitation: an approval question, sanitized and without secrets."""

import time
from collections.abc import Mapping

import anyio.to_thread

from shelltie.approval.card import card, elsewhere, hides_danger
from shelltie.approval.question import Question
from shelltie.basics.frozen import frozen
from shelltie.frontends.reports.hidden_operands import hides_operand
from shelltie.frontends.reports.question import is_short, without_secrets

_ADVICE = "Allow it only if you want exactly this to run."
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
    advice = _ADVICE if whole else elsewhere(shown, secret=secret)
    lines = [(_MARGIN + line).rstrip() for line in card(shown, now=now)]
    text = "\n".join(("An agent wants to run this command:", "", *lines, "", advice))
    return ConfirmationText(text, whole)
