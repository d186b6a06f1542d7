"""Notification of a person that a command waits for their yes. Pure.

It names the program and the kind of danger, as our rules call them, and nothing of the command's
own text: that may hold a secret, and a desktop shows it to whoever looks.
"""

import json
from html import escape
from pathlib import PurePosixPath

from shelltie.approval.card import main_reason
from shelltie.approval.question import Question
from shelltie.basics.visible_text import brief
from shelltie.verdict import foremost

_TITLE = "shelltie: a command waits for your yes"
_NAME_MAX = 40


def notice_argv(question: Question) -> tuple[str, ...]:
    """The words of `notify-send`. Its body may be read as markup."""
    asker = brief(question.client.partition(" ")[0], _NAME_MAX) or "An agent"
    place = brief(PurePosixPath(question.command.cwd).name or "/", _NAME_MAX)
    kind = main_reason(question).replace("_", " ")
    what = " ".join(filter(None, (_program(question), f"({kind})" if kind else "")))
    body = f"{asker}, in {place}: {what}\nshelltie approve {question.id}"
    return "notify-send", "--app-name=shelltie", "--", _TITLE, escape(body, quote=False)


def notice_json(question: Question) -> bytes:
    """What `notify.command` reads."""
    return json.dumps(
        {
            "id": question.id,
            "client": question.client,
            "rating": question.verdict.rating,
            "program": _program(question),
            "codes": sorted({str(reason.code) for reason in question.verdict.reasons}),
            "cwd": question.command.cwd,
            "approve": f"shelltie approve {question.id}",
        }
    ).encode("ascii")


def _program(question: Question) -> str:
    """The program that the worst reason is about, by the name in our rules."""
    return next((one.program for one in foremost(question.verdict.reasons, 1)), "")
