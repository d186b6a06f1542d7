"""A terminal for AI agents, on a leash.

>>> result = await shelltie.run("npm install", timeout=600)
>>> result.hint
"""

from shelltie.config import Config, load
from shelltie.errors import (
    AlreadyAborted,
    CannotStart,
    ConfigWrong,
    InvalidParameters,
    KillFailed,
    Misuse,
    ProcessError,
    SignalFailed,
    TerminalError,
    WaitFailed,
)
from shelltie.frontends.library import Options, Terminal, run, run_sync
from shelltie.frontends.report import Result, report
from shelltie.model import (
    Command,
    EscalationStep,
    ExitStatus,
    Limits,
    Outcome,
    Resources,
    State,
    Survivors,
    TerminalSize,
)
from shelltie.policy.limits import calculate_timeouts
from shelltie.running.run import Run
from shelltie.running.timeout_watchdog import (
    Callbacks,
    PartialResults,
    ProgressUpdate,
    TimeoutError,  # noqa: A004  the name of the design it follows
    TimeoutWarning,
    TimeoutWatchdog,
)

__all__ = [
    "AlreadyAborted",
    "Callbacks",
    "CannotStart",
    "Command",
    "Config",
    "ConfigWrong",
    "EscalationStep",
    "ExitStatus",
    "InvalidParameters",
    "KillFailed",
    "Limits",
    "Misuse",
    "Options",
    "Outcome",
    "PartialResults",
    "ProcessError",
    "ProgressUpdate",
    "Resources",
    "Result",
    "Run",
    "SignalFailed",
    "State",
    "Survivors",
    "Terminal",
    "TerminalError",
    "TerminalSize",
    "TimeoutError",
    "TimeoutWarning",
    "TimeoutWatchdog",
    "WaitFailed",
    "calculate_timeouts",
    "load",
    "report",
    "run",
    "run_sync",
]
