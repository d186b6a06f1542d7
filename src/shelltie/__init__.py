"""A terminal for AI agents, on a leash: limits, judging, approval and a record for every command.

>>> result = await shelltie.run("npm install", timeout=600)
>>> result.hint

Layout: a folder is a question, and its `__init__` lists its files in reading order. Imports go down
this list only.

  acp          public API for ACP clients and agents (this file has the rest)
  adapters/    where does a framework's agent run?  Inspect, OpenAI Agents, …
  frontends/   who asks?                  MCP, ACP, command line, Python, TerminalService
  assemble     a running Supervisor from a Config; assemble_parts: a judge, a policy alone
  contexts/    what may a task run?       allowlisted commands of one task
  sessions/    what stays open?           REPLs, dev servers, persistent shells
  agents/      is the other agent stuck?  limits, events, advice
  running/     how is it going?           the engine: admission, runs, watchdog
  trials/      what did a trial change?   change sets, applied or undone
  approval/    who says yes?              questions to a person
  safety/      is it harmless?            rules, rating, verdict
  limits/      how long may it take?      timeout policy
  providers/   where does it run?         this machine, bubblewrap, container
  record/      what happened?             the journal
  telemetry/   is all well?               metrics, alerts, spans
  environment/ what is it given?          variables of a child process
  keeper/      how is a tree held?        leashes, in C and Python
  output/      what did it print?         store, text, redaction
  shell/       what does this text do?    bash parser
  settings/    what is set?               configuration, trust, paths
  events       what happened, as records
  errors       the exceptions
  model        Command, Limits, Outcome
  verdict      Rating, Decision, Verdict
  basics/      what does Python lack?     frozen records, lazy patterns, validation
"""

from importlib import import_module

# A name is imported when it is first used: the command line uses few of them, and all take half a
# second. `__init__.pyi` says the same to whoever reads types.
_HOMES = {
    "shelltie.approval.question": ("Answer", "Question", "Scope"),
    "shelltie.settings.config": ("Config",),
    "shelltie.settings.layers": ("load",),
    "shelltie.settings.all_settings": ("TaskLimits",),
    "shelltie.errors": (
        "AlreadyAborted",
        "CannotStart",
        "CommandDenied",
        "CommandNotAllowed",
        "ConfigWrong",
        "ConfirmationRequired",
        "FileAccessDenied",
        "FileError",
        "FileIsDirectory",
        "FileIsNoDirectory",
        "FileMissing",
        "FileNoSpace",
        "FileNotRegular",
        "FileProtected",
        "FileTooLarge",
        "InvalidParameters",
        "KillFailed",
        "Misuse",
        "OutsideWorkspace",
        "ProcessError",
        "RunOver",
        "SignalFailed",
        "TerminalError",
        "UnknownRun",
        "UnknownSession",
        "UnsafeArguments",
        "WaitFailed",
    ),
    "shelltie.frontends.api": ("FinishedTrial", "Options", "Terminal", "run", "run_sync"),
    "shelltie.frontends.files": ("Files",),
    "shelltie.frontends.sync_terminal": ("SyncFiles", "SyncRun", "SyncTerminal"),
    "shelltie.providers.files.place_files": ("FileEntry", "FileKind", "TreeCopied"),
    "shelltie.frontends.reports.run_report": ("Result", "report"),
    "shelltie.frontends.service.service": ("TerminalService", "TerminalState"),
    "shelltie.frontends.service.tools": ("ServiceTool", "TerminalPlugin", "tools_of"),
    "shelltie.frontends.service.terminal_provider": (
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
    "shelltie.contexts.registry": ("Contexts",),
    "shelltie.running.run": ("Run",),
    "shelltie.running.staying_note": ("StayingNote",),
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
