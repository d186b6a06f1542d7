"""Whether and where a command may run: judged, given a place, and asked about if need be."""

import time
from collections.abc import Sequence
from dataclasses import field, replace

from shelltie.errors import CommandDenied, ConfirmationRequired, TerminalError
from shelltie.events import CommandRefused, Publish
from shelltie.frozen import frozen
from shelltie.model import Command, Isolation, RunId
from shelltie.providers.provider import Provider
from shelltie.running.gate import Gate, Party, Request
from shelltie.running.places import Asked, Place, Places
from shelltie.running.run import Run
from shelltie.verdict import Rating, Verdict

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
        doubt = self._places.tells_safe_apart(ticket.profile)
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
        lets = self._places.lets_unasked(verdict.rating, ticket.profile)
        if not lets or gate.can_ask(ticket.party):
            return None
        if place.provider.isolation is not Isolation.NONE:
            return place
        return await self._places.harmless(ticket.place.workspace)

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
