"""`shelltie pending --watch`: each approval question as it comes, answered with a single key."""

import json
import os
import sys
import termios
import tty
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import anyio

from shelltie.approval.always import KEYS, keys_line, offered_scopes
from shelltie.approval.card import hides_danger
from shelltie.approval.question import Answer, Scope
from shelltie.frontends.cli.console import Style, print_error, width
from shelltie.frontends.cli.find_question import (
    FoundQuestion,
    answer,
    as_json,
    at_terminal,
    everything,
    show,
)
from shelltie.settings.config import Config

_EVERY = 0.5
_BELL = "\a"


class PendingWatch:
    """What waits in every server, until it is interrupted or told to quit."""

    def __init__(self, args: Namespace, config: Config) -> None:
        self._json, self._full = args.json, args.full
        self._ink = Style(sys.stdout, args.color)
        self._bell = _BELL if config.notify.waiting else ""
        self._known: set[tuple[int, str]] = set()
        self._open: list[FoundQuestion] = []  # the first of them is shown with its keys

    async def run(self) -> int:
        """Print and answer; the exit code. Servers come and go, and only polling finds them."""
        answers = at_terminal() and not self._json
        if answers:
            print("Watching. Questions appear here; q quits.", flush=True)
        with _single_keys(sys.stdin.fileno()) if answers else nullcontext():
            while True:
                self._look()
                key = ""
                if answers:
                    key = await _key(sys.stdin.fileno())
                else:
                    await anyio.sleep(_EVERY)
                if key == "q":
                    return 0
                if key and self._open:
                    self._press(key, self._open[0])

    def _look(self) -> None:
        """Show what has come, and say what somebody else has settled."""
        found = {_name(one): one for one in everything(watch=True)[1]}
        first = self._open[0] if self._open else None
        self._open = [one for one in self._open if _name(one) in found]
        if first is not None and first not in self._open:
            print(f"\n{first.question.id} has been settled elsewhere.\n", flush=True)
        for name, one in found.items():
            if name not in self._known:
                self._known.add(name)
                self._open.append(one)
                if self._json or not at_terminal():
                    self._print(one)
        if self._open and self._open[0] is not first and at_terminal() and not self._json:
            self._ask(self._open[0])

    def _print(self, found: FoundQuestion) -> None:
        if self._json:
            print(json.dumps(as_json(found)), flush=True)
        else:
            show(found, self._ink, full=self._full)
            print(flush=True)

    def _ask(self, found: FoundQuestion) -> None:
        question = found.question
        whole = not hides_danger(question, width=width())
        print(self._bell)
        show(found, self._ink, full=self._full or not whole)
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)  # typed before it was seen
        more = f"  ({len(self._open) - 1} more wait)" if len(self._open) > 1 else ""
        print(f"  {keys_line(offered_scopes(question))}  [f] full{more} ", end="", flush=True)

    def _press(self, key: str, found: FoundQuestion) -> None:
        scope = KEYS.get(key)
        if key == "f":
            print(key)
            show(found, self._ink, full=True)
            print(f"  {keys_line(offered_scopes(found.question))} ", end="", flush=True)
        elif key == "n" or scope in offered_scopes(found.question):
            print(key)
            said = Answer(allowed=scope is not None, scope=scope or Scope.ONCE)
            self._open.remove(found)
            taken = answer(found, said)
            if not isinstance(taken, int):
                self._tell(found, taken)
            if self._open:
                self._ask(self._open[0])

    def _tell(self, found: FoundQuestion, taken: dict[str, object]) -> None:
        said = f"allowed, {taken['scope']}" if taken["allowed"] else "refused"
        later = "; the agent may repeat its call now" if taken["late"] and taken["allowed"] else ""
        print(f"  {found.question.id} {said}{later}.\n", flush=True)
        if taken["note"]:
            print_error(str(taken["note"]))


def _name(found: FoundQuestion) -> tuple[int, str]:
    return found.server.pid, found.question.id


@contextmanager
def _single_keys(terminal: int) -> Iterator[None]:
    """Each key is read as it is pressed; ctrl-c still interrupts."""
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


async def _key(terminal: int) -> str:
    """The key that is pressed before it is time to look again, if one is."""
    with anyio.move_on_after(_EVERY):
        await anyio.wait_readable(terminal)
        key = os.read(terminal, 1)
        return key.decode("ascii", "replace").lower() or "q"  # nobody is there any more
    return ""
