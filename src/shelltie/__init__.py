"""A terminal for AI agents, on a leash.

>>> result = await shelltie.run("npm install", timeout=600)
>>> result.hint
"""

from importlib import import_module

# A name is imported when it is first used: the command line uses few of them, and all take half a
# second. `__init__.pyi` says the same to whoever reads types.
_HOMES = {
    "shelltie.approval.question": ("Answer", "Question", "Scope"),
    "shelltie.settings.config": ("Config", "load"),
    "shelltie.errors": (
        "AlreadyAborted",
        "CannotStart",
        "CommandDenied",
        "CommandNotAllowed",
        "ConfigWrong",
        "ConfirmationRequired",
        "InvalidParameters",
        "KillFailed",
        "Misuse",
        "ProcessError",
        "SignalFailed",
        "TerminalError",
        "UnknownSession",
        "UnsafeArguments",
        "WaitFailed",
    ),
    "shelltie.frontends.api": ("Options", "Terminal", "run", "run_sync"),
    "shelltie.frontends.wire.run": ("Result", "report"),
    "shelltie.frontends.service.service": ("TerminalService", "TerminalState"),
    "shelltie.frontends.service.tools": ("ServiceTool", "TerminalPlugin", "tools_of"),
    "shelltie.frontends.service.provider": (
        "ExecuteCommandOptions",
        "ExecuteCommandResult",
        "InteractiveSessionOptions",
        "InteractiveTerminalOutput",
        "OutputWaitOptions",
        "SessionStatus",
        "TerminalProvider",
    ),
    "shelltie.model": (
        "Caller",
        "Command",
        "EscalationStep",
        "ExitStatus",
        "Limits",
        "Outcome",
        "Resources",
        "State",
        "Survivors",
        "TerminalSize",
    ),
    "shelltie.limits.resolve": ("calculate_timeouts",),
    "shelltie.contexts.context": ("Context", "Executed"),
    "shelltie.contexts.fields": ("TaskLimits",),
    "shelltie.contexts.registry": ("Contexts",),
    "shelltie.running.run": ("Run",),
    "shelltie.agents.timeout_watchdog": (
        "Callbacks",
        "PartialResults",
        "ProgressUpdate",
        "TimeoutError",
        "TimeoutWarning",
        "TimeoutWatchdog",
    ),
    "shelltie.shell.parse": ("parse_compound_command", "split_compound_words"),
    "shelltie.verdict": ("Code", "Decision", "Rating", "Reason", "Verdict"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)  # noqa: PLE0605  a list


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
