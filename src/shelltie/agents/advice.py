"""Retry advice after an agent task failed: whether to try again, and with what changes. Pure."""

import re
from collections.abc import Mapping

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy

# What is found in the last event or at the end of stderr, and what to do then.
_FOUND = (
    (
        r"auth(entication|orization)?[ _-]?(failed|required|error)|unauthori[sz]ed|\b401\b"
        r"|invalid[ _]api[ _]key|not logged in|log ?in (is )?required|please (run )?.{0,20}login",
        "fix_authentication",
        "it could not log in; another try fails the same way",
    ),
    (
        r"rate[ _-]?limit|too many requests|\b429\b|quota exceeded|overloaded",
        "wait_and_retry",
        "the service wants fewer requests; wait before the next one",
    ),
    (
        r"ENOTFOUND|ECONNREFUSED|ECONNRESET|could not resolve|network is unreachable|no route to"
        r"|connection (refused|reset|timed out)",
        "check_network",
        "the network failed it",
    ),
    (
        r"permission denied|EACCES|operation not permitted|read-only file system",
        "fix_permissions",
        "it was not allowed to do what it wanted",
    ),
)
_PATTERNS = [(lazy(p, re.IGNORECASE), action, why) for p, action, why in _FOUND]
_RETRY = {"retry_longer": True, "wait_and_retry": True, "check_network": True}
_LOOKED_AT = 4096  # characters of what it said last
_NOT_FOUND = 127  # what a shell says when there is no such program
_MISSING = lazy(r"(?P<program>\S+): (?:command not found|not found|No such file or directory)\s*\Z")


@frozen
class FailedTask:
    """What is known of a task that ended badly."""

    kind: str
    events: int
    never_started: bool
    last_event: Mapping[str, object] | None
    said: str
    exit_code: int | None = None


@frozen
class Advice:
    """What to do next; `retry` is whether the same task again makes sense."""

    action: str
    retry: bool
    why: str


def missing_program(exit_code: int | None, said: str) -> str | None:
    """The program that is not there, if the shell ended with saying so."""
    found = _MISSING.search(said) if exit_code == _NOT_FOUND else None
    return None if found is None else found["program"]


def advise(seen: FailedTask) -> Advice:
    """What whoever asked should do."""
    if missing_program(seen.exit_code, seen.said) is not None:
        why = "the program is not there: install it, or give its whole path"
        return Advice("install_program", retry=False, why=why)
    said = f"{seen.last_event or ''} {seen.said}"[-_LOOKED_AT:]
    for pattern, action, why in _PATTERNS:
        if pattern.search(said):
            return Advice(action, _RETRY.get(action, False), why)
    action, why = _by_kind(seen)
    return Advice(action, _RETRY.get(action, False), why)


def _by_kind(seen: FailedTask) -> tuple[str, str]:
    match seen.kind:
        case "inactivity" if seen.never_started:
            return "different_approach", "it never printed a byte: it hung before it began"
        case "inactivity" if not seen.events:
            return "different_approach", "it reported no event before it fell silent"
        case "inactivity":
            event = seen.last_event
            last = f"last event: {event.get('type', 'unnamed')}" if event else "events"
            return "retry_longer", f"it was at work ({last}) and fell silent"
        case "deadline":
            return "retry_longer", "it was at work when its time was over; or give it less to do"
        case "spawn":
            return "fix_command", "nothing was run"
        case _:
            return "read_error", "it ended by itself; what it said last tells why"
