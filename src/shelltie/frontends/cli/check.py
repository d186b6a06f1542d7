"""`shelltie check`: what would happen to a command, without running it."""

import json
import shlex
import sys
from argparse import Namespace
from pathlib import Path

from shelltie import config as settings
from shelltie.assemble import policy_file
from shelltie.errors import InvalidParameters
from shelltie.frontends.cli.words import Ink, print_json, stdin_bytes, table
from shelltie.frontends.report import as_json, limits_report
from shelltie.model import Command, Limits, human_duration
from shelltie.policy.limits import Asked, resolve
from shelltie.policy.timeouts import TimeoutPolicy
from shelltie.running.supervisor import check as check_command


def main(args: Namespace) -> int:
    """One command from the command line, or many from stdin."""
    policy = policy_file(settings.load(Path.cwd()), Path.cwd()).current()
    if args.jsonl:
        return _many(policy, args.words)
    text = args.words[0] if len(args.words) == 1 else shlex.join(args.words)
    limits = _limits(policy, text)
    if args.json:
        print_json(_answer(text, limits))
    else:
        _show(text, limits, Ink(sys.stdout, args.color))
    return 0


def _many(policy: TimeoutPolicy, words: list[str]) -> int:
    if words:
        raise InvalidParameters("check --jsonl reads its commands from stdin, one object a line")
    for line in stdin_bytes():
        try:
            text = _command_in(line)
            answer = _answer(text, _limits(policy, text))
        except InvalidParameters as error:
            answer = {"error": str(error), "errorCode": error.code}
        print(json.dumps(answer), flush=True)
    return 0


def _command_in(line: bytes) -> str:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidParameters(f"not JSON: {error}") from error
    if not isinstance(given, dict) or not isinstance(given.get("command"), str):
        raise InvalidParameters('each line must be an object such as {"command": "ls -la"}')
    return str(given["command"])


def _limits(policy: TimeoutPolicy, text: str) -> Limits:
    check_command(Command(text))
    return resolve(policy, text, Asked())


def _answer(text: str, limits: Limits) -> dict[str, object]:
    return {
        "command": text,
        "verdict": None,
        "decision": None,
        "reasons": [],
        "limits": as_json(limits_report(limits)),
    }


_ELSEWHERE = "the silence limit comes from "  # how a note begins when the sources differ


def _show(text: str, limits: Limits, ink: Ink) -> None:
    print(ink("bold", text))
    elsewhere = [note for note in limits.notes if note.startswith(_ELSEWHERE)]
    silence = elsewhere[0].removeprefix(_ELSEWHERE) if elsewhere else limits.source
    table(
        [
            ("total", _span(limits.total), limits.source + (" (clamped)" * limits.clamped)),
            ("silence", _span(limits.silence), silence),
            *(("note", "", note) for note in limits.notes if note not in elsewhere),
            ("verdict", "none", "this version does not judge commands yet: each is allowed"),
        ],
        indent="  ",
    )


def _span(limit: float | None) -> str:
    return "none" if limit is None else human_duration(limit)
