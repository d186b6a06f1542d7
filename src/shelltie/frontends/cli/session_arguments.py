"""What may stand on the command line behind `ps`, `logs`, `attach`, `send` and `kill`."""

import argparse
from collections.abc import Callable
from typing import TypeVar

_IDS = """\
ID is what `shelltie ps` shows: term-1, the first characters of a run's id, or
PID:term-1 where two servers have a session of that name."""
_KEYS = """
KEY is ctrl-c, enter, tab, escape, up, page-down, f1, alt-x, …"""
_LEAVE = """
Leave with ctrl-] and it runs on; without --write ctrl-c leaves as well."""

C = TypeVar("C")


def add_sessions(commands: C, plain: Callable[[C, str, str], argparse.ArgumentParser]) -> None:
    """Add the commands, each made by `plain` from its name and what it does."""
    ps = plain(commands, "ps", "list what runs in every server of yours")
    ps.add_argument("--json", action="store_true", help="print JSON")
    _add_logs(plain(commands, "logs", "print what a run or session has printed"))
    _add_attach(plain(commands, "attach", "watch a session, or type into it, as a terminal"))
    _add_send(plain(commands, "send", "type into a session"))
    _add_kill(plain(commands, "kill", "end runs and sessions, and everybody in them"))


def _lines(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
    return int(text)


def _add_id(parser: argparse.ArgumentParser, more: str = "") -> None:
    parser.add_argument("id", metavar="ID", help="as `shelltie ps` shows it")
    parser.epilog = _IDS + more


def _add_logs(logs: argparse.ArgumentParser) -> None:
    _add_id(logs)
    logs.add_argument("-f", "--follow", action="store_true", help="go on until it ends")
    logs.add_argument(
        "--raw", action="store_true", help="every byte as it was printed, escapes and all"
    )
    logs.add_argument("--tail", type=_lines, metavar="N", help="only the last N lines, and on")
    logs.add_argument("--json", action="store_true", help="print JSON, an object a line")


def _add_attach(attach: argparse.ArgumentParser) -> None:
    _add_id(attach, _LEAVE)
    attach.add_argument(
        "--write", action="store_true", help="what you type goes to it, and your size, too"
    )


def _add_send(send: argparse.ArgumentParser) -> None:
    _add_id(send, _KEYS)
    send.usage = "shelltie send [-n] ID TEXT…  or  shelltie send ID --key KEY…"
    send.add_argument("--key", action="append", metavar="KEY", help="a key; repeatable")
    send.add_argument(
        "-n", "--no-newline", action="store_true", help="TEXT alone, without the enter key"
    )
    send.add_argument("words", nargs="*", metavar="TEXT", help="a line to type")


def _add_kill(kill: argparse.ArgumentParser) -> None:
    kill.epilog = _IDS
    kill.add_argument("ids", nargs="*", metavar="ID", help="as `shelltie ps` shows it")
    kill.add_argument("--all", action="store_true", help="all that runs in every server")
    kill.add_argument("--yes", action="store_true", help="do not ask back at a terminal")
