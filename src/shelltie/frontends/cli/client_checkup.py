"""Diagnostics of installed clients: what of shelltie is in each, and whether it connects."""

import json
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from shelltie.environment import child
from shelltie.frontends.cli.finding import BAD, GOOD, POOR, UNUSED, Finding
from shelltie.frontends.clients import config_file
from shelltie.frontends.clients.hook_health import why_not_called
from shelltie.frontends.clients.registry import CLIENTS, Client
from shelltie.frontends.clients.status import Installed, look
from shelltie.limits.resolve import AskedLimits
from shelltie.model import Command
from shelltie.running.options import RunOptions
from shelltie.running.supervisor import Supervisor

_LIMIT = 30.0  # as long as Claude Code waits for a server
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "shelltie doctor", "version": "1"},
    },
}
_CODEX_TRUST = "Codex runs it only after you trusted it: start codex, type /hooks"


async def clients(supervisor: Supervisor | None) -> AsyncIterator[Finding]:
    """Each client that is here, in the order in which they are listed.

    Without a supervisor nothing can be started: what would connect is then not known.
    """
    answers: dict[tuple[str, ...], str | None] = {}
    for client in CLIENTS.values():
        if client.name == "json":
            continue
        found = partial(Finding, "clients", client.name)
        seen = look(client, child.inherited())
        if seen.problem is not None:
            yield found(POOR, seen.problem, "mend the file; shelltie does not change it like this")
        elif seen.server is None:
            yield _without_server(client, seen)
        else:
            words = tuple(seen.server)
            if words not in answers:
                answers[words] = await _why_not(supervisor, words)
            yield _with_server(client, seen, answers[words])
        for finding in _own_shell_tool(client, seen):
            yield finding


def _without_server(client: Client, seen: Installed) -> Finding:
    found, program = partial(Finding, "clients", client.name), client.find_program()
    if program is None and not seen.file.parent.exists():
        return found(UNUSED, "not installed")
    if program is None and seen.file.parent == Path.home():
        return found(UNUSED, "not installed")
    remedy = f"to add shelltie: shelltie install {client.name}"
    return found(GOOD, f"{program or seen.file.parent}; {remedy}")


def _with_server(client: Client, seen: Installed, why_not: str | None) -> Finding:
    found = partial(Finding, "clients", client.name)
    if why_not is None:
        return found(GOOD, f"shelltie is in {seen.file}, and connects")
    text = f"shelltie is in {seen.file}, and does not connect: {why_not}"
    return found(BAD, text, f"shelltie install {client.name}")


def _own_shell_tool(client: Client, seen: Installed) -> list[Finding]:
    told = []
    if seen.hooked and seen.hook_file is not None:
        told.append(_hook(client, seen.hook_file))
    if seen.shell is not None:
        works = os.access(seen.shell, os.X_OK)
        text = f"its own shell commands run through {seen.shell}"
        remedy = None if works else f"there is no such program: shelltie uninstall {client.name}"
        level = GOOD if works else BAD
        told.append(Finding("clients", f"{client.name} shell", level, text, remedy))
    return told


def _hook(client: Client, file: Path) -> Finding:
    found = partial(Finding, "clients", f"{client.name} hook")
    why_not = why_not_called(client, config_file.read(file))
    if why_not is not None:
        text = f"does not ask shelltie about its own shell commands: {why_not} ({file})"
        return found(BAD, text, f"change that, or: shelltie install {client.name} --hook")
    text = f"asks shelltie about its own shell commands ({file})"
    return found(GOOD, text, _CODEX_TRUST if client.name == "codex" else None)


async def _why_not(supervisor: Supervisor | None, words: tuple[str, ...]) -> str | None:
    """Start a server as its client would, and greet it; what is wrong, if it does not answer."""
    if supervisor is None:
        return "nothing can be started here"
    hello = json.dumps(_HELLO).encode() + b"\n"
    options = RunOptions(profile=None, limits=AskedLimits(total=_LIMIT, silence_off=True))
    run = await supervisor.run(Command(words[0], words, stdin=hello), options)
    said = run.output.view(None, 100_000, 0).head
    if b'"serverInfo"' in said:
        return None
    assert run.outcome is not None
    return run.outcome.error or f"{words[0]} gave no answer ({run.outcome.state})"
