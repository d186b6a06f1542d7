"""Public API for ACP: terminals for a client of your own, a timeout for an agent of your own.

>>> result = await execute_with_timeout(connection, session_id, "cargo", ["test"], timeout=600)

`HostedTerminals` needs the official SDK (`pip install 'shelltie[acp]'`); the others do not.
"""

from shelltie.errors import (
    ForeignTerminal,
    NoCapability,
    TooManyTerminals,
    UnknownAcpSession,
    UnknownTerminal,
)
from shelltie.frontends.acp.protocol import CreatedTerminal, TerminalExit, TerminalOutput
from shelltie.frontends.acp.sdk_client import HostedTerminals
from shelltie.frontends.acp.terminal import HostedTerminal
from shelltie.frontends.acp.terminal_host import HostSettings, TerminalHost
from shelltie.frontends.acp.timeouts import TerminalPolicy
from shelltie.frontends.acp.with_timeout import (
    Completed,
    Terminals,
    TerminalTimeout,
    TimedOut,
    execute_with_timeout,
)

__all__ = [
    "Completed",
    "CreatedTerminal",
    "ForeignTerminal",
    "HostSettings",
    "HostedTerminal",
    "HostedTerminals",
    "NoCapability",
    "TerminalExit",
    "TerminalHost",
    "TerminalOutput",
    "TerminalPolicy",
    "TerminalTimeout",
    "Terminals",
    "TimedOut",
    "TooManyTerminals",
    "UnknownAcpSession",
    "UnknownTerminal",
    "execute_with_timeout",
]
