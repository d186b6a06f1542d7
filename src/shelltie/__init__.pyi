"""A terminal for AI agents, on a leash.

>>> result = await shelltie.run("npm install", timeout=600)
>>> result.hint
"""

from shelltie.approval.question import Answer, Question, Scope
from shelltie.config import Config, load
from shelltie.errors import (
    AlreadyAborted,
    CannotStart,
    CommandDenied,
    CommandNotAllowed,
    ConfigWrong,
    ConfirmationRequired,
    InvalidParameters,
    KillFailed,
    Misuse,
    ProcessError,
    SignalFailed,
    TerminalError,
    UnknownSession,
    UnsafeArguments,
    WaitFailed,
)
from shelltie.frontends.library import Options, Terminal, run, run_sync
from shelltie.frontends.plugin import TerminalPlugin
from shelltie.frontends.report import Result, report
from shelltie.frontends.service import TerminalService, TerminalState
from shelltie.frontends.service_tools import ServiceTool, tools_of
from shelltie.frontends.service_words import (
    ExecuteCommandOptions,
    ExecuteCommandResult,
    InteractiveSessionOptions,
    InteractiveTerminalOutput,
    OutputWaitOptions,
    SessionStatus,
    TerminalProvider,
)
from shelltie.model import (
    Caller,
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
from shelltie.running.context import Context, Executed
from shelltie.running.context_fields import TaskLimits
from shelltie.running.contexts import Contexts
from shelltie.running.run import Run
from shelltie.running.timeout_watchdog import (
    Callbacks,
    PartialResults,
    ProgressUpdate,
    TimeoutError,  # noqa: A004  the name of the design it follows
    TimeoutWarning,
    TimeoutWatchdog,
)
from shelltie.shell.names import parse_compound_command, split_compound_words
from shelltie.verdict import Code, Decision, Rating, Reason, Verdict

__all__ = [
    "AlreadyAborted",
    "Answer",
    "Callbacks",
    "Caller",
    "CannotStart",
    "Code",
    "Command",
    "CommandDenied",
    "CommandNotAllowed",
    "Config",
    "ConfigWrong",
    "ConfirmationRequired",
    "Context",
    "Contexts",
    "Decision",
    "EscalationStep",
    "ExecuteCommandOptions",
    "ExecuteCommandResult",
    "Executed",
    "ExitStatus",
    "InteractiveSessionOptions",
    "InteractiveTerminalOutput",
    "InvalidParameters",
    "KillFailed",
    "Limits",
    "Misuse",
    "Options",
    "Outcome",
    "OutputWaitOptions",
    "PartialResults",
    "ProcessError",
    "ProgressUpdate",
    "Question",
    "Rating",
    "Reason",
    "Resources",
    "Result",
    "Run",
    "Scope",
    "ServiceTool",
    "SessionStatus",
    "SignalFailed",
    "State",
    "Survivors",
    "TaskLimits",
    "Terminal",
    "TerminalError",
    "TerminalPlugin",
    "TerminalProvider",
    "TerminalService",
    "TerminalSize",
    "TerminalState",
    "TimeoutError",
    "TimeoutWarning",
    "TimeoutWatchdog",
    "UnknownSession",
    "UnsafeArguments",
    "Verdict",
    "WaitFailed",
    "calculate_timeouts",
    "load",
    "parse_compound_command",
    "report",
    "run",
    "run_sync",
    "split_compound_words",
    "tools_of",
]
