"""Admission: may this command run, and where? The rules decide, or a person who is asked."""

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import anyio.to_thread

from shelltie.approval.broker import Broker
from shelltie.approval.decision import decide_by_profile
from shelltie.approval.kinds import prove
from shelltie.approval.question import NOBODY, Question, fingerprint
from shelltie.basics.frozen import frozen, replace
from shelltie.errors import (
    CannotStart,
    CommandDenied,
    ConfirmationRequired,
    InvalidParameters,
    IsolationUnavailable,
    RefusedByPerson,
    TerminalError,
)
from shelltie.events import (
    ApprovalAnswered,
    ApprovalAsked,
    CommandAsked,
    CommandJudged,
    CommandRefused,
    Publish,
    SafeCorrected,
)
from shelltie.model import (
    AUTO,
    OUTSIDE,
    Bar,
    Caller,
    Command,
    Directory,
    Isolation,
    RunId,
    Surroundings,
)
from shelltie.providers.provider import Provider
from shelltie.running.interfaces import CommandJudge
from shelltie.running.messages import withheld_of
from shelltie.running.on_trial import LazyTrials, TrialRun
from shelltie.running.options import Requester, RunOptions
from shelltie.running.placement import Placed, Placement
from shelltie.running.run import Run
from shelltie.running.tried_outside import TriedOutside
from shelltie.settings.all_settings import ApprovalTimeouts, SafetyProfile
from shelltie.verdict import Code, Decision, Rating, Reason, Span, Verdict

_UNSEEN = (
    "the terminal does not show what is typed now, and in a shell this would be dangerous: a person"
    " can type it with `shelltie attach`"
)

_SESSION_ON_TRIAL = (
    "it runs on trial {0}: nothing real is written. When it has ended, see what it changed with the"
    " tool trial, or with `shelltie changes {0}`, and apply or discard that"
)
_NOTHING_RUN = ". Nothing was run"
_STOPPED_MAX = 1000
_STOPS = {
    Bar.WRITE: "write a file",
    Bar.NETWORK: "use the network",
    Bar.FILES: "read a file with credentials",
    Bar.HOSTS: "reach a host",
}
_STOPPED_BY = "it was rated safe, and then wanted to {}, from which the read-only view kept it"


@frozen
class Admitted:
    """A command may run, by a provider that is ready; `notes` tell why there.

    What was allowed already has no verdict. A yes is for one `directory`, whatever has its name by
    now. `kept_inside` is the isolation that no yes lifts.
    """

    verdict: Verdict | None
    provider: Provider
    notes: tuple[str, ...] = ()
    directory: Directory | None = None
    kept_inside: str | None = None


@frozen
class _JudgedCommand:
    """What a profile decides on: a command, how it was rated, and what goes with the call."""

    run: RunId
    command: Command
    verdict: Verdict
    options: RunOptions
    decision: Decision
    withheld: tuple[str, ...] = ()  # variables of the call that the command does not get


class Admission:
    """Decides on every command of a supervisor, once, before anything is started."""

    def __init__(
        self,
        judge: CommandJudge,
        profiles: Mapping[str, SafetyProfile],
        broker: Broker,
        placement: Placement,
        publish: Publish,
        approval_timeouts: ApprovalTimeouts = ApprovalTimeouts(),  # noqa: B008  frozen
        trials: LazyTrials | None = None,
    ) -> None:
        self.judge = judge
        self.broker = broker
        self.placement = placement
        self.approval_timeouts = approval_timeouts
        self.trials = trials
        if trials is not None:
            trials.ask = self.approve_changes
        self._profiles = profiles
        self._publish = publish
        self._stopped: OrderedDict[str, str] = OrderedDict()  # texts that were no safe ones
        self._blocked: OrderedDict[str, str] = OrderedDict()  # what isolation kept commands from

    async def decide(
        self, run: RunId, command: Command, options: RunOptions, surroundings: Surroundings
    ) -> Admitted:
        """Whether this may run, and where: there it is ready, and reserved for a while.

        Raises: CommandDenied, InvalidParameters, IsolationUnavailable; then it may not.
        """
        self.publish_asked(run, command, options.requester.caller, surroundings.secrets)
        with _PublishingRefusal(self._publish, run, command):
            if options.profile is None:  # it was allowed already
                if options.trial:
                    return await self._on_its_trial(run, command, options, None)
                admitted = Admitted(None, *await self.placement.choose(options, None))
                return await self._writing_apart(run, command, options, admitted)
            if options.at is not None:
                return await self._elsewhere(run, command, options, surroundings)
            verdict = await self._rate(command, options.profile)
            if options.isolation == OUTSIDE:
                return await self._outside(run, command, options, verdict, surroundings)
            decision = self._decision(command, verdict, options)
            kept_inside = self.placement.keeps_inside(options.profile, verdict)
            on_trial = await self._on_trial(run, command, options, verdict, decision)
            if isinstance(on_trial, Admitted):
                return replace(on_trial, kept_inside=kept_inside)
            placed = await self.placement.choose(options, verdict)
            placed = placed[0], (*placed[1], *on_trial)
            placed = await self.placement.confine(placed, command, verdict)
            instead = await self._isolated_instead(placed, verdict, options)
            withheld = withheld_of(command, surroundings.withheld)
            judged = _JudgedCommand(run, command, verdict, options, decision, tuple(withheld))
            admitted = await self._approve(judged, placed, instead=instead)
            if decision in (Decision.ASK, Decision.TRIAL):
                # A person may take minutes; the place is not kept open for that long.
                await self.placement.make_ready(admitted.provider, options)
            if kept_inside is not None:
                admitted = replace(admitted, kept_inside=kept_inside)
            return await self._writing_apart(run, command, options, admitted)

    async def _elsewhere(
        self, run: RunId, command: Command, options: RunOptions, surroundings: Surroundings
    ) -> Admitted:
        """On another machine: what is safe there is a judgement, no view makes it so; on trial
        nothing can run, so that is asked about.

        Raises: CommandDenied, InvalidParameters, CannotStart.
        """
        verdict = await self.judge.judge_elsewhere(command)
        decision = self._decision(command, verdict, options)
        placed = await self.placement.choose(options, verdict)
        withheld = tuple(withheld_of(command, surroundings.withheld))
        judged = _JudgedCommand(run, command, verdict, options, decision, withheld)
        admitted = await self._approve(judged, placed, kinds=False)
        if decision in (Decision.ASK, Decision.TRIAL):
            await admitted.provider.ready("")  # a person may have taken minutes
        return admitted

    async def admit_into(
        self,
        run: RunId,
        command: Command,
        requester: Requester,
        *,
        live_shell: bool,
        profile: str = "session",
        provider: Provider | None = None,
        on_trial: bool = False,
    ) -> None:
        """Let a command be given to what runs already, by that provider; without isolation, if none
        is named. Nothing is asked about what is `on_trial`, unless it could send something.

        To a `live_shell` nothing is safe: it has aliases, functions and a PATH that we do not see.
        Raises: CommandDenied, IsolationUnavailable.
        """
        self.publish_asked(run, command, requester.caller, {})
        options = RunOptions(profile, requester=requester)
        with _PublishingRefusal(self._publish, run, command):
            verdict = await self._rate(command, profile, live_shell=live_shell)
            where = provider or self.placement.default
            await self.placement.require_isolation(where, options, verdict)
            decision = self._decision(command, verdict, options)
            asks = decision in (Decision.ASK, Decision.TRIAL)
            if on_trial and asks and not self.placement.trial_reaches_out:
                self._publish(CommandJudged(run, time.time(), command.text, verdict, decision))
                return
            # An alias or a function of the shell could stand for any word: nothing has a kind.
            placed: Placed = where, ()
            judged = _JudgedCommand(run, command, verdict, options, decision)
            await self._approve(judged, placed, kinds=False)

    async def let_type(
        self, run: Run, command: Command, verdict: Verdict, requester: Requester
    ) -> None:
        """Let input of this verdict be typed into a run: that of the command which reads it there.

        Raises: CommandDenied.
        """
        if (seen := run.look()) is not None and seen.password:
            # It may be a password: then no question may show it, and no record have it.
            raise CommandDenied(_UNSEEN, Verdict(Rating.DANGEROUS))
        options = RunOptions("session", requester=requester)
        placed: Placed = self.placement.providers.get(run.provider, self.placement.default), ()
        isolated = run.isolation is not Isolation.NONE
        instead = await self._isolated_instead(placed, verdict, options) if isolated else None
        withheld = tuple(withheld_of(command, run.surroundings.withheld))
        decision = self._decision(command, verdict, options)
        judged = _JudgedCommand(run.id, command, verdict, options, decision, withheld)
        with _PublishingRefusal(self._publish, run.id, command):
            await self._approve(judged, placed, instead=instead, kinds=False)

    def publish_asked(
        self, run: RunId, command: Command, caller: Caller, secrets: Mapping[str, str]
    ) -> None:
        """Tell that somebody wants this to run."""
        cwd = os.path.abspath(command.cwd)  # noqa: PTH100  resolve() would follow links
        self._publish(
            CommandAsked(
                run,
                time.time(),
                command.text,
                cwd,
                caller,
                stays_open=command.stays_open,
                secrets=secrets,
            )
        )

    # Outside

    def note_blocked(
        self, command: Command, bars: Sequence[Bar], tried: TriedOutside | None
    ) -> None:
        """Isolation has blocked this command: a question about running it outside says so."""
        wanted = " and ".join(_STOPS[bar] for bar in bars)
        told = f"isolation kept it from what it wanted, to {wanted}"
        self._blocked[_same(command)] = f"{told}. {tried.told}" if tried else told
        if len(self._blocked) > _STOPPED_MAX:
            self._blocked.popitem(last=False)

    async def _outside(
        self,
        run: RunId,
        command: Command,
        options: RunOptions,
        verdict: Verdict,
        surroundings: Surroundings,
    ) -> Admitted:
        """Let it run in no isolation, if a person says yes to exactly that.

        Raises: CommandDenied, InvalidParameters.
        """
        local, requester = self.placement.default, options.requester
        if options.trial or options.provider not in (None, local.name):
            raise InvalidParameters(f"isolation {OUTSIDE} goes with no trial and no provider")
        if (level := self.placement.keeps_inside(options.profile, verdict)) is not None:
            raise CommandDenied(kept_inside_by(level), verdict)
        refused = self._decision(command, verdict, options) is Decision.DENY
        decision = Decision.DENY if refused else Decision.ASK
        self._publish(CommandJudged(run, time.time(), command.text, verdict, decision))
        if refused:
            raise CommandDenied(f"the policy refuses {_named(verdict)}", verdict)
        leaving = _leaving(verdict, command.text, self._blocked.get(_same(command), ""))
        withheld = tuple(withheld_of(command, surroundings.withheld))
        directory = await self._ask_person(run, command, leaving, requester, withheld)
        return Admitted(verdict, local, directory=directory)

    # On trial

    async def _on_trial(
        self,
        run: RunId,
        command: Command,
        options: RunOptions,
        verdict: Verdict,
        decision: Decision,
    ) -> Admitted | tuple[str, ...]:
        """Where nothing real is written, if the call or the policy wants that; else why not.

        Raises: IsolationUnavailable where the call wants it and it cannot be had, CommandDenied.
        """
        if decision is Decision.DENY or not (options.trial or decision is Decision.TRIAL):
            return ()
        await self._check_trial(options, verdict)
        if decision is Decision.ASK and self.placement.trial_reaches_out:
            places: Placed = self.placement.trial_provider, ()
            told = _reaching_out(verdict, command.text)
            decided = self._decision(command, told, options)  # it may weigh more than before
            asked = _JudgedCommand(run, command, told, options, decided)
            await self._approve(asked, places, kinds=False)
        else:
            self._publish(CommandJudged(run, time.time(), command.text, verdict, decision))
        try:
            return await self._on_its_trial(run, command, options, verdict)
        except IsolationUnavailable as error:
            if options.trial:
                raise
            return (str(error).removesuffix(_NOTHING_RUN),)

    async def _on_its_trial(
        self, run: RunId, command: Command, options: RunOptions, verdict: Verdict | None
    ) -> Admitted:
        """Raises: IsolationUnavailable."""
        try:
            place = await self._open_trial(run, command, options, by_rule=not options.trial)
        except CannotStart as error:
            told = f"it cannot run on trial here: {error}{_NOTHING_RUN}"
            raise IsolationUnavailable(told) from error
        notes = (_SESSION_ON_TRIAL.format(place.id),) if command.stays_open else ()
        return Admitted(verdict, place, notes)

    async def _open_trial(
        self, run: RunId, command: Command, options: RunOptions, *, by_rule: bool
    ) -> TrialRun:
        if self.trials is None:
            raise CannotStart("there are no sandboxes here")
        workspace = self.placement.workspace_for(options)
        return await self.trials.open(run, command, workspace, options.requester, by_rule=by_rule)

    async def _writing_apart(
        self, run: RunId, command: Command, options: RunOptions, admitted: Admitted
    ) -> Admitted:
        """What a sandbox writes is kept apart and applied at the end, where the settings say so."""
        if not self.placement.writes_apart(admitted.provider, command, options):
            return admitted
        assert self.trials is not None  # whoever has sandboxes has trials
        try:
            workspace = self.placement.workspace_for(options)
            place = await self.trials.open_overlaid(run, command, workspace)
        except CannotStart as error:
            told = self.placement.without_overlay(str(error))
            return replace(admitted, notes=(*admitted.notes, *told))
        return replace(admitted, provider=place)

    async def _check_trial(self, options: RunOptions, verdict: Verdict) -> None:
        if options.isolation not in (None, AUTO, Isolation.SANDBOX):
            raise InvalidParameters(
                f"a trial runs in a sandbox, and isolation {options.isolation} was asked for: leave"
                " one of them out"
            )
        await self.placement.require_isolation(self.placement.trial_provider, options, verdict)

    async def approve_changes(
        self, run: RunId, command: Command, verdict: Verdict, requester: Requester
    ) -> None:
        """Have a person look at what a trial has changed.

        Raises: CommandDenied.
        """
        await self._ask_person(run, command, verdict, requester)

    async def _ask_person(
        self,
        run: RunId,
        command: Command,
        verdict: Verdict,
        requester: Requester,
        withheld: tuple[str, ...] = (),
    ) -> Directory | None:
        limit = self.approval_timeouts.for_rating(verdict.rating, None)
        requester = replace(requester, answer_timeout=_shorter(limit, requester.answer_timeout))
        question = partial(
            Question.about,
            verdict=verdict,
            provider=self.placement.default.name,
            client=requester.caller.client,
            withheld=withheld,
        )
        return await self._ask(run, command, verdict, requester, question)

    # Rating

    async def _rate(self, command: Command, profile: str, *, live_shell: bool = False) -> Verdict:
        """What we think of a command; that it is safe is confirmed where it matters."""
        verdict = await self.judge.look(command)
        if verdict.rating is not Rating.SAFE:
            return verdict
        if (why := self._stopped.get(command.text)) is not None:
            return _corrected(verdict, command.text, why)
        if live_shell:
            return _doubted(verdict, command.text)
        decisions = self._profiles[profile]
        decides = decisions.safe != decisions.unknown
        if decides or self.placement.depends_on_safety(profile):
            return await self.judge.confirm(command, verdict)
        return verdict

    def correct(self, run: Run, bars: Sequence[Bar]) -> None:
        """A read-only view has stopped what was rated safe: its text is unknown from now on."""
        verdict = run.verdict
        assert verdict is not None  # else it had not been there
        why = _STOPPED_BY.format(" and ".join(_STOPS[bar] for bar in bars))
        self._stopped[run.command.text] = why
        if len(self._stopped) > _STOPPED_MAX:
            self._stopped.popitem(last=False)
        run.verdict = _corrected(verdict, run.command.text, why)
        self._publish(SafeCorrected(run.id, time.time(), run.command.text, why))

    # Asking

    def _decision(self, command: Command, verdict: Verdict, options: RunOptions) -> Decision:
        assert options.profile is not None  # else nobody rates it
        profile = self._profiles[options.profile]
        # Of another machine's directories nothing is proved.
        here = options.at is None
        workspace = self.placement.workspace_for(options) if here else None
        return decide_by_profile(profile, command.text, verdict, command.cwd, workspace)

    async def _isolated_instead(
        self, placed: Placed, verdict: Verdict, options: RunOptions
    ) -> Placed | None:
        """Where it does no harm, if nobody can be asked about it."""
        lets = self.placement.isolates_instead_of_asking(verdict.rating, options.profile)
        channel = options.requester.channel
        own = channel is not None and channel.can_ask
        if not lets or own or self.broker.can_ask or self.broker.watched:
            return None
        if placed[0].isolation is not Isolation.NONE:
            return placed
        return await self.placement.strongest_isolated(options)

    async def _approve(
        self,
        judged: _JudgedCommand,
        placed: Placed,
        *,
        instead: Placed | None = None,
        kinds: bool = True,
    ) -> Admitted:
        """Let it run where it is placed; or `instead`, if that takes a yes which nobody gives.

        Raises: CommandDenied; then it may not.
        """
        run, command, verdict, options = judged.run, judged.command, judged.verdict, judged.options
        decision = judged.decision
        self._publish(CommandJudged(run, time.time(), command.text, verdict, decision))
        if decision is Decision.DENY:
            raise CommandDenied(f"the policy refuses {_named(verdict)}", verdict)
        if decision is Decision.ALLOW:
            return Admitted(verdict, *placed)
        # What should run on trial, and cannot, is asked about.
        requester = options.requester
        if instead is not None:
            # A yes that was given before counts, and the question stays for one that comes late.
            requester = replace(requester, answer_timeout=0.0)
        try:
            answer_timeout = _shorter(
                self.approval_timeouts.for_rating(verdict.rating, options.profile),
                requester.answer_timeout,
            )
            requester = replace(requester, answer_timeout=answer_timeout)
            kinds = kinds and placed[0] is self.placement.default
            kind = None
            if kinds:
                workspace = self.placement.workspace_for(options)
                kind = await anyio.to_thread.run_sync(prove, command, verdict, workspace)
            question = partial(
                Question.about,
                verdict=verdict,
                provider=placed[0].name,
                client=requester.caller.client,
                withheld=judged.withheld,
                kind=kind,
            )
            directory = await self._ask(run, command, verdict, requester, question)
        except ConfirmationRequired as unanswered:
            if instead is None:
                raise
            provider, notes = instead
            told = (
                "nobody could be asked, so it ran isolated. To have it run outside, a person says"
                f" `shelltie approve {unanswered.details['question']}`; then repeat the same call"
            )
            return Admitted(verdict, provider, (*notes, told))
        return Admitted(verdict, *placed, directory)

    async def _ask(
        self,
        run: RunId,
        command: Command,
        verdict: Verdict,
        requester: Requester,
        about: Callable[[Command], Question],
    ) -> Directory | None:
        """The directory that a person's yes is for.

        Raises: CommandDenied.
        """
        with _keeping_its_number(command.cwd):
            question = about(command)
            self._publish(ApprovalAsked(run, time.time(), question.id))
            answer = await self.broker.ask(question, requester.answer_timeout, requester.channel)
        self._publish(
            ApprovalAnswered(
                run,
                time.time(),
                question.id,
                allowed=answer.allowed,
                by=answer.by,
                scope=str(answer.scope),
                reason=answer.reason,
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
        if answer.unclear:
            told = f"the dialogue of {answer.by} was answered without a yes to {_named(verdict)}"
            raise RefusedByPerson(told, verdict)
        reason = f": {answer.reason}" if answer.reason else ""
        raise RefusedByPerson(f"{answer.by} refused {_named(verdict)}{reason}", verdict)


class _PublishingRefusal:
    """Tells why a command may not run. No generator: every command comes through here."""

    __slots__ = ("_command", "_publish", "_run")

    def __init__(self, publish: Publish, run: RunId, command: Command) -> None:
        self._publish, self._run, self._command = publish, run, command

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, refusal: BaseException | None, _: object) -> None:
        if isinstance(refusal, TerminalError):
            text, why = self._command.text, str(refusal)
            self._publish(CommandRefused(self._run, time.time(), text, refusal.code, why))


def _corrected(verdict: Verdict, text: str, why: str) -> Verdict:
    reason = Reason(Code.NOT_READ_ONLY, Rating.UNKNOWN, why, Span(0, len(text)))
    return replace(verdict, rating=Rating.UNKNOWN, reasons=(*verdict.reasons, reason))


def kept_inside_by(level: str) -> str:
    """Why a command cannot be run outside."""
    return (
        f"the policy demands isolation {level} for it, so it cannot be run outside"
        " (isolation.profiles; with isolation.outside = true a person could say yes)"
    )


def _leaving(verdict: Verdict, text: str, blocked: str) -> Verdict:
    """For a question about running it outside. It is dangerous, so that no timeout is a yes."""
    what = "with a yes it now runs outside of any isolation, as you"
    message = f"{blocked}: {what}" if blocked else what
    reason = Reason(Code.PRIVILEGE, Rating.DANGEROUS, message, Span(0, len(text)))
    return replace(verdict, rating=Rating.DANGEROUS, reasons=(reason, *verdict.reasons))


def _reaching_out(verdict: Verdict, text: str) -> Verdict:
    """For a question about a trial: else nobody would see why it is asked about at all."""
    why = (
        "on trial nothing would be asked, but sandbox.network lets it send what it has read;"
        " with sandbox.network = 'off' it runs unasked"
    )
    reason = Reason(Code.NETWORK, verdict.rating, why, Span(0, len(text)))
    return replace(verdict, reasons=(*verdict.reasons, reason))


def _same(command: Command) -> str:
    """The same for calls of the same command, wherever they run."""
    return fingerprint(replace(command, cwd=os.path.realpath(command.cwd)), "")


def _doubted(verdict: Verdict, text: str) -> Verdict:
    message = "in a shell that stays, an alias, a function or PATH may change what it means"
    reason = Reason(Code.DYNAMIC_PROGRAM, Rating.UNKNOWN, message, Span(0, len(text)))
    return replace(verdict, rating=Rating.UNKNOWN, reasons=(*verdict.reasons, reason))


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
