"""Finds a pending approval question in all running servers, shows it, and answers it."""

import difflib
import sys
import time
from typing import Any, cast

from shelltie.approval.always import KEYS, keys_line, offered_scopes
from shelltie.approval.card import card_lines
from shelltie.approval.question import Answer, Pending, Question, Scope
from shelltie.basics.frozen import frozen
from shelltie.basics.ids import as_short_id
from shelltie.basics.visible_text import inline
from shelltie.environment.inherited import inherited
from shelltie.errors import NoServerAnswer, NoSuchQuestion
from shelltie.frontends.cli.console import Style, print_error, width
from shelltie.frontends.control import client
from shelltie.frontends.control.client import Server
from shelltie.frontends.control.question_row import from_json, to_json

NOT_DONE, REFUSED = 1, 126
_REPLIES = {"INVALID_PARAMETERS": NOT_DONE, "REFUSED": REFUSED}


@frozen
class FoundQuestion:
    """A question, and the server in which it waits."""

    server: Server
    pending: Pending

    @property
    def question(self) -> Question:
        """What is asked."""
        return self.pending.question


def everything(*, watch: bool = False) -> tuple[list[Server], list[FoundQuestion], list[str]]:
    """Every server, every question in them, and what else they have to say.

    Who says to `watch` looks again soon, so that servers wait for an answer.
    """
    servers = client.servers(inherited())
    found: list[FoundQuestion] = []
    told: list[str] = []
    for server in servers:
        try:
            said = client.ask(server.path, "pending", watch=watch)
            found += _questions(server, said)
        except NoServerAnswer as error:
            told.append(inline(str(error)))
            continue
        if said.get("problem"):
            told.append(inline(str(said["problem"])))
    return servers, found, list(dict.fromkeys(told))


def find(name: str) -> FoundQuestion:
    """The one question with this id.

    Raises: NoSuchQuestion.
    """
    wanted = as_short_id(name)
    found: list[FoundQuestion] = []
    for server in client.servers(inherited()):
        try:
            found += _questions(server, client.ask(server.path, "pending", id=wanted))
        except NoServerAnswer:
            continue
    if len(found) > 1:
        pids = ", ".join(str(one.server.pid) for one in found)
        raise NoSuchQuestion(
            f"{wanted} waits in several servers ({pids}): deny it there, ask again"
        )
    if not found:
        raise NoSuchQuestion(_unknown(wanted))
    return found[0]


def _unknown(wanted: str) -> str:
    servers, found, _ = everything()
    known = [one.question.id for one in found]
    if not servers:
        return f"nothing pending with ID {wanted}: no shelltie server runs here"
    close = difflib.get_close_matches(wanted, known, 1, cutoff=0.5)
    advice = f"did you mean {close[0]}? " if close else ""
    waiting = f"waiting: {', '.join(known)}" if known else "nothing waits for an answer"
    return f"nothing pending with ID {wanted}; {advice}{waiting}"


def _questions(server: Server, said: dict[str, object]) -> list[FoundQuestion]:
    try:
        return [FoundQuestion(server, from_json(one)) for one in cast(list[Any], said["questions"])]
    except (KeyError, TypeError, ValueError) as error:
        raise NoServerAnswer(
            f"the server at {server.path} says what we do not understand"
        ) from error


def as_json(found: FoundQuestion) -> dict[str, object]:
    """The question with its server, for programs."""
    return {**to_json(found.pending), "server": found.server.pid}


def show(found: FoundQuestion, ink: Style, *, full: bool) -> None:
    """Print all there is to know about a question."""
    print(styled(found.question, ink, full=full))
    if found.pending.late:
        print("  the caller no longer waits; a yes allows it to repeat the call within 10 minutes")


def styled(question: Question, ink: Style, *, full: bool) -> str:
    """The card of a question, as it looks at a terminal."""
    lines = card_lines(question, now=time.time(), width=width(), full=full)
    return "\n".join(ink(line.style, line.text) if line.style else line.text for line in lines)


def answer(found: FoundQuestion, said: Answer) -> dict[str, object] | int:
    """Give the answer; what the server made of it, or the exit code when it did not take it."""
    question = found.question
    try:
        return client.ask(
            found.server.path,
            "answer",
            id=question.id,
            digest=question.digest,
            allowed=said.allowed,
            scope=said.scope,
            reason=said.reason,
        )
    except NoServerAnswer as error:
        print_error(inline(str(error)))
        return _REPLIES.get(error.reply, 125)


def at_terminal() -> bool:
    """Whether a person can be asked back."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def confirmed(prompt: str) -> bool:
    """Whether the person at the terminal says yes; without one, the command itself is the yes."""
    if not at_terminal():
        return True
    print(f"{prompt} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def chosen_scope(question: Question) -> Scope | None:
    """How far the yes of the person at the terminal goes; `None` is no."""
    scopes = offered_scopes(question)
    print(f"{keys_line(scopes)}: ", end="", flush=True)
    scope = scope_of(sys.stdin.readline())
    return scope if scope in scopes else None


def scope_of(line: str) -> Scope | None:
    """The scope that a typed answer means: `y`, `yes` and `YES` are once; `yep` is no."""
    word = line.strip().lower()
    return KEYS.get(word[:1]) if word in (*KEYS, "yes", "session", "always") else None
