"""`shelltie approve`: a person allows a pending command after they have seen all of it."""

import sys
from argparse import Namespace

from shelltie.approval.always import shown_rule
from shelltie.approval.card import hides_danger
from shelltie.approval.kind_rules import shown_kind
from shelltie.approval.question import LATE_ANSWER_WINDOW, Answer, Question, Scope
from shelltie.basics import visible_text
from shelltie.basics.times import human_duration
from shelltie.errors import ConfigWrong, NoSuchQuestion
from shelltie.frontends.cli.console import Style, print_error, width
from shelltie.frontends.cli.find_question import (
    NOT_DONE,
    answer,
    at_terminal,
    chosen_scope,
    confirmed,
    find,
    show,
)

_HOW_FAR = {
    Scope.ONCE: "this once",
    Scope.SESSION: "whenever it comes again, until that server ends",
    Scope.ALWAYS: "for good",
    Scope.KIND: "and every other of its kind in this workspace",
}


def main(args: Namespace) -> int:
    """Show the question, and answer yes."""
    asked = {Scope.ALWAYS: args.always, Scope.SESSION: args.session, Scope.KIND: args.kind}
    scope = next((scope for scope, wanted in asked.items() if wanted), None)
    try:
        found = find(args.id)
        whole = not hides_danger(found.question, width=width())
        show(found, Style(sys.stdout, args.color), full=args.full or not whole)
        if scope in (Scope.ALWAYS, Scope.KIND):
            rule = _rule(found.question, scope).strip()
            print("  kept as", *visible_text.lines(rule, width() - 4), sep="\n    ")
    except (NoSuchQuestion, ConfigWrong) as error:
        print_error(str(error))
        return NOT_DONE
    scope = _confirmed(found.question, scope, yes=args.yes)
    if scope is None:
        print("Left as it was.")
        return NOT_DONE
    taken = answer(found, Answer(allowed=True, scope=scope))
    if isinstance(taken, int):
        return taken
    _tell(found.question, taken)
    return 0


def _rule(question: Question, scope: Scope) -> str:
    """What will be written.

    Raises: ConfigWrong.
    """
    if scope is Scope.ALWAYS:
        return shown_rule(question)
    if question.kind is None:
        raise ConfigWrong("this command has no kind that can be proved: use --always")
    return shown_kind(question.kind)


def _confirmed(question: Question, scope: Scope | None, *, yes: bool) -> Scope | None:
    """How far the yes goes, if it is one: the person is asked back at a terminal."""
    if yes or not at_terminal():
        return scope or Scope.ONCE
    if scope is None:
        return chosen_scope(question)
    return scope if confirmed(f"Allow exactly this, {_HOW_FAR[scope]}?") else None


def _tell(question: Question, taken: dict[str, object]) -> None:
    scope = Scope(str(taken["scope"]))
    if taken["late"] and scope is Scope.ONCE:
        within = human_duration(LATE_ANSWER_WINDOW)
        when = f"its caller has left: it runs when the same call comes within {within}"
    else:
        when = "its caller has left: repeat the call" if taken["late"] else "it starts now"
    print(f"{question.id} allowed, {_HOW_FAR[scope]}; {when}.")
    if taken["note"]:
        print_error(visible_text.inline(str(taken["note"])))
