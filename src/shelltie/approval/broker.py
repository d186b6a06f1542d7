"""Approval broker: asks every channel at once, takes the first answer; no answer means no."""

import inspect
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Protocol

import anyio

from shelltie.approval.always import Approved
from shelltie.approval.card import text_of
from shelltie.approval.kind_rules import KindRules
from shelltie.approval.question import LATE_ANSWER_WINDOW, NOBODY, Answer, Pending, Question, Scope
from shelltie.basics.times import human_duration
from shelltie.errors import ConfigWrong, InvalidParameters
from shelltie.verdict import Rating

OPEN_MAX = 100  # questions, asked and late ones together
_WATCHER_COUNTS = 3.0  # seconds after each look of one who watches what is pending
_READABLE = 128 * 1024  # characters; what nobody can read, nobody can approve
_SESSION_MAX = 1000
_OLD_IDS_MAX = 20  # of one question that was asked again and again

UNASKED = (
    "nobody can be asked here. Run it at a terminal, where it asks, and answer `a` to have it run"
    " here as well from then on; or say `shelltie approve ID --always` when a server asks about it"
)
_UNHELD = (
    "a command got rid of what held it: only the client's own dialogue counts, and terminals that"
    " were open before the server, until it is restarted"
)

_LEAVING = "shelltie is leaving, and asks nobody any more: make the call again when it is back"

_log = logging.getLogger(__name__)


class Later(Enum):
    """What a channel says that has no answer now.

    `LATER`: it comes with the same call, repeated. `UNREACHED`: nobody could be asked this way.
    """

    LATER = auto()
    UNREACHED = auto()


LATER = Later.LATER
UNREACHED = Later.UNREACHED


class Channel(Protocol):
    """A way to somebody who may say yes."""

    name: str

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to be asked."""
        ...

    async def ask(self, question: Question) -> Answer | Later | None:
        """What they say; `None` if they say nothing. Cancelled when somebody else was faster.

        With `LATER` nobody is waited for: the call must come back without its command, and again.
        With `UNREACHED` nobody is waited for but the other channels.
        """
        ...


@dataclass(slots=True, eq=False)
class _Open:
    """A question without an answer; a late one is no longer waited for."""

    question: Question
    ids: deque[str]
    asking: int = 0  # channels that have said nothing yet
    put: bool = False  # a channel has put it to a person
    late: bool = False
    claimed: bool = False  # an answer is being taken; there is no second one
    answer: Answer | None = None
    comes_back: bool = False  # whoever wants the command repeats the call, with an answer
    unreached: bool = False  # a channel could not ask, so that nobody knows of the question
    until: float = 0.0
    expires_at: float | None = None  # by the clock on the wall
    unheard: anyio.Event = field(default_factory=anyio.Event)  # no channel asks, or no longer
    over: anyio.Event = field(default_factory=anyio.Event)
    dropped: anyio.Event = field(default_factory=anyio.Event)

    @property
    def pending(self) -> Pending:
        """As those see it who may answer."""
        return Pending(self.question, self.late, self.expires_at)

    def keep_late(self, now: float) -> None:
        """It is no longer waited for, and may be answered for a while."""
        self.late, self.until = True, now + LATE_ANSWER_WINDOW
        self.expires_at = time.time() + LATE_ANSWER_WINDOW


class Broker:
    """Everything that is asked in one server. It belongs to one event loop.

    `reachable`: somebody may list its questions and call `answer`, so that asking makes sense even
    without a channel. A question that no channel puts to a person waits `undelivered` seconds for
    that, if this is not `None`, and longer only while someone watches what is pending.
    """

    def __init__(
        self,
        approved: Approved | None = None,
        kinds: KindRules | None = None,
        *,
        approve_unknown_on_timeout: bool = False,
        undelivered: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.reachable = False
        self.unheld = False  # somebody whom this server started may be held by nobody
        self._approved = approved
        self._kinds = kinds
        self._approve_unknown = approve_unknown_on_timeout
        self._undelivered = undelivered
        self._watched_until = -math.inf
        self._clock = clock
        self.on_waiting: list[Callable[[Question], None]] = []  # told of each that is asked
        self._channels: list[Channel] = []
        self._open: dict[str, _Open] = {}
        self._session: dict[str, Answer] = {}
        self._retries: dict[str, tuple[float, Answer]] = {}
        self._closed = False

    @property
    def problem(self) -> str:
        """Why the approved commands of the user are not used, or not every answer is, if so."""
        told = [one.problem for one in (self._approved, self._kinds) if one is not None]
        return "; ".join(filter(None, [*told, _UNHELD if self.unheld else ""]))

    @property
    def can_ask(self) -> bool:
        """Whether a channel has somebody to ask right now."""
        return any(channel.can_ask for channel in self._channels)

    def add(self, channel: Channel) -> None:
        """Ask through this one, too."""
        self._channels.append(channel)

    def remove(self, channel: Channel) -> None:
        """Whoever was asked through it has left."""
        self._channels.remove(channel)

    async def ask(
        self, question: Question, answer_timeout: float | None = None, own: Channel | None = None
    ) -> Answer:
        """The answer; it never takes longer than `answer_timeout` seconds, if that is not `None`.

        Whoever wants the command may be asked, too, through a channel of their `own`. Whoever is
        cancelled here takes the question back.
        """
        if self._closed:
            return _no(_LEAVING)
        known = self._known(question)
        if known is not None:
            return known
        everybody = self._channels if own is None else [*self._channels, own]
        channels = [channel for channel in everybody if channel.can_ask]
        if (problem := self._why_not(question, channels)) is not None:
            return _no(problem)
        one = self._list(question)
        one.expires_at = None if answer_timeout is None else time.time() + answer_timeout
        for hear in self.on_waiting:
            hear(question)
        try:
            with anyio.move_on_after(answer_timeout):
                await self._hear(one, channels)
            answer = one.answer or self._silence(one, answer_timeout)
        except BaseException:
            self._drop(one)
            raise
        if not one.late:
            self._drop(one)
        return answer

    async def close(self) -> None:
        """Take every question back; whoever waits for an answer has a no when this returns."""
        self._closed = True
        waiting = [one for one in dict.fromkeys(self._open.values()) if not one.claimed]
        for one in waiting:
            if one.late:
                self._drop(one)
            else:
                one.claimed, one.answer = True, _no(_LEAVING)
                one.over.set()
        for one in waiting:
            await one.dropped.wait()

    def pending(self) -> list[Pending]:
        """Every question that can be answered now, the oldest first."""
        self._expire()
        distinct = dict.fromkeys(self._open.values())
        return [one.pending for one in distinct if not one.claimed]

    def find(self, question: str) -> Pending:
        """A question by its id, or by an id that it had when it was asked before.

        Raises: InvalidParameters.
        """
        one = self._find(question)
        return one.pending

    async def answer(self, question: str, digest: str, answer: Answer) -> tuple[Answer, bool]:
        """Answer a question; `digest` is what was shown to whoever answers.

        The answer as it was taken, and whether it came late: then a yes is for the same call again.
        Raises: InvalidParameters if there is no such question, or no longer, or it is another one.
        """
        one = self._find(question)
        if one.question.digest != digest:
            raise InvalidParameters(f"{question} is not what was shown: look at it again")
        taken = await self._take(one, answer)
        if taken is None:
            raise InvalidParameters(f"{question} has just been answered, or taken back")
        return taken, one.late

    @property
    def watched(self) -> bool:
        """Whether a person looks at what is pending right now."""
        return self._watched_until > anyio.current_time()

    def note_watcher(self) -> None:
        """A person looks at what is pending, and will for a while: questions can be put to them."""
        self._watched_until = anyio.current_time() + _WATCHER_COUNTS

    # One question

    def _why_not(self, question: Question, channels: list[Channel]) -> str | None:
        """Why this cannot be asked at all."""
        if not channels and not self.reachable:
            return UNASKED
        command = question.command
        words = (command.text, *(command.argv or ()), *command.env, *command.env.values())
        if sum(len(word or "") for word in words) + _run_input(question) > _READABLE:
            return "it is too long for anybody to read: write it to a file and run that"
        return None if self._make_room() else f"{OPEN_MAX} questions wait for an answer already"

    def _list(self, question: Question) -> _Open:
        """Who repeats a call that nobody answered asks the old question; its old ids still work."""
        known = [one for one in self._open.values() if one.late and not one.claimed]
        same = next((one for one in known if one.question.digest == question.digest), None)
        ids = deque(same.ids if same else (), maxlen=_OLD_IDS_MAX)
        if same is not None:
            self._drop(same)
        ids.append(question.id)
        one = _Open(question, ids)
        self._open.update(dict.fromkeys(ids, one))
        return one

    async def _hear(self, one: _Open, channels: list[Channel]) -> None:
        one.asking = len(channels)
        async with anyio.create_task_group() as tasks:
            for channel in channels:
                tasks.start_soon(self._through, channel, one)
            if not channels:
                one.unheard.set()
            if self._undelivered is not None:
                tasks.start_soon(self._give_up_undelivered, one, self._undelivered)
            await one.over.wait()
            tasks.cancel_scope.cancel()

    async def _give_up_undelivered(self, one: _Open, answer_timeout: float) -> None:
        """Let the caller go who waits for an answer to what is put to no person."""
        await one.unheard.wait()
        until = anyio.current_time() + answer_timeout
        while (left := max(until, self._watched_until) - anyio.current_time()) > 0:
            one.put = one.put or self._watched_until > until
            await anyio.sleep(left)
        one.over.set()

    async def _through(self, channel: Channel, one: _Open) -> None:
        answer: Answer | Later | None = None
        try:
            answer = await channel.ask(one.question)
            one.put = one.put or answer is None
        except Exception:  # noqa: BLE001  a channel is anybody's code; it must not silence others
            _log.debug("%s could not ask", channel.name, exc_info=True)
        if isinstance(answer, Answer):
            await self._take(one, replace(answer, by=answer.by or channel.name))
        if answer is LATER:
            one.comes_back = True
            one.over.set()
        one.unreached = one.unreached or answer is UNREACHED
        one.asking -= 1
        if not one.asking:
            one.unheard.set()
        if not one.asking and (one.unreached or not self.reachable):
            one.over.set()

    async def _take(self, one: _Open, answer: Answer) -> Answer | None:
        """Let this be the answer; `None` if there is one, or nobody wants it any more."""
        if one.claimed or self._open.get(one.question.id) is not one:
            return None
        one.claimed = True
        answer = replace(answer, allowed=answer.allowed is True)
        if answer.allowed:
            with anyio.CancelScope(shield=True):
                answer = await self._remember(one.question, answer)
        if self._open.get(one.question.id) is not one:
            return None
        one.answer = answer
        one.over.set()
        if one.late:
            # Whoever repeats the call is told, once.
            self._drop(one)
            self._retries[one.question.digest] = (self._clock() + LATE_ANSWER_WINDOW, answer)
        return answer

    def _silence(self, one: _Open, answer_timeout: float | None) -> Answer:
        if one.comes_back:
            one.keep_late(self._clock())
            return _no("whoever wants it is asked, and repeats the call with the answer")
        dangerous = one.question.verdict.rating is Rating.DANGEROUS
        unreached = one.unreached or (one.unheard.is_set() and not one.put)
        if self._approve_unknown and not dangerous and answer_timeout is not None and not unreached:
            return Answer(allowed=True, by="timeout", reason="nobody objected in time")
        told = _what_happened(one, answer_timeout, unreached=unreached)
        if not self.reachable:
            return _no(UNASKED if unreached else told)
        one.keep_late(self._clock())
        return _no(
            f"{told}. A person says yes with `shelltie approve {one.question.id}`; then repeat the"
            f" same call (within {human_duration(LATE_ANSWER_WINDOW)})"
            + self._disowned(one.question)
        )

    def _disowned(self, question: Question) -> str:
        if self._approved is None or not self._approved.disowns(question):
            return ""
        return f". {self._approved.path} has an entry for it that shelltie did not write"

    def _find(self, question: str) -> _Open:
        self._expire()
        one = self._open.get(question)
        if one is None or one.claimed:
            raise InvalidParameters(f"no question {question} waits for an answer here")
        return one

    def _drop(self, one: _Open) -> None:
        for name in one.ids:
            if self._open.get(name) is one:
                del self._open[name]
        one.dropped.set()

    # What was answered before

    def _known(self, question: Question) -> Answer | None:
        """An answer that was given earlier. One for a single use is used up by this."""
        self._expire()
        digest = question.digest
        if digest in self._retries:
            return self._retries.pop(digest)[1]
        if digest in self._session:
            return self._session[digest]
        if self._approved is not None and self._approved.holds(question):
            return Answer(allowed=True, scope=Scope.ALWAYS, by=str(self._approved.path))
        if self._kinds is not None and question.kind and self._kinds.holds(question.kind):
            by, told = str(self._kinds.path), question.kind.told
            return Answer(allowed=True, scope=Scope.KIND, by=by, reason=told)
        return None

    async def _remember(self, question: Question, answer: Answer) -> Answer:
        if answer.scope is Scope.SESSION and len(self._session) < _SESSION_MAX:
            self._session[question.digest] = answer
        if answer.scope not in (Scope.ALWAYS, Scope.KIND):
            return answer
        try:
            await anyio.to_thread.run_sync(self._keep, question, answer.scope)
        except (ConfigWrong, OSError) as error:
            return replace(answer, scope=Scope.ONCE, reason=f"only this once: {error}")
        return answer

    def _keep(self, question: Question, scope: Scope) -> None:
        """Raises: ConfigWrong, OSError."""
        if scope is Scope.KIND and self._kinds is not None and question.kind is not None:
            self._kinds.add(question.kind)
        elif scope is Scope.ALWAYS and self._approved is not None:
            self._approved.add(question)
        else:
            raise ConfigWrong("there is nothing to keep it in")

    def _make_room(self) -> bool:
        """Late questions make room for new ones, the oldest first."""
        self._expire()
        distinct = list(dict.fromkeys(self._open.values()))
        late = [one for one in distinct if one.late]
        for one in late[: max(0, len(distinct) - OPEN_MAX + 1)]:
            self._drop(one)
        return len(distinct) - len(late) < OPEN_MAX

    def _expire(self) -> None:
        now = self._clock()
        for one in [one for one in self._open.values() if one.late and one.until <= now]:
            self._drop(one)
        self._retries = {name: kept for name, kept in self._retries.items() if kept[0] > now}


def _what_happened(one: _Open, answer_timeout: float | None, *, unreached: bool) -> str:
    """Why there is no answer; that nobody could be asked is not that nobody answered."""
    if unreached:
        return "nobody could be asked now, because no dialogue or terminal of a person is open"
    if one.unheard.is_set():
        return "nobody answered: the dialogue was closed without an answer"
    within = f" within {human_duration(answer_timeout)}" if answer_timeout else ""
    return f"nobody answered{within}"


def _run_input(question: Question) -> int:
    """The size of its input, if that is what is dangerous about it."""
    start = len(text_of(question)) + 1
    dangers = [it for it in question.verdict.reasons if it.rating is Rating.DANGEROUS]
    runs = question.input is not None and any(it.span.end > start for it in dangers)
    return question.input.size if question.input is not None and runs else 0


def _no(reason: str) -> Answer:
    return Answer(allowed=False, by=NOBODY, reason=reason)


Said = bool | Answer
Callback = Callable[[Question], Said | Awaitable[Said]]


class CallbackChannel:
    """Asks a function. Whatever it returns but `True` or an `Answer` that allows it is no."""

    name = "callback"
    can_ask = True

    def __init__(self, function: Callback) -> None:
        self._function = function
        self._threads = anyio.CapacityLimiter(OPEN_MAX)  # the usual few are for those who are quick

    async def ask(self, question: Question) -> Answer:
        """See `Channel`."""
        try:
            said = await self._call(question)
        except Exception:  # noqa: BLE001  anybody's code; whatever happens in it is a no
            _log.exception("the function that was asked raised; this is a no")
            return Answer(allowed=False, by=self.name, reason="the function that was asked failed")
        if isinstance(said, Answer):
            return said
        return Answer(allowed=said is True, by=self.name)

    async def _call(self, question: Question) -> object:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(question)
        # An ordinary function may wait for a person; the event loop must not.
        said = await anyio.to_thread.run_sync(
            self._function, question, abandon_on_cancel=True, limiter=self._threads
        )
        return await said if inspect.isawaitable(said) else said
