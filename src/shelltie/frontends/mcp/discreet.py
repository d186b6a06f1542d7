"""A question as a client's dialogue may show it: nothing hidden, nothing forged, no secrets."""

from collections.abc import Mapping
from dataclasses import replace

from shelltie.approval.card import card
from shelltie.approval.question import Question
from shelltie.model import Command, Reason, Span
from shelltie.output.redact import Redactor
from shelltie.policy import environment

_ADVICE = "Allow it only if you want exactly this to run, once."
# In Markdown this is a block of code, in which a command's own Markdown means nothing.
_MARGIN = " " * 4


def message(question: Question, secrets: Mapping[str, str], now: float) -> str:
    """What a person reads before they say yes. `secrets` are values never to repeat."""
    question = without_secrets(question, secrets)
    lines = [(_MARGIN + line).rstrip() for line in card(question, now=now)]
    return "\n".join(("An agent wants to run this command:", "", *lines, "", _ADVICE))


def without_secrets(question: Question, secrets: Mapping[str, str]) -> Question:
    """The same question, with marks in place of secrets."""
    command = question.command
    given = {name: value for name, value in command.env.items() if value is not None}
    redactor = Redactor({**secrets, **environment.sift(given).secrets})
    text = redactor.audit(command.text)
    return replace(
        question,
        command=_redacted(command, text, redactor),
        verdict=replace(
            question.verdict,
            reasons=tuple(
                _about(reason, redactor, None if text == command.text else text)
                for reason in question.verdict.reasons
            ),
        ),
        input=question.input
        and replace(question.input, head=_redacted_bytes(question.input.head, redactor)),
    )


def _redacted(command: Command, text: str, redactor: Redactor) -> Command:
    argv = command.argv
    return replace(
        command,
        text=text,
        argv=None if argv is None else tuple(map(redactor.audit, argv)),
        cwd=redactor.text(command.cwd),
        env={
            name: None if value is None else redactor.audit(f"{name}={value}")[len(name) + 1 :]
            for name, value in command.env.items()
        },
    )


def _redacted_bytes(head: bytes, redactor: Redactor) -> bytes:
    text = redactor.audit(head.decode("utf-8", "surrogateescape"))
    return text.encode("utf-8", "surrogateescape")


def _about(reason: Reason, redactor: Redactor, changed: str | None) -> Reason:
    """Where the text has changed, nobody knows any more which part of it a reason is about."""
    span = reason.span if changed is None else Span(0, len(changed))
    return replace(reason, message=redactor.audit(reason.message), span=span)
