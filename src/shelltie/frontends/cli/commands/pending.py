"""`shelltie pending`: approval questions that are open in every running server."""

import sys
import time
from argparse import Namespace
from pathlib import Path

import anyio

from shelltie.approval.always import offered_scopes
from shelltie.approval.card import main_reason, text_of
from shelltie.approval.question import Question, Scope
from shelltie.basics import visible_text
from shelltie.basics.times import human_duration
from shelltie.errors import NoSuchQuestion
from shelltie.frontends.cli.console import Style, print_error, print_json, table, width
from shelltie.frontends.cli.find_question import (
    NOT_DONE,
    FoundQuestion,
    as_json,
    everything,
    find,
    show,
)
from shelltie.frontends.cli.watch_pending import PendingWatch
from shelltie.settings.layers import load

_HEAD = ("ID", "RATING", "WHY", "AGE", "ASKED BY", "COMMAND")


def main(args: Namespace) -> int:
    """Print one, all, or each as it comes."""
    if args.watch:
        return anyio.run(PendingWatch(args, load(Path.cwd())).run)
    if args.id is not None:
        return _one(args)
    servers, found, told = everything()
    for problem in told:
        print_error(problem)
    if args.json:
        print_json([as_json(one) for one in found])
    elif found:
        _list(found)
    else:
        count = f"{len(servers)} server{'s' * (len(servers) != 1)}" if servers else "no server"
        print(f"Nothing waits for an answer; {count} running.")
    return 0


def _one(args: Namespace) -> int:
    try:
        found = find(args.id)
    except NoSuchQuestion as error:
        print_error(str(error))
        return NOT_DONE
    if args.json:
        print_json(as_json(found))
    else:
        show(found, Style(sys.stdout, args.color), full=args.full)
        print(f"\n{how_to_answer(found.question)}", file=sys.stderr)
    return 0


def how_to_answer(question: Question) -> str:
    """The commands that answer it, with the flags for every scope that it offers."""
    scopes = [scope for scope in offered_scopes(question) if scope is not Scope.ONCE]
    flags = " | ".join(f"--{scope}" for scope in scopes)
    return f"shelltie approve {question.id} [{flags}], or shelltie deny {question.id}."


def _list(found: list[FoundQuestion]) -> None:
    rows = [_HEAD, *(_row(one) for one in found)]
    taken = sum(
        max(visible_text.cells(cell) for cell in column) + 2
        for column in list(zip(*rows, strict=True))[:-1]
    )
    room = max(width() - taken, 12)
    table([_HEAD, *((*row[:-1], visible_text.brief(row[-1], room)) for row in rows[1:])])
    print("\nshelltie pending ID shows all of it; then approve ID or deny ID.", file=sys.stderr)


def _row(found: FoundQuestion) -> tuple[str, ...]:
    question = found.question
    age = human_duration(max(0.0, time.time() - question.asked_at)).split()[0]
    asker = visible_text.brief(question.client.partition(" ")[0] or "-", 16)
    late = " (if repeated)" if found.pending.late else ""
    rating = f"{question.verdict.rating}{late}"
    return question.id, rating, main_reason(question), age, asker, text_of(question)
