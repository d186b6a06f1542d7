"""Judges what an agent types into a session, where a shell or an interpreter reads it.

A line counts when it is finished. Keys that edit it are followed as far as they erase; the cursor
and the history of whoever reads it are not.
"""

from dataclasses import replace

from shelltie.model import Command
from shelltie.regex import regex
from shelltie.running.gate import Party
from shelltie.running.session import Session
from shelltie.running.supervisor import Supervisor

_LINE_MAX = 64 * 1024  # characters of an unfinished line
# A paste's brackets, and keys that are more than one byte.
_KEYS = regex(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?")
_FINISHES = regex(r"[\x00-\x1f]")
_DOES_NOT_FINISH = "\t\b\x1b"
_ERASES = "\b\x7f"
_ERASES_ALL = "\x03\x15"


async def admit(
    supervisor: Supervisor,
    session: Session,
    reader: Command,
    data: bytes,
    party: Party,
    *,
    end: bool = False,
) -> None:
    """Let this be typed for the command that reads it; `end` is the end of all input.

    Raises: CommandDenied; then it may not.
    """
    session.unfinished += data.decode("utf-8", "surrogateescape")
    typed = session.unfinished
    if not (end or len(typed) > _LINE_MAX or _finishes(data.decode("latin-1"))):
        return
    session.unfinished = "" if end else typed[_last_finish(typed) :][-_LINE_MAX:]
    text = as_read(typed)
    if text.strip():
        stdin = text.encode("utf-8", "surrogateescape")
        await supervisor.let_type(session.run, replace(reader, stdin=stdin), party)


def as_read(typed: str) -> str:
    """What is left of keys when they have been pressed."""
    kept: list[str] = []
    for char in _KEYS.sub("", typed).replace("\r", "\n"):
        if char in _ERASES:
            if kept and kept[-1] != "\n":
                kept.pop()
        elif char in _ERASES_ALL:
            while kept and kept[-1] != "\n":
                kept.pop()
        elif char >= " " or char in "\t\n":
            kept.append(char)
    return "".join(kept)


def _finishes(typed: str) -> bool:
    return _last_finish(typed) > 0


def _last_finish(typed: str) -> int:
    """Where the unfinished line begins."""
    ends = [it.end() for it in _FINISHES.finditer(typed) if it[0] not in _DOES_NOT_FINISH]
    return ends[-1] if ends else 0
