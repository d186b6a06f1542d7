"""`shelltie metrics`: Prometheus metrics and health of every running server."""

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any, cast

from shelltie.basics import visible_text
from shelltie.environment.inherited import inherited
from shelltie.errors import NoServerAnswer
from shelltie.frontends.cli.console import Style, marked, print_error, print_json
from shelltie.frontends.control import client
from shelltie.frontends.control.client import Server
from shelltie.telemetry.prometheus import exposition, from_json, merged, to_json

_UNWELL = 1


def main(args: Namespace) -> int:
    """Print them."""
    servers = client.servers(inherited())
    if not servers:
        print_error("no server runs here, so nothing is counted")
    return _health(servers, args) if args.health else _metrics(servers, args)


def _metrics(servers: list[Server], args: Namespace) -> int:
    parts = []
    for server, answer in _asked(servers, "metrics"):
        labels = {"server": str(server.pid), "client": server.client}
        try:
            parts.append((labels, from_json(answer["metrics"])))
        except (KeyError, ValueError):
            print_error(f"the server {server.pid} says what we do not understand")
    families = merged(parts)
    if args.json:
        print_json(to_json(families))
    else:
        print(exposition(families), end="")
    return 0


def _health(servers: list[Server], args: Namespace) -> int:
    answers = [
        (server, cast(list[Any], answer["checks"])) for server, answer in _asked(servers, "health")
    ]
    if args.json:
        print_json(
            [
                {"server": server.pid, "client": server.client, "checks": checks}
                for server, checks in answers
            ]
        )
    else:
        _show(answers, Style(sys.stdout, args.color))
    return 0 if all(_well(check) for _, checks in answers for check in checks) else _UNWELL


def _well(check: Mapping[str, Any]) -> bool:
    """A refused command is what the rules are for: it is told, and nothing is ill."""
    return bool(check["ok"]) or check["name"] == "violations"


def _show(answers: list[tuple[Server, list[Any]]], ink: Style) -> None:
    for server, checks in answers:
        print(ink("bold", f"server {server.pid} {visible_text.inline(server.client)}".rstrip()))
        for check in checks:
            mark = "✓" if check["ok"] else "·" if _well(check) else "✗"
            name = f" {check['name']:<11} "
            print(marked(ink, mark, visible_text.inline(check["message"]), before="  ", after=name))


def _asked(servers: list[Server], what: str) -> Iterator[tuple[Server, dict[str, object]]]:
    """What each says; of one that does not answer, people are told."""
    for server, said in client.ask_all(servers, what):
        if isinstance(said, NoServerAnswer):
            print_error(visible_text.inline(str(said)))
        else:
            yield server, said
