"""A terminal for AI agents, on a leash.

>>> result = await shelltie.run("npm install", timeout=600)
>>> result.hint
"""

from shelltie.agents.timeout_watchdog import (
    Callbacks,
    PartialResults,
    ProgressUpdate,
    TimeoutError,  # noqa: A004  the name of the design it follows
    TimeoutWarning,
    TimeoutWatchdog,
)
from shelltie.approval.question import Answer, Question, Scope
from shelltie.contexts.context import Context, Executed
from shelltie.contexts.registry import Contexts
from shelltie.errors import (
    AlreadyAborted,
    CannotStart,
    CommandDenied,
    CommandNotAllowed,
    ConfigWrong,
    ConfirmationRequired,
    FileAccessDenied,
    FileError,
    FileIsDirectory,
    FileIsNoDirectory,
    FileMissing,
    FileNoSpace,
    FileNotRegular,
    FileProtected,
    FileTooLarge,
    InvalidParameters,
    KillFailed,
    Misuse,
    OutsideWorkspace,
    ProcessError,
    RunOver,
    SignalFailed,
    TerminalError,
    UnknownRun,
    UnknownSession,
    UnsafeArguments,
    WaitFailed,
)
from shelltie.frontends.api import FinishedTrial, Options, Terminal, run, run_sync
from shelltie.frontends.files import Files
from shelltie.frontends.reports.run_report import Result, report
from shelltie.frontends.service.service import TerminalService, TerminalState
from shelltie.frontends.service.terminal_provider import (
    ExecuteCommandOptions,
    ExecuteCommandResult,
    InteractiveSessionOptions,
    InteractiveTerminalOutput,
    OutputWaitOptions,
    SessionStatus,
    TerminalProvider,
)
from shelltie.frontends.service.tools import ServiceTool, TerminalPlugin, tools_of
from shelltie.frontends.sync_terminal import SyncFiles, SyncRun, SyncTerminal
from shelltie.limits.resolve import calculate_timeouts
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
from shelltie.providers.files.place_files import FileEntry, FileKind, TreeCopied
from shelltie.running.run import Run
from shelltie.running.staying_note import StayingNote
from shelltie.settings.all_settings import TaskLimits
from shelltie.settings.config import Config
from shelltie.settings.layers import load
from shelltie.shell.parse import parse_compound_command, split_compound_words
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
    "FileAccessDenied",
    "FileEntry",
    "FileError",
    "FileIsDirectory",
    "FileIsNoDirectory",
    "FileKind",
    "FileMissing",
    "FileNoSpace",
    "FileNotRegular",
    "FileProtected",
    "FileTooLarge",
    "Files",
    "FinishedTrial",
    "InteractiveSessionOptions",
    "InteractiveTerminalOutput",
    "InvalidParameters",
    "KillFailed",
    "Limits",
    "Misuse",
    "Options",
    "Outcome",
    "OutputWaitOptions",
    "OutsideWorkspace",
    "PartialResults",
    "ProcessError",
    "ProgressUpdate",
    "Question",
    "Rating",
    "Reason",
    "Resources",
    "Result",
    "Run",
    "RunOver",
    "Scope",
    "ServiceTool",
    "SessionStatus",
    "SignalFailed",
    "State",
    "StayingNote",
    "Survivors",
    "SyncFiles",
    "SyncRun",
    "SyncTerminal",
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
    "TreeCopied",
    "UnknownRun",
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
