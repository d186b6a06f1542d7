"""Public API for ACP: terminals for a client of your own, a timeout for an agent of your own.

>>> result = await execute_with_timeout(connection, session_id, "cargo", ["test"], timeout=600)

`HostedTerminals` needs the official SDK (`pip install 'shelltie[acp]'`); the others do not.
"""

from importlib import import_module

# As in `shelltie/__init__.py`, a name is imported when it is first used. `acp.pyi` has the types.
_HOMES = {
    "shelltie.errors": (
        "ForeignTerminal",
        "NoCapability",
        "TooManyTerminals",
        "UnknownAcpSession",
        "UnknownTerminal",
    ),
    "shelltie.frontends.acp.protocol": ("CreatedTerminal", "TerminalExit", "TerminalOutput"),
    "shelltie.frontends.acp.sdk_client": ("HostedTerminals",),
    "shelltie.frontends.acp.terminal": ("HostedTerminal",),
    "shelltie.frontends.acp.terminal_host": ("HostSettings", "TerminalHost"),
    "shelltie.frontends.acp.timeouts": ("TerminalPolicy",),
    "shelltie.frontends.acp.with_timeout": (
        "Completed",
        "TerminalTimeout",
        "Terminals",
        "TimedOut",
        "execute_with_timeout",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0605  a list


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "acp":
            raise
        message = f"{__name__}.{name} needs the ACP SDK: pip install 'shelltie[acp]'"
        raise ModuleNotFoundError(message, name="acp") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
