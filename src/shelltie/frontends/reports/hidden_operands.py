"""Redaction check: whether a mark on an approval card hides what a dangerous command acts on."""

import re

from shelltie.approval.card import judged_text
from shelltie.approval.question import Question
from shelltie.basics.lazy_regex import lazy
from shelltie.verdict import Code, Rating, Reason

_MARK = lazy(r"\[REDACTED:[^\]\n]*\]")
_ASSIGNED = lazy(r"(?<![\w?&/.-])(?P<name>[A-Za-z_]\w*)\+?=[\"']?\[REDACTED:")
_REQUESTS = frozenset({Code.NETWORK, Code.NETWORK_EXFIL})
# A header in quotes, a password or a parameter in an address: where a request goes is still seen.
_BEFORE_SENT = lazy(
    r"(?:[\"'][\w-]{1,60}: ?(?:\w{1,20} )?|://[^\s/:@\"']{0,60}:"
    r"|://[^\s\"'/?&]{1,100}[/?][^\s\"']{0,100}[?&]?[\w-]{1,60}=)\Z"
)
_NEAR = 400
_FROM_ELSEWHERE = lazy(r"[$`|<]")
# Nothing that quotes, expands, reads or passes on: then `NAME=` before a program is for it alone.
_PLAIN = lazy(r"[^$`|<>\"'\\]*\Z")
_FOR_A_PROGRAM = lazy(r"(?:\A|[;&\n])[ \t]*(?:[A-Za-z_]\w*=\S*[ \t]+)*[A-Za-z_]\w*=\Z")


def hides_operand(question: Question, shown: Question) -> bool:
    """Whether what is `shown` of a question keeps back a value that the command uses itself.

    Then nobody who sees no more may say yes. A secret that is only passed on to a program or sent
    along with a request may be hidden: a yes means the same without it.
    """
    text = judged_text(shown)
    if _uses_hidden_variable(question, shown, text):
        return True
    dangers = [it for it in question.verdict.reasons if it.rating is Rating.DANGEROUS]
    if dangers and shown.command.cwd != question.command.cwd:
        return True
    if text == judged_text(question):
        return False
    hidden = [mark.start() for mark in _MARK.finditer(text) if not _is_passed_on(text, mark)]
    targets = [at for at in hidden if not _BEFORE_SENT.search(text[max(0, at - _NEAR) : at])]
    return any(
        # The place of what is sent leaves out where it goes.
        bool(targets) if it.code in _REQUESTS else _covers(it, hidden, text)
        for it in shown.verdict.reasons
        if it.rating is Rating.DANGEROUS
    )


def _uses_hidden_variable(question: Question, shown: Question, text: str) -> bool:
    """A hidden variable's name stands a second time in the text: expanded, or asked for."""
    asked, env = judged_text(question), shown.env
    names = {match["name"] for match in _ASSIGNED.finditer(text)} if text != asked else set[str]()
    if any(_mentions(asked, name) > 1 for name in names):
        return True
    return any(_mentions(asked, name) for name in env if env[name] != question.env[name])


def _mentions(text: str, name: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", text))


def _is_passed_on(text: str, mark: re.Match[str]) -> bool:
    """`NAME=secret program`, in a text in which nothing else can get at the value."""
    before = text[: mark.start()]
    return bool(_PLAIN.match(text) and _FOR_A_PROGRAM.search(before))


def _covers(reason: Reason, hidden: list[int], text: str) -> bool:
    start, end = reason.span.start, reason.span.end
    if _FROM_ELSEWHERE.search(text, start, end):  # its operands may stand anywhere
        return bool(hidden)
    return any(start <= at < end for at in hidden)
