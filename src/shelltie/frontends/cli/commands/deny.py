"""`shelltie deny`: a person refuses a pending command."""

from argparse import Namespace

from shelltie.approval.question import Answer
from shelltie.errors import NoSuchQuestion
from shelltie.frontends.cli.console import print_error
from shelltie.frontends.cli.find_question import NOT_DONE, answer, find


def main(args: Namespace) -> int:
    """Answer no, with the reason that whoever asked is told."""
    try:
        found = find(args.id)
    except NoSuchQuestion as error:
        print_error(str(error))
        return NOT_DONE
    taken = answer(found, Answer(allowed=False, reason=args.reason or ""))
    if isinstance(taken, int):
        return taken
    print(f"{found.question.id} refused.")
    return 0
