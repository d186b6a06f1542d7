"""Notification of a person that a command waits for their yes, or was ended. Pure.

It names the program and the kind of danger, as our rules call them, and nothing of the command's
own text: that may hold a secret, and a desktop shows it to whoever looks.
"""

import json
from pathlib import PurePosixPath

from shelltie.approval.card import main_reason
from shelltie.approval.question import Question
from shelltie.basics.visible_text import brief
from shelltie.events import Leaked, LimitReached
from shelltie.verdict import foremost

_TITLE = "shelltie: a command waits for your yes"
_NAME_MAX = 40


def notice_argv(question: Question) -> tuple[str, ...]:
    """The words of `notify-send`. Its body may be read as markup."""
    body = f"{_waiting(question)}\nshelltie approve {question.id}"
    return "notify-send", "--app-name=shelltie", "--", _TITLE, _escaped(body)


def _waiting(question: Question) -> str:
    asker = brief(question.client.partition(" ")[0], _NAME_MAX) or "An agent"
    place = brief(PurePosixPath(question.command.cwd).name or "/", _NAME_MAX)
    kind = main_reason(question).replace("_", " ")
    what = " ".join(filter(None, (_program(question), f"({kind})" if kind else "")))
    return f"{asker}, in {place}: {what}"


def end_notice_argv(event: LimitReached | Leaked) -> tuple[str, ...]:
    """The same for a command that a limit ended, or of which something is left."""
    title, message = _ended(event)
    body = f"{message}\nshelltie history show {event.run}"
    return "notify-send", "--app-name=shelltie", "--", title, _escaped(body)


def end_notice_json(event: LimitReached | Leaked) -> bytes:
    """What `notify.command` reads of it."""
    kind = "leaked" if isinstance(event, Leaked) else "killed"
    told = {"event": kind, "runId": event.run, "message": _ended(event)[1]}
    return json.dumps({**told, "show": f"shelltie history show {event.run}"}).encode("ascii")


def _escaped(body: str) -> str:
    # Not `html.escape`: with it come two thousand names of characters.
    return body.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _ended(event: LimitReached | Leaked) -> tuple[str, str]:
    if isinstance(event, Leaked):
        pids = ", ".join(map(str, event.pids)) or "some"
        return "shelltie: a command could not be ended", f"left: processes {pids}"
    return "shelltie: a limit ended a command", event.message


def notice_json(question: Question) -> bytes:
    """What `notify.command` reads."""
    return json.dumps(
        {
            "event": "waiting",
            "message": _waiting(question),
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
