"""Placement: which provider and isolation a command gets.

A level that was asked for and cannot be had is an error. Nothing runs in a weaker place instead.
"""

import tempfile
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache

from shelltie.basics.frozen import frozen
from shelltie.errors import (
    CannotStart,
    CommandDenied,
    InvalidParameters,
    IsolationUnavailable,
    NotSetUp,
    Silent,
)
from shelltie.model import AUTO, ISOLATION_LEVELS, Bar, Command, Isolation, Survivors
from shelltie.providers.lazy import LazyProvider
from shelltie.providers.provider import DOCKER, WRITES_LIVE, Provider, Views
from shelltie.running.options import RunOptions
from shelltie.settings.places import PlaceRules
from shelltie.verdict import Rating, Verdict

_ON_TRIAL = "bubblewrap"
_NO_PLACES: Mapping[str, LazyProvider] = {}
Demands = Mapping[Rating, str]


Placed = tuple[Provider, tuple[str, ...]]  # and what to tell about the choice


_OUTSIDE_VIEW = frozenset({"processes", "everything"})  # needs that no view can meet
_OF_DOCKER = "DOCKER_"  # variables that lead to another engine
_ONLY_JUDGED = (
    "what is rated safe runs unconfined here, so safe is only a judgement ({}); shelltie doctor"
    " tells more"
)


_WRITES_LIVE = WRITES_LIVE + ", with what is guarded read-only ({})"


@frozen
class _Level:
    """At least this, and if `strongest` the most there is."""

    least: Isolation
    strongest: bool


class Placement:
    """Chooses the provider for a command. The first is for what is not isolated; `workspace` is
    where isolated commands may write unless a call names another directory. Unknown commands of the
    profiles in `instead_of_asking` are isolated where nobody can be asked about them. What is rated
    safe runs in one of the `views`. `staying` is for what shall outlive us; a call asks
    for it by no name. `places` are on other machines: calls name them, or `place_rules` demand one.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        demands: Mapping[str, Demands],
        *,
        workspace: str = ".",
        instead_of_asking: Collection[str] = (),
        views: Views | None = None,
        views_required: bool = False,
        sandbox_writes: str = "live",
        yes_lifts_demands: bool = False,
        staying: LazyProvider | None = None,
        places: Mapping[str, LazyProvider] = _NO_PLACES,
        place_rules: PlaceRules = PlaceRules(),  # noqa: B008  frozen
    ) -> None:
        self.default = providers[0]
        self.staying = staying
        self.places = places
        self._place_rules = place_rules
        self.providers: Mapping[str, Provider] = {one.name: one for one in providers}
        self._demands = demands
        self._workspace = workspace
        self._instead = instead_of_asking
        self._working: dict[str, bool] = {}  # by what was seen, once
        self.views = views
        self._views_required = views_required
        self._told: deque[str] = deque(maxlen=100)  # why something is weaker here
        self._writes = sandbox_writes
        self._yes_lifts_demands = yes_lifts_demands

    def workspace_for(self, options: RunOptions) -> str:
        """Where a command may write if it is isolated."""
        return options.workspace or self._workspace

    async def choose(self, options: RunOptions, verdict: Verdict | None) -> Placed:
        """A provider that is ready, and reserves the place for a while; the spawn asks no more.

        Raises: InvalidParameters for what we do not know, CommandDenied where the policy demands
            more than the provider has, IsolationUnavailable; CannotStart where a place cannot be
            reached.
        """
        asked = options.isolation
        if asked is not None and asked not in ISOLATION_LEVELS:
            known = ", ".join(ISOLATION_LEVELS)
            raise InvalidParameters(f"there is no isolation {asked!r}: use {known}")
        if (place := self.place_for(options)) is not None:
            if verdict is not None:
                await self.require_isolation(place, options, verdict)
            await place.ready("")
            return place.made, ()
        if options.stays:
            return await self._outliving(options, verdict), ()
        if options.provider is not None:
            return await self._named(options.provider, options, verdict), ()
        level = _level(asked, self._demanded(options.profile, verdict))
        if not level.strongest and level.least is Isolation.NONE:
            return self.default, ()
        provider, notes = await self._first(level, self.workspace_for(options))
        if asked in (None, AUTO) or level.least.rank <= Isolation(asked).rank:
            return provider, notes
        raised = f"the policy demands {level.least} for this command, not only {asked}"
        return provider, (*notes, raised)

    def place_for(self, options: RunOptions) -> LazyProvider | None:
        """The place on another machine that a call names, or that the settings demand.

        Raises: InvalidParameters for one that there is not, CommandDenied for one that may not be.
        """
        rules, at = self._place_rules, options.at
        if at is None:
            if not rules.demand or options.profile is None:
                return None
            at = rules.demand[0]
        self._check_place(at, options)
        return self.places[at]

    def _check_place(self, at: str, options: RunOptions) -> None:
        rules = self._place_rules
        if at not in self.places:
            there = f"there are {', '.join(self.places)}" if self.places else "none is configured"
            raise InvalidParameters(
                f"there is no place {at!r}: {there}; [places.{at}] in the settings makes one"
            )
        if "*" in rules.forbid or at in rules.forbid:
            raise CommandDenied(f"the policy forbids commands at {at} (place.forbid)")
        if rules.demand and at not in rules.demand:
            demanded = " or ".join(rules.demand)
            raise CommandDenied(
                f"the policy demands that commands run at {demanded} (place.demand)"
            )
        own = str(self.places[at].isolation)
        if options.isolation not in (None, own):
            raise InvalidParameters(
                f"{at} has isolation {own}, and {options.isolation} was asked for: name one of them"
            )
        if options.trial or options.stays or options.provider is not None:
            raise InvalidParameters(
                f"at {at} there are no trials, no other providers, and nothing that stays: leave"
                " that out"
            )

    async def confine(self, placed: Placed, command: Command, verdict: Verdict) -> Placed:
        """What is rated safe, and would run without isolation, runs in a read-only view.

        A session stays where it is: what is typed there is not rated safe.
        Raises: IsolationUnavailable, where the settings require a view.
        """
        needs = verdict.needs
        safe = verdict.rating is Rating.SAFE and verdict.agreed and not needs & _OUTSIDE_VIEW
        if self.views is None or not safe or command.stays_open or placed[0] is not self.default:
            return placed
        if DOCKER in needs and any(name.startswith(_OF_DOCKER) for name in command.env):
            return placed
        try:
            view = await self.views.enter(needs, command.cwd)
            return view or placed[0], placed[1]
        except CannotStart as error:
            if self._views_required:
                raise IsolationUnavailable(f"safety.enforce is required, and {error}") from error
            told = _ONLY_JUDGED.format(error)
            if told in self._told:
                return placed
            self._told.append(told)
            return placed[0], (*placed[1], told)

    async def require_isolation(
        self, provider: Provider, options: RunOptions, verdict: Verdict
    ) -> None:
        """Whether the policy lets such a command run there.

        Raises: CommandDenied, IsolationUnavailable.
        """
        level = _level(None, self._demanded(options.profile, verdict))
        least = level.least
        if level.strongest:
            least = (await self._first(level, self.workspace_for(options)))[0].isolation
        if provider.isolation.rank < least.rank:
            raise CommandDenied(
                f"the policy demands {least} for this command, and {provider.name} has isolation"
                f" {provider.isolation}",
                verdict,
            )

    def keeps_inside(self, profile: str | None, verdict: Verdict) -> str | None:
        """The isolation that the policy demands for this, if no yes can lift it."""
        demanded = self._demanded(profile, verdict)
        return None if self._yes_lifts_demands or demanded == Isolation.NONE else demanded

    @property
    def trial_provider(self) -> Provider:
        """Who has places on trial."""
        return self.providers.get(_ON_TRIAL, self.default)

    def writes_apart(self, provider: Provider, command: Command, options: RunOptions) -> bool:
        """Whether what a command writes there is kept apart, and applied when it has ended.

        A session writes to the workspace itself, as others look at what it does; so does what
        leaves somebody behind.
        """
        stays = command.stays_open or options.survivors not in (None, Survivors.KILL)
        in_sandbox = provider is self.providers.get(_ON_TRIAL)
        return self._writes != "live" and in_sandbox and not stays

    def without_overlay(self, why: str) -> tuple[str, ...]:
        """What to tell where it cannot be kept apart: each reason once.

        Raises: IsolationUnavailable, where the settings demand it.
        """
        if self._writes == "trial":
            raise IsolationUnavailable(f'sandbox.writes is "trial", and {why}. Nothing was run')
        told = _WRITES_LIVE.format(why)
        if told in self._told:
            return ()
        self._told.append(told)
        return (told,)

    @property
    def trial_reaches_out(self) -> bool:
        """Whether something on trial could send what it has read."""
        return Bar.NETWORK not in self.trial_provider.bars

    def depends_on_safety(self, profile: str) -> bool:
        """Whether it matters here that a command is safe."""
        demands = self._demands.get(profile, {})
        return self.views is not None or demands.get(Rating.SAFE) != demands.get(Rating.UNKNOWN)

    def isolates_instead_of_asking(self, rating: Rating, profile: str | None) -> bool:
        """Whether a command that nobody can be asked about may run where it does no harm."""
        return profile in self._instead and rating is Rating.UNKNOWN

    async def strongest_isolated(self, options: RunOptions) -> Placed | None:
        """The strongest isolation there is, if there is any."""
        level = _Level(Isolation.SANDBOX, strongest=True)
        try:
            return await self._first(level, self.workspace_for(options))
        except IsolationUnavailable:
            return None

    async def make_ready(self, provider: Provider, options: RunOptions) -> None:
        """Have it reserve the place; what was ready may have been let go since.

        Raises: IsolationUnavailable.
        """
        try:
            await provider.ready(self.workspace_for(options))
        except CannotStart as error:
            raise IsolationUnavailable(str(error)) from error

    async def close(self) -> None:
        """End everything that was started anywhere."""
        if self.views is not None:
            await self.views.close()
        if self.staying is not None:
            await self.staying.close()
        for provider in (*self.providers.values(), *self.places.values()):
            await provider.close()

    def _demanded(self, profile: str | None, verdict: Verdict | None) -> str:
        if profile is None or verdict is None:
            return str(Isolation.NONE)
        # What two parsers do not agree on is not safe.
        proved = verdict.agreed or verdict.rating is not Rating.SAFE
        rating = verdict.rating if proved else Rating.UNKNOWN
        return self._demands.get(profile, {}).get(rating, str(Isolation.NONE))

    async def _outliving(self, options: RunOptions, verdict: Verdict | None) -> Provider:
        isolated = options.isolation not in (None, AUTO, Isolation.NONE)
        if self.staying is None or isolated or options.provider not in (None, self.default.name):
            raise InvalidParameters(
                "what stays runs here, without isolation: name no other provider and no isolation"
            )
        if verdict is not None:
            await self.require_isolation(self.staying, options, verdict)
        return self.staying

    async def _named(self, name: str, options: RunOptions, verdict: Verdict | None) -> Provider:
        provider = self.providers.get(name)
        if provider is None:
            raise InvalidParameters(
                f"there is no provider {name!r}: there are {', '.join(self.providers)}"
            )
        if options.isolation not in (None, AUTO, provider.isolation):
            raise InvalidParameters(
                f"{provider.name} has isolation {provider.isolation}, and {options.isolation} was"
                " asked for: name one of them"
            )
        if verdict is not None:
            await self.require_isolation(provider, options, verdict)
        await self.make_ready(provider, options)
        return provider

    async def _first(self, level: _Level, workspace: str) -> Placed:
        """The first that works; of several levels the strongest.

        If one works on this machine but not there, that is an error: whoever can spoil a workspace
        could else choose the level.
        """
        problems: list[str] = []
        noteworthy: list[str] = []  # what nobody has set up is no news
        for provider in self._fitting(level):
            try:
                await provider.ready(workspace)
            except CannotStart as error:
                problems.append(f"{provider.name}: {error}")
                noteworthy += () if isinstance(error, NotSetUp) else problems[-1:]
                if level.strongest and await self._works(provider, error):
                    raise IsolationUnavailable(
                        f"{provider.name} works here, but not for this workspace, and nothing was"
                        f" run without it: {error}"
                    ) from error
                continue
            self._working[provider.name] = True
            chosen = f"isolation is {provider.isolation}, by {provider.name}"
            notes = "; ".join((chosen, *noteworthy)) if level.strongest else ""
            return provider, (notes,) if notes else ()
        raise IsolationUnavailable(
            f"isolation {level.least} cannot be had here, and nothing was run without it: "
            + ("; ".join(problems) or "no provider of that level is configured")
        )

    async def _works(self, provider: Provider, problem: CannotStart) -> bool:
        """Whether it works here at all; tried once, in a directory that nobody has spoiled."""
        if isinstance(problem, NotSetUp):
            return False
        if isinstance(problem, Silent):
            return self._working.get(provider.name, False)
        if provider.name not in self._working:
            with tempfile.TemporaryDirectory(prefix="shelltie-") as empty:
                try:
                    await provider.ready(empty)
                except CannotStart:
                    self._working[provider.name] = False
                else:
                    self._working[provider.name] = True
        return self._working[provider.name]

    def _fitting(self, level: _Level) -> Iterator[Provider]:
        ranked = sorted(self.providers.values(), key=lambda one: -one.isolation.rank)
        for provider in ranked:
            rank = provider.isolation.rank
            if rank == level.least.rank or (level.strongest and rank > level.least.rank):
                yield provider


@cache
def _level(asked: str | None, demanded: str) -> _Level:
    """The stricter of what a call asks for and the policy demands."""
    words = [word for word in (asked, demanded) if word is not None]
    levels = [Isolation(word) for word in words if word != AUTO]
    least = max(levels, key=lambda level: level.rank, default=Isolation.NONE)
    return _Level(least, strongest=AUTO in words)
