"""Servers in this process, for clients that need no pipe to talk."""

from typing import Any

from mcp.server.lowlevel import Server

from shelltie import Config, Terminal
from shelltie.frontends.mcp.handover import Handover
from shelltie.frontends.mcp.server import build, task_contexts
from shelltie.sessions.registry import SessionLimits, Sessions
from shelltie.sessions.wait_rule import Waiting


def server_of(terminal: Terminal, config: Config) -> Server[Any]:
    """What a client of this terminal is served."""
    sessions = Sessions(terminal.supervisor, SessionLimits(config.sessions_max))
    return build(terminal.supervisor, config, sessions, task_contexts(terminal.supervisor, config))


def attendant_of(terminal: Terminal) -> Handover:
    """Who waits for what this terminal runs."""
    return Handover(terminal.supervisor, Sessions(terminal.supervisor), Waiting())
