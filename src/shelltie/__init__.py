"""A terminal for AI agents, on a leash.

    result = await shelltie.run("npm install", timeout=600)
    if result.status == "timeout":
        print(result.hint)
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

__all__ = [
    "AlreadyAborted",
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
    "ProcessError",
    "Resources",
    "Result",
    "Run",
    "SignalFailed",
    "State",
    "Survivors",
    "Terminal",
    "TerminalError",
    "TerminalSize",
    "WaitFailed",
    "calculate_timeouts",
    "load",
    "report",
    "run",
    "run_sync",
]
