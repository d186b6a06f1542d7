"""`shelltie pending`: approval questions that are open in every running server."""

import json
import sys
import time
from argparse import Namespace
from typing import NoReturn

import anyio

from shelltie.approval.card import main_reason, text_of
from shelltie.basics import visible_text
from shelltie.basics.times import human_duration
from shelltie.errors import NoSuchQuestion
from shelltie.frontends.cli.find_question import NOT_DONE, FoundQuestion, everything, find, show
from shelltie.frontends.cli.terminal import Style, print_error, print_json, table, width
from shelltie.frontends.control.questions import to_json

_EVERY = 0.5
_HEAD = ("ID", "RATING", "WHY", "AGE", "ASKED BY", "COMMAND")


def main(args: Namespace) -> int:
    """Print one, all, or each as it comes."""
    if args.watch:
        anyio.run(_watch, args)
    if args.id is not None:
        return _one(args)
    servers, found, told = everything()
    for problem in told:
        print_error(problem)
    if args.json:
        print_json([_as_json(one) for one in found])
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
        print_json(_as_json(found))
    else:
        show(found, Style(sys.stdout, args.color), full=args.full)
    return 0


def _as_json(found: FoundQuestion) -> dict[str, object]:
    return {**to_json(found.pending), "server": found.server.pid}


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
    asker = visible_text.brief(question.client or "-", 10)
    late = " (late)" if found.pending.late else ""
    rating = f"{question.verdict.rating}{late}"
    return question.id, rating, main_reason(question), age, asker, text_of(question)


async def _watch(args: Namespace) -> NoReturn:
    """Until interrupted. Servers come and go, and only polling finds them."""
    known: set[tuple[int, str]] = set()
    ink = Style(sys.stdout, args.color)
    while True:
        for one in everything(watch=True)[1]:
            if (one.server.pid, one.question.id) in known:
                continue
            known.add((one.server.pid, one.question.id))
            if args.json:
                print(json.dumps(_as_json(one)), flush=True)
            else:
                show(one, ink, full=args.full)
                print(flush=True)
        await anyio.sleep(_EVERY)
