"""The exit codes, as GNU timeout gives them. Pure."""

from shelltie.errors import CannotStart, CommandDenied, Misuse, TerminalError

WRONG_USAGE = 2
TIMED_OUT = 124
SHELLTIE_FAILED = 125
REFUSED = 126
INTERRUPTED = 130
NOBODY_READS = 141  # as a shell reports a death by SIGPIPE


def of_error(error: TerminalError) -> int:
    """What a script learns from an error of ours."""
    if isinstance(error, CannotStart):
        return error.exit_code
    if isinstance(error, CommandDenied):
        return REFUSED
    return WRONG_USAGE if isinstance(error, Misuse) else SHELLTIE_FAILED
