"""Admission: may this command run? Judged by the rules, and approved by a person where asked."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from itertools import chain
from typing import Protocol

from shelltie.approval.broker import Broker, Channel
from shelltie.approval.question import NOBODY, Question
from shelltie.basics.frozen import frozen
from shelltie.errors import CommandDenied, ConfirmationRequired, TerminalError
from shelltie.events import ApprovalAnswered, ApprovalAsked, CommandJudged, CommandRefused, Publish
from shelltie.model import Caller, Command, Directory, Isolation, RunId
from shelltie.providers.provider import Provider
from shelltie.running.placement import Asked, Place, Places
from shelltie.running.run import Run
from shelltie.verdict import Decision, Rating, Reason, Span, Verdict


class CommandJudge(Protocol):
    """Who rates commands. `look` looks at the text alone; what it calls safe has to be confirmed
    by a second parser and a look at the disk; `judge` does both.
    """

    async def look(self, command: Command) -> Verdict: ...

    async def confirm(self, command: Command, verdict: Verdict) -> Verdict: ...

    async def judge(self, command: Command) -> Verdict: ...


Decisions = Mapping[Rating, Decision]


@frozen
class Patience:
    """How long an answer is waited for; `None` is as long as the caller waits."""

    unknown: float | None = 10.0
    dangerous: float | None = None

    def of(self, rating: Rating) -> float | None:
        """The time for a command of that rating."""
        return self.dangerous if rating is Rating.DANGEROUS else self.unknown


@frozen
class Party:
    """Who wants a command to run, how they can be asked for a yes, and how many seconds they wait
    for it at most, whatever else is configured.
    """

    caller: Caller = field(default_factory=Caller)
    channel: Channel | None = None
    patience: float | None = None


@frozen
class Request:
    """By whose rules a command shall run, where, who wants it, and which variables of the call are
    withheld from it.
    """

    profile: str
    provider: str
    party: Party = field(default_factory=Party)
    withheld: tuple[str, ...] = ()


class Gate:
    """Every command of a supervisor passes here, once, before anything is started."""

    def __init__(
        self,
        judge: CommandJudge,
        profiles: Mapping[str, Decisions],
        broker: Broker,
        publish: Publish,
        patience: Patience = Patience(),  # noqa: B008  frozen
    ) -> None:
        self.judge = judge
        self.broker = broker
        self.patience = patience
        self._profiles = profiles
        self._publish = publish

    async def rate(self, command: Command, profile: str, *, doubt: bool = False) -> Verdict:
        """What we think of a command; safe is confirmed where it matters, or somebody doubts."""
        decisions = self._profiles[profile]
        verdict = await self.judge.look(command)
        matters = doubt or decisions[Rating.SAFE] != decisions[Rating.UNKNOWN]
        if verdict.rating is Rating.SAFE and matters:
            verdict = await self.judge.confirm(command, verdict)
        return verdict

    async def rate_input(self, command: Command, readings: Sequence[bytes]) -> Verdict | None:
        """What is dangerous about a command's input beside the command itself, if anything is.

        All its readings count. Where there are several, a reason is about the whole input, and
        whoever is asked must be shown all of it: its place in one of them says nothing.
        """
        known = (await self.judge.look(replace(command, stdin=None))).reasons
        verdicts = [await self.judge.look(replace(command, stdin=one)) for one in readings]
        found = chain.from_iterable(verdict.reasons for verdict in verdicts)
        reasons = [it for it in found if it.rating is Rating.DANGEROUS and it not in known]
        if not reasons:
            return None
        if len(readings) > 1:
            typed = (command.stdin or b"").decode("utf-8", "surrogateescape")
            whole = Span(0, len(command.text) + 1 + len(typed))
            reasons = [*dict.fromkeys(replace(reason, span=whole) for reason in reasons)]
        return replace(verdicts[0], rating=Rating.DANGEROUS, reasons=tuple(reasons))

    async def admit(
        self, run: RunId, command: Command, verdict: Verdict, request: Request
    ) -> Directory | None:
        """Let a command of this verdict run; if somebody said yes, in that directory alone.

        Raises: CommandDenied; then it may not.
        """
        decision = self._profiles[request.profile][verdict.rating]
        self._publish(CommandJudged(run, time.time(), command.text, verdict, decision))
        if decision is Decision.DENY:
            raise CommandDenied(f"the policy refuses {_named(verdict)}", verdict)
        if decision is Decision.ASK:
            return await self._ask(run, command, verdict, request)
        return None

    def can_ask(self, party: Party) -> bool:
        """Whether somebody is there who would see a question at once."""
        own = party.channel is not None and party.channel.can_ask
        return own or self.broker.can_ask

    async def _ask(
        self, run: RunId, command: Command, verdict: Verdict, request: Request
    ) -> Directory | None:
        party = request.party
        patience = _shorter(self.patience.of(verdict.rating), party.patience)
        with _keeping_its_number(command.cwd):
            question = Question.about(
                command, verdict, request.provider, party.caller.client, request.withheld
            )
            self._publish(ApprovalAsked(run, time.time(), question.id))
            answer = await self.broker.ask(question, patience, party.channel)
        self._publish(
            ApprovalAnswered(
                run,
                time.time(),
                question.id,
                answer.allowed,
                answer.by,
                str(answer.scope),
                answer.reason,
            )
        )
        if answer.allowed:
            return question.directory
        if answer.by == NOBODY:
            raise ConfirmationRequired(
                f"a person must approve {_named(verdict)}: {answer.reason}",
                verdict,
                {"question": question.id},
            )
        reason = f": {answer.reason}" if answer.reason else ""
        raise CommandDenied(f"{answer.by} refused {_named(verdict)}{reason}", verdict)


@contextmanager
def _keeping_its_number(directory: str) -> Iterator[None]:
    """While a directory is open its inode is not reused: one that is made anew has another."""
    try:
        fd = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    except OSError:  # then there is none that a yes could be for
        yield
        return
    try:
        yield
    finally:
        os.close(fd)


def _shorter(one: float | None, other: float | None) -> float | None:
    """The shorter of two times; `None` is without end."""
    return min((each for each in (one, other) if each is not None), default=None)


def _named(verdict: Verdict) -> str:
    """`a dangerous command (rm -r deletes whole trees)`."""
    strictest: list[Reason] = [r for r in verdict.reasons if r.rating is verdict.rating]
    why = "; ".join(dict.fromkeys(reason.message for reason in strictest[:3]))
    article = "an" if verdict.rating is Rating.UNKNOWN else "a"
    return f"{article} {verdict.rating} command" + (f" ({why})" if why else "")


_UNSEEN = (
    "the terminal does not show what is typed now, and in a shell this would be dangerous: a person"
    " can type it with `shelltie attach`"
)


@frozen
class Ticket:
    """By whose rules a command wants to run, where, who wants it, and which variables of the call
    are withheld from it.
    """

    profile: str
    place: Asked
    party: Party = field(default_factory=Party)
    withheld: tuple[str, ...] = ()


class Entry:
    """Every command passes here, once, before anything is started."""

    def __init__(self, gate: Gate, places: Places, publish: Publish) -> None:
        self.gate = gate
        self._places = places
        self._publish = publish

    async def enter(
        self, run: RunId, command: Command, ticket: Ticket, gate: Gate | None = None
    ) -> tuple[Verdict, Place]:
        """The verdict on a command that may run, and the place for it.

        Raises: CommandDenied, InvalidParameters, IsolationUnavailable; then it may not.
        """
        gate = gate or self.gate
        doubt = self._places.depends_on_safety(ticket.profile)
        verdict = await gate.rate(command, ticket.profile, doubt=doubt)
        try:
            place = await self._places.choose(ticket.place, ticket.profile, verdict)
            instead = await self._instead(place, verdict, ticket, gate)
            place = await _asked(run, command, verdict, ticket, gate, place, instead)
            return verdict, await self._places.still_ready(place, ticket.place.workspace)
        except TerminalError as refusal:
            self._refused(run, command, refusal)
            raise

    async def unjudged(self, run: RunId, command: Command, asked: Asked) -> Place:
        """The place for a command that was allowed already.

        Raises: InvalidParameters, IsolationUnavailable.
        """
        try:
            return await self._places.choose(asked, None, None)
        except TerminalError as refusal:
            self._refused(run, command, refusal)
            raise

    async def give(
        self, run: RunId, command: Command, ticket: Ticket, gate: Gate, provider: Provider
    ) -> None:
        """Let a command be given to a run that lives there.

        Raises: CommandDenied, IsolationUnavailable.
        """
        verdict = await gate.rate(command, ticket.profile)
        try:
            workspace = ticket.place.workspace
            await self._places.check(provider, ticket.profile, verdict, workspace)
            await _asked(run, command, verdict, ticket, gate, Place(provider), None)
        except TerminalError as refusal:
            self._refused(run, command, refusal)
            raise

    async def let_type(
        self, run: Run, command: Command, readings: Sequence[bytes], ticket: Ticket
    ) -> None:
        """Let input be typed into a run: that of the command which reads it there.

        Raises: CommandDenied.
        """
        verdict = await self.gate.rate_input(command, readings)
        if verdict is None:
            return
        if (seen := run.look()) is not None and seen.password:
            # It may be a password: then no question may show it, and no record have it.
            raise CommandDenied(_UNSEEN, Verdict(Rating.DANGEROUS))
        place = Place(self._places.all[run.provider])
        isolated = run.isolation is not Isolation.NONE
        instead = await self._instead(place, verdict, ticket, self.gate) if isolated else None
        try:
            await _asked(run.id, command, verdict, ticket, self.gate, place, instead)
        except TerminalError as refusal:
            self._refused(run.id, command, refusal)
            raise

    async def _instead(
        self, place: Place, verdict: Verdict, ticket: Ticket, gate: Gate
    ) -> Place | None:
        """Where it does no harm, if nobody can be asked about it."""
        lets = self._places.isolates_instead_of_asking(verdict.rating, ticket.profile)
        if not lets or gate.can_ask(ticket.party):
            return None
        if place.provider.isolation is not Isolation.NONE:
            return place
        return await self._places.strongest_isolated(ticket.place.workspace)

    def _refused(self, run: RunId, command: Command, refusal: TerminalError) -> None:
        told = CommandRefused(run, time.time(), command.text, refusal.code, str(refusal))
        self._publish(told)


async def _asked(
    run: RunId,
    command: Command,
    verdict: Verdict,
    ticket: Ticket,
    gate: Gate,
    place: Place,
    instead: Place | None,
) -> Place:
    """The place it may run in: the one meant for it, or the one that needs no yes."""
    party = ticket.party
    if instead is not None and verdict.rating is Rating.UNKNOWN:
        # A yes that was given before counts, and the question stays for one that comes late.
        party = replace(party, patience=0.0)
    try:
        request = Request(ticket.profile, place.provider.name, party, ticket.withheld)
        directory = await gate.admit(run, command, verdict, request)
    except ConfirmationRequired as nobody:
        if instead is None:
            raise
        told = f"{nobody}. So it ran isolated, by {instead.provider.name}"
        return Place(instead.provider, (*instead.notes, told))
    return replace(place, directory=directory)
