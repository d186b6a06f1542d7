"""A terminal for AI agents, on a leash.

>>> result = await shelltie.run("npm install", timeout=600)
>>> result.hint
"""

from importlib import import_module

# A name is imported when it is first used: the command line uses few of them, and all take half a
# second. `__init__.pyi` says the same to whoever reads types.
_HOMES = {
    "shelltie.approval.question": ("Answer", "Question", "Scope"),
    "shelltie.config": ("Config", "load"),
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
    "shelltie.frontends.library": ("Options", "Terminal", "run", "run_sync"),
    "shelltie.frontends.plugin": ("TerminalPlugin",),
    "shelltie.frontends.report": ("Result", "report"),
    "shelltie.frontends.service": ("TerminalService", "TerminalState"),
    "shelltie.frontends.service_tools": ("ServiceTool", "tools_of"),
    "shelltie.frontends.service_words": (
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
    "shelltie.policy.limits": ("calculate_timeouts",),
    "shelltie.running.context": ("Context", "Executed"),
    "shelltie.running.context_fields": ("TaskLimits",),
    "shelltie.running.contexts": ("Contexts",),
    "shelltie.running.run": ("Run",),
    "shelltie.running.timeout_watchdog": (
        "Callbacks",
        "PartialResults",
        "ProgressUpdate",
        "TimeoutError",
        "TimeoutWarning",
        "TimeoutWatchdog",
    ),
    "shelltie.shell.names": ("parse_compound_command", "split_compound_words"),
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
