"""Redaction of an approval question, so that a client's dialogue can show it without secrets."""

from collections.abc import Mapping
from dataclasses import replace

from shelltie.approval.card import judged_text
from shelltie.approval.question import Question
from shelltie.environment import child
from shelltie.model import Command
from shelltie.output.redact import Redactor
from shelltie.verdict import Span, Verdict

_MOVED_MAX = 50  # reasons; each costs a look at the whole text,
_SHORT = 1024  # which is quick only if it is short


def is_short(question: Question) -> bool:
    """Whether `without_secrets` takes no time; if it does, it belongs in a thread."""
    command = question.command
    texts = (command.text, *(command.argv or ()), *filter(None, command.env.values()))
    return sum(map(len, texts)) <= _SHORT and question.input is None


def without_secrets(question: Question, secrets: Mapping[str, str]) -> Question:
    """The same question, with marks in place of secrets."""
    command, given = question.command, question.input
    values = {name: value for name, value in command.env.items() if value is not None}
    redactor = Redactor({**secrets, **child.sift(values).secrets})
    if given is not None:
        head = redactor.audit(given.head.decode("utf-8", "surrogateescape"))
        given = replace(given, head=head.encode("utf-8", "surrogateescape"))
    shown = replace(
        question,
        command=_redacted(command, redactor.audit(command.text), redactor),
        input=given,
    )
    return replace(shown, verdict=_about(question, shown, redactor))


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


def _about(question: Question, shown: Question, redactor: Redactor) -> Verdict:
    """Its reasons, at their places in what is shown."""
    text, by_now = judged_text(question), judged_text(shown)
    reasons = question.verdict.reasons
    costly = text != by_now and (len(reasons) > _MOVED_MAX or len(text) > _SHORT)
    whole = Span(0, len(by_now))
    return replace(
        question.verdict,
        reasons=tuple(
            replace(
                reason,
                message=redactor.audit(reason.message),
                span=whole if costly else _moved(reason.span, text, by_now, redactor),
            )
            for reason in reasons
        ),
    )


def _moved(span: Span, text: str, shown: str, redactor: Redactor) -> Span:
    """The same place; all of the text where a secret hides which one that is."""
    if text == shown:
        return span
    before = [redactor.audit(text[:at]) for at in (span.start, span.end)]
    if not all(map(shown.startswith, before)):
        return Span(0, len(shown))
    return Span(len(before[0]), len(before[1]))
