"""Approval records: the Question about a command, and the Answer with its scope."""

import hashlib
import json
import os
import time
from dataclasses import replace
from enum import StrEnum
from typing import Self

from shelltie.basics.frozen import frozen
from shelltie.basics.ids import ShortIds
from shelltie.model import Command, Directory
from shelltie.settings.files import file_identity
from shelltie.verdict import Code, Verdict

NOBODY = "nobody"  # who answered when there was no answer
_HEAD = 128 * 1024
_IDS = ShortIds()
_APPLY = "apply"  # instead of the place where a command would run

LATE_ANSWER_WINDOW = 600.0  # how long a late question may be answered, and a late answer be used


class Kind(StrEnum):
    """What a person may allow as a whole. The list is closed."""

    DELETE_IGNORED = "delete_ignored"
    PUSH = "push"
    INSTALL_LOCKED = "install_locked"
    STOP_OWN = "stop_own"


@frozen
class ProvedKind:
    """A kind that was proved of a command; `detail` is the remote and its address, or the lock."""

    kind: Kind
    workspace: str
    detail: str = ""

    @property
    def told(self) -> str:
        """In words, as a person is offered it."""
        return {
            Kind.DELETE_IGNORED: f"delete what git ignores in {self.workspace}",
            Kind.PUSH: f"push without force to {self.detail} from {self.workspace}",
            Kind.INSTALL_LOCKED: f"install what {self.detail} of {self.workspace} locks",
            Kind.STOP_OWN: f"stop processes that shelltie started in {self.workspace}",
        }[self.kind]


class Scope(StrEnum):
    """How far a yes goes. But for a kind, it is always a yes to exactly this command."""

    ONCE = "once"
    SESSION = "session"  # until this server ends
    ALWAYS = "always"  # kept in a file, for every server
    KIND = "kind"  # the same for every command of this kind, in this workspace


@frozen
class Answer:
    """Yes or no, who said so, and why."""

    allowed: bool
    scope: Scope = Scope.ONCE
    by: str = ""
    reason: str = ""
    unclear: bool = False  # neither yes nor no was said: it counts as no


@frozen
class Input:
    """What the command will read: how much, its digest and how it begins."""

    size: int
    digest: str
    head: bytes


@frozen
class Question:
    """May this command run, or what it changed on trial be applied? `digest` stands for all that a
    yes is bound to.
    """

    id: str
    command: Command
    verdict: Verdict
    provider: str
    client: str
    asked_at: float
    digest: str
    input: Input | None = None
    directory: Directory | None = None  # that its cwd was when this was asked
    withheld: tuple[str, ...] = ()  # variables of the call that the command does not get
    kind: ProvedKind | None = None  # that a yes may be for, if one was proved

    @classmethod
    def about(
        cls,
        command: Command,
        verdict: Verdict,
        provider: str,
        client: str = "",
        withheld: tuple[str, ...] = (),
        kind: ProvedKind | None = None,
    ) -> Self:
        """A new question. A link in the directory's name is followed now, and the yes is bound to
        where it leads: by the time somebody says it, another directory may have the name.
        """
        command = replace(command, cwd=os.path.realpath(command.cwd))
        directory = file_identity(command.cwd) or (0, 0)  # where there is none, one that never is
        # A yes to changes is none to run their text as a command.
        purpose = _APPLY if _is_about_changes(verdict) else provider
        return cls(
            id=_IDS.new(),
            command=command,
            verdict=verdict,
            provider=provider,
            client=client,
            asked_at=time.time(),
            digest=fingerprint(command, purpose, directory),
            input=None
            if (data := command.stdin) is None
            else Input(len(data), hashlib.sha256(data).hexdigest(), data[:_HEAD]),
            directory=directory,
            withheld=withheld,
            kind=kind,
        )

    @property
    def is_apply(self) -> bool:
        """Whether a yes applies the changes of a trial; nothing is run then."""
        return _is_about_changes(self.verdict)

    @property
    def env(self) -> dict[str, str | None]:
        """What the call changes in the environment of its command."""
        env = self.command.env
        return {name: env[name] for name in env if name not in self.withheld}


def _is_about_changes(verdict: Verdict) -> bool:
    return any(reason.code is Code.TRIAL_CHANGES for reason in verdict.reasons)


def fingerprint(command: Command, provider: str, directory: Directory | None = None) -> str:
    """The same for two commands only if they would do the same, to the letter, in the same place.

    `command.cwd` must be absolute. Without `directory` it is one by its name alone.
    """
    bound = {
        "text": command.text if command.argv is None else None,
        "argv": command.argv,
        "cwd": command.cwd,
        "env": sorted((repr(name), repr(value)) for name, value in command.env.items()),
        "stdin": None if command.stdin is None else hashlib.sha256(command.stdin).hexdigest(),
        "pty": command.pty is not None,
        "provider": provider,
        **({} if directory is None else {"directory": directory}),
    }
    return hashlib.sha256(json.dumps(bound, sort_keys=True).encode("ascii")).hexdigest()


@frozen
class Pending:
    """A question that can be answered; a late one allows the same call when it is repeated."""

    question: Question
    late: bool
    expires_at: float | None = None  # then it counts as no; `None` if nobody knows when
