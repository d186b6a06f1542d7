"""What may stand on the command line behind `audit` and `monitor`."""

import argparse
from collections.abc import Callable
from typing import Any, TypeVar

from shelltie.record.chain import Head, head_of

_VERIFY = """\
The chain shows whatever was changed, removed or put in another order. That its
end was cut off, or all of it written anew, shows only if you have kept a head:
verify prints it; give it back later with --head, or set audit.anchor.

exit codes: 0 it is as it was written; 1 it is not; 125 it cannot be read"""

C = TypeVar("C")
Plain = Callable[[C, str, str], argparse.ArgumentParser]


def add_record(commands: C, plain: Plain[Any]) -> None:
    """Add the commands, each made by `plain` from its name and what it does."""
    audit = plain(commands, "audit", "read the journal, and prove that nobody changed it")
    actions = audit.add_subparsers(dest="action", metavar="ACTION", required=True)
    verify = plain(actions, "verify", "look at every entry of the chain")
    verify.epilog = _VERIFY
    verify.add_argument(
        "--head", type=_head, action="append", metavar="SEQ:HASH", help="a head that was kept"
    )
    verify.add_argument("--json", action="store_true", help="print JSON")
    tail = plain(actions, "tail", "print the last entries")
    tail.add_argument("-n", type=_count, default=20, metavar="N", help="how many (20)")
    tail.add_argument("--json", action="store_true", help="print JSON, an object a line")
    export = plain(actions, "export", "print all entries for programs")
    export.add_argument("--jsonl", action="store_true", help="an object a line, as always")
    export.add_argument(
        "--after", type=_count, default=0, metavar="SEQ", help="only those after this one"
    )
    monitor = plain(commands, "monitor", "print what happens in every server of yours, live")
    monitor.add_argument("--json", action="store_true", help="print JSON, an object a line")


def _head(text: str) -> Head:
    try:
        return head_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 15:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of entries")
    return int(text)
