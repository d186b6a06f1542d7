"""Warning and failure messages about a run. Pure."""

import errno as errno_names
from collections.abc import Collection, Sequence

from shelltie.basics.times import human_duration
from shelltie.model import Command, Limit, Limits
from shelltie.providers.provider import OTHER_DIRECTORY
from shelltie.running.watchdog import Warn

# The machine has too little of something; the command is not to blame.
_SHORTAGES = (
    *(errno_names.EAGAIN, errno_names.ENOMEM, errno_names.EMFILE, errno_names.ENFILE),
    *(errno_names.ETXTBSY, errno_names.EINTR),
)
_NOT_FOUND = (errno_names.ENOENT, errno_names.ENOTDIR)


def withheld_of(command: Command, withheld: Collection[str]) -> list[str]:
    """The variables that a call sets and its command does not get."""
    return sorted(name for name in withheld if command.env.get(name) is not None)


def variables_withheld(names: Sequence[str]) -> str:
    """That a command does not get these variables of its call, and what to do about it."""
    return (
        f"{' and '.join(names)} of the call {'was' if len(names) == 1 else 'were'} withheld, as"
        " secrets are: if the command needs that, the user can add it to environment.pass"
    )


def warning_before_limit(step: Warn, elapsed: float, limits: Limits) -> str:
    """A bark before the bite."""
    left = human_duration(step.left)
    if step.limit is Limit.SILENCE:
        idle = human_duration(step.idle)
        return f"No output for {idle}. Will abort in {left} unless output resumes."
    total = human_duration(limits.total or 0)
    return f"Running for {human_duration(elapsed)} of {total}. Will abort in {left}."


def silent_but_working(idle: float, work: str) -> str:
    """Why a silent command was not ended."""
    return (
        f"No output for {human_duration(idle)}, but it works ({work}): not ended."
        " The total limit still holds."
    )


def limit_reached(limit: Limit, limits: Limits, subject: str = "Command") -> str:
    """The decision, in a sentence."""
    if limit is Limit.SILENCE:
        window = human_duration(limits.silence or 0)
        return f"{subject} produced no output within the allowed inactivity window ({window})."
    if limits.total is None:
        return f"{subject} was still running when the time its caller gave it was over."
    total = human_duration(limits.total)
    return f"{subject} exceeded the maximum allowed wall-clock time ({total})."


def kill_failure(stuck: tuple[int, ...]) -> str:
    """Why a run that was to be killed goes on."""
    if stuck:
        return f"SIGKILL was sent, and {list(stuck)} are left"
    return (
        "SIGKILL was sent, but nobody answers where it runs: see whether that is paused, or hangs"
    )


_CANNOT = {
    "join": "its cgroup cannot be joined: {}; leave out its limits of the tree",
    "spool": "there is no room for its output, which is kept while no server reads it: {}",
}


def start_failure(
    step: str, errno: int, command: Command, reason: str = ""
) -> tuple[str, int, bool]:
    """Why nothing was run, the exit code a shell would give for it, and whether it may pass."""
    if reason:
        return reason, 126, True
    return *_failure(step, errno, command), step == "fork" or errno in _SHORTAGES


def _failure(step: str, errno: int, command: Command) -> tuple[str, int]:
    name = command.argv[0] if command.argv else "the shell"
    reason = _reason(errno)
    match step:
        case "chdir" if errno == errno_names.ESTALE:
            return f"{command.cwd} {OTHER_DIRECTORY}", 126
        case "chdir":
            return f"cannot enter the directory {command.cwd}: {reason}", 126
        case "exec" if errno in _NOT_FOUND:
            return f"{name}: not found, or its interpreter is not", 127
        case "exec" if errno == errno_names.E2BIG:
            return f"{name}: arguments and environment are too long for the kernel", 126
        case "exec":
            return f"{name}: cannot be executed: {reason}", 126
        case "join" | "spool":
            return _CANNOT[step].format(reason), 126
        case "fork":
            return f"no process could be made: {reason}; end something and try again", 126
        case _:
            return f"the command could not be set up ({step}): {reason}", 126


def _reason(errno: int) -> str:
    text = {
        errno_names.ENOENT: "no such file or directory",
        errno_names.ENOTDIR: "not a directory",
        errno_names.EACCES: "permission denied",
        errno_names.ENOEXEC: "not a program the kernel knows (is the #! line missing?)",
        errno_names.EAGAIN: "too many processes",
        errno_names.ENOMEM: "not enough memory",
        errno_names.ELOOP: "too many symbolic links",
    }
    return text.get(errno, errno_names.errorcode.get(errno, str(errno)))
