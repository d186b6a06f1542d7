"""Exception hierarchy: what goes wrong on our side. A failed command is an Outcome. Pure.

TerminalError
    CommandDenied
        ConfirmationRequired
        RefusedByPerson
        CommandNotAllowed
        UnsafeArguments
    CannotStart
        KeeperGone
        NotSetUp
        Silent
        ApiRefusal
        IsolationUnavailable
    Misuse
        InvalidParameters
            WrongFields
            UnknownTerminal
            ForeignTerminal
            UnknownAcpSession
        UnknownSession
        SessionBusy
        TooManySessions
        RunOver
        InputFull
        NoSuchTrial
        TrialBusy
        TrialOver
        IllegalTransition
        AlreadyAborted
        NoCapability
        TooManyTerminals
        UnknownRun
        UnsafeAddress
    ProcessError
        WaitFailed
        SignalFailed
        KillFailed
    ConfigWrong
        MissingFile
    JournalBroken
    TrialError
        ChangesUnreadable
        ChangesConflict
        ChangesNotApplied
        UndoTooLarge
    FileError
        FileMissing
        FileIsDirectory
        FileIsNoDirectory
        FileNotRegular
        FileTooLarge
        FileProtected
        FileAccessDenied
        OutsideWorkspace
        FileNoSpace
    ContextClosedEarly
    NoServerAnswer
    ControlRefused
    NoSuchQuestion
    NoLiveRun
        AmbiguousRun
    OutputNotKept
    JournalUnreadable
    NoRecordedRun
    JournalUnusable
    InternalError
"""

import errno
from collections.abc import Callable, Mapping
from typing import ClassVar, TypeVar

from shelltie.verdict import Verdict

_Value = TypeVar("_Value")


class TerminalError(Exception):
    """We could not do what was asked. `code` is stable; the message says what to do next."""

    code: ClassVar[str] = "EXECUTION_ERROR"


class CommandDenied(TerminalError):
    """The policy, or the person asked, said no; nothing was started.

    `details` are for programs: which commands are allowed, where a person can approve.
    """

    code = "COMMAND_DENIED"

    def __init__(
        self,
        message: str,
        verdict: Verdict | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.details = dict(details or {})


class ConfirmationRequired(CommandDenied):
    """Somebody must say yes first, and nobody did."""

    code = "CONFIRMATION_REQUIRED"


class RefusedByPerson(CommandDenied):
    """Who was asked said no; it keeps the code of any refusal."""


class CommandNotAllowed(CommandDenied):
    """The program is not in the allowlist."""

    code = "COMMAND_NOT_ALLOWED"


class UnsafeArguments(CommandDenied):
    """An argument has what only a shell would need, or what a rule forbids."""

    code = "UNSAFE_ARGUMENTS"


class CannotStart(TerminalError):
    """The command could not be started; `exit_code` is what a shell would say (126 or 127)."""

    def __init__(self, message: str, exit_code: int = 126) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class KeeperGone(CannotStart):
    """There is no keeper any more where one was: what it held has ended with it."""


class NotSetUp(CannotStart):
    """A place that nobody has asked for yet: without its settings it cannot be."""


class Silent(CannotStart):
    """A place that let us wait as long as we had patience; to ask again would cost as much."""


class ApiRefusal(CannotStart):
    """The API server of a cluster said no. `status` is HTTP's; `reason` its word, as NotFound."""

    def __init__(self, message: str, status: int, reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class IsolationUnavailable(CannotStart):
    """The isolation that was asked for cannot be had; nothing was run without it."""

    code = "ISOLATION_UNAVAILABLE"


class Misuse(TerminalError):
    """The caller asked for something that makes no sense here."""

    code = "INVALID_PARAMETERS"


class InvalidParameters(Misuse):
    """An argument is missing or has a wrong value; nothing was started."""


class WrongFields(InvalidParameters):
    """Some fields are missing or wrong; `fields` says of each what it should be."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name} {why}" for name, why in fields.items()))
        self.fields = dict(fields)


class UnknownTerminal(InvalidParameters):
    """No terminal has this id, or it has been released."""


class ForeignTerminal(InvalidParameters):
    """The terminal belongs to another session."""


class UnknownAcpSession(InvalidParameters):
    """No session has this id: it was never opened, or was closed."""


class UnknownSession(Misuse):
    """No session has this id, or it belongs to somebody else."""

    code = "SESSION_NOT_FOUND"


class SessionBusy(Misuse):
    """A command runs in it, and the caller did not want to wait."""

    code = "EXECUTION_ERROR"


class TooManySessions(Misuse):
    """The limit is reached; stopping one makes room. `active` and `most` are for programs."""

    code = "MAX_SESSIONS_EXCEEDED"

    def __init__(self, message: str, active: int, most: int) -> None:
        super().__init__(message)
        self.active = active
        self.most = most


class RunOver(Misuse):
    """Input or a size for a process that has ended, or that takes none."""

    code = "EXECUTION_ERROR"


class InputFull(Misuse):
    """The command does not read its input, and no more is queued for it."""

    code = "EXECUTION_ERROR"


class NoSuchTrial(Misuse):
    """No trial has this id, or none has it any more."""

    code = "TRIAL_NOT_FOUND"


class TrialBusy(Misuse):
    """Its command still runs, or another process works on it."""

    code = "EXECUTION_ERROR"


class TrialOver(Misuse):
    """It was applied, discarded or undone already."""

    code = "EXECUTION_ERROR"


class IllegalTransition(Misuse):
    """A run was asked to go where its state cannot lead."""


class AlreadyAborted(Misuse):
    """A watchdog ends its process once."""


class NoCapability(Misuse):
    """The client did not offer terminals, so nobody may ask for one."""

    code = "CAPABILITY_MISSING"


class TooManyTerminals(Misuse):
    """The limit is reached; to release one makes room."""

    code = "MAX_SESSIONS_EXCEEDED"


class UnknownRun(Misuse):
    """No run has this id here, or none has it any more."""

    code = "RUN_NOT_FOUND"


class UnsafeAddress(Misuse):
    """Others could read what goes over the wire."""


class ProcessError(TerminalError):
    """The kernel refused something we asked of a process."""


class WaitFailed(ProcessError):
    """The end of the process could not be learned."""


class SignalFailed(ProcessError):
    """A signal could not be delivered to any process of the tree."""


class KillFailed(ProcessError):
    """Processes are left although SIGKILL was sent; `pids` are those that were seen."""

    def __init__(self, message: str, pids: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.pids = pids


class ConfigWrong(TerminalError):
    """A configuration file or variable says something we do not understand."""

    code = "CONFIG_WRONG"


class MissingFile(ConfigWrong):
    """There is no file of this name."""


class JournalBroken(TerminalError):
    """Nothing can be recorded, and the configuration says that it must be."""

    code = "JOURNAL_BROKEN"


class TrialError(TerminalError):
    """Something about the changes of a trial; the workspace is as it was."""

    code = "TRIAL_ERROR"


class ChangesUnreadable(TrialError):
    """What a trial changed cannot be read, or is no directory any more."""

    code = "CHANGES_UNREADABLE"


class ChangesConflict(TrialError):
    """Files were changed in the workspace meanwhile; `paths` names them. Nothing was applied."""

    code = "CHANGES_CONFLICT"

    def __init__(self, message: str, paths: tuple[str, ...]) -> None:
        super().__init__(message)
        self.paths = paths


class ChangesNotApplied(TrialError):
    """Applying or undoing failed. `rolled_back` says whether the workspace is as it was."""

    code = "CHANGES_NOT_APPLIED"

    def __init__(self, message: str, *, rolled_back: bool = True) -> None:
        super().__init__(message)
        self.rolled_back = rolled_back


class UndoTooLarge(TrialError):
    """The old content is more than is kept: applying could not be undone. Nothing was applied."""

    code = "UNDO_TOO_LARGE"


class FileError(TerminalError):
    """A file of a workspace could not be read, written or listed; nothing was changed.

    `errno` is what the operating system calls it: `OSError(error.errno, …)` is the fitting kind.
    """

    code = "FILE_ERROR"
    errno: int = errno.EIO


class FileMissing(FileError):
    """There is nothing of this name."""

    code = "FILE_NOT_FOUND"
    errno = errno.ENOENT


class FileIsDirectory(FileError):
    """A file was asked for, and this is a directory."""

    code = "IS_A_DIRECTORY"
    errno = errno.EISDIR


class FileIsNoDirectory(FileError):
    """A directory was asked for, or lies on the way, and this is none."""

    code = "NOT_A_DIRECTORY"
    errno = errno.ENOTDIR


class FileNotRegular(FileError):
    """A pipe, a socket or a device: it is neither read nor replaced."""

    code = "NOT_A_FILE"
    errno = errno.EINVAL


class FileTooLarge(FileError):
    """It has more bytes, or entries, than the caller wants to have."""

    code = "FILE_TOO_LARGE"
    errno = errno.EFBIG


class FileProtected(FileError):
    """Commands in that place may not read it, or not change it: so it is for files."""

    code = "FILE_PROTECTED"
    errno = errno.EACCES


class FileAccessDenied(FileError):
    """The operating system says no."""

    code = "FILE_ACCESS_DENIED"
    errno = errno.EACCES


class OutsideWorkspace(FileError):
    """The path leads out of the workspace, by itself or through a link."""

    code = "OUTSIDE_WORKSPACE"
    errno = errno.EACCES


class FileNoSpace(FileError):
    """The disk, or what the user may have of it, is full."""

    code = "NO_SPACE"
    errno = errno.ENOSPC


class ContextClosedEarly(TerminalError):
    """The context was closed before the command came to its end."""


class NoServerAnswer(TerminalError):
    """The server said no, or nothing; `reply` is its own code."""

    def __init__(self, message: str, reply: str = "") -> None:
        super().__init__(message)
        self.reply = reply


class ControlRefused(TerminalError):
    """Whoever asks may not."""

    code = "REFUSED"


class NoSuchQuestion(TerminalError):
    """There is none with this id, or there are two."""


class NoLiveRun(TerminalError):
    """There is none with this id, or there are several."""


class AmbiguousRun(NoLiveRun):
    """There are several that it may be."""


class OutputNotKept(TerminalError):
    """Its output is not on disk, or not any more."""


class JournalUnreadable(TerminalError):
    """The journal is there, but cannot be read."""


class NoRecordedRun(TerminalError):
    """The journal knows no run with this id, or several."""


class JournalUnusable(TerminalError):
    """This file is no journal that we can use; it stays as it is."""


class InternalError(TerminalError):
    """A fault of shelltie itself; what was raised is in the log, and for nobody else."""

    def __init__(self) -> None:
        super().__init__("shelltie failed and says why on its stderr")


def parameter(name: str, value: object, check: Callable[[object], _Value]) -> _Value:
    """A parameter of a call, if the check of `basics.validate` finds it right.

    Raises: InvalidParameters, which names it.
    """
    try:
        return check(value)
    except ValueError as error:
        raise InvalidParameters(f"{name} {error}") from error
