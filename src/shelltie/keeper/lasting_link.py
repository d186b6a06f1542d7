"""Link to a far keeper that survives a lost connection: heartbeat, reconnect with backoff, replay.

A connection can die without a word, so each second asks for an answer; after some without any the
link is lost, and every command hears `Unreachable`. Then connections are tried until the keeper's
lease must be over. The next one goes on where this one broke: output from the byte that we have,
input from the byte that the keeper has, and what was asked and not confirmed is asked again.
"""

import asyncio
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable

import anyio

from shelltie.basics.frozen import frozen
from shelltie.basics.times import human_duration
from shelltie.errors import CannotStart, KeeperGone
from shelltie.keeper.protocol import Lost, Noted, Reachable, Unreachable
from shelltie.keeper.stream_link import StreamLink
from shelltie.keeper.stream_protocol import SaidFrame, StreamAsk, asked

HEARTBEAT = 1.0
_MISSED_MAX = 4  # heartbeats without a word: with the next the link is lost, after 5 seconds
_REOPENS_WITHIN = 15.0
_GREETS_WITHIN = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
_ENDS_WITHIN = 5.0  # seconds that a keeper takes to end everything when its lease is over
# What is said again after a link broke. The rest follows from where output and input are.
_REPEATED = frozenset(
    {
        StreamAsk.START,
        StreamAsk.SIGNAL,
        StreamAsk.RESIZE,
        StreamAsk.LIMIT,
        StreamAsk.SHOOT,
        StreamAsk.FORGET,
    }
)
# Answers of a keeper after which to ask again is of no use.
_FINAL = frozenset({"token", "version", "user", "leash", "taken", "start"})


@frozen
class _Unconfirmed:
    """What was asked of a run; the answer to that ping says that the keeper has had it."""

    ping: int
    run: str
    kind: StreamAsk
    frame: bytes


class LastingLink(StreamLink):
    """A link whose connection may break. `reopen` gives another one.

    It raises OSError or CannotStart; KeeperGone where the keeper is not there any more.
    """

    def __init__(
        self,
        channel: socket.socket,
        token: str,
        reopen: Callable[[], Awaitable[socket.socket]],
        *,
        lease: float,
        where: str,
        bound_setting: str,
    ) -> None:
        self.bound_setting = bound_setting
        self.where = where
        self.reachable = True
        self.over = False  # there will be no connection any more
        self.ends_at = 0.0  # by the wall clock, when what runs there has ended if we do not return
        self._given_lease = lease
        self._reopen = reopen
        self._missed = 0
        self._pings = 0
        self._unconfirmed: deque[_Unconfirmed] = deque()
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        super().__init__(channel, token, take=True)
        self.on_change.append(self._changed.set)
        self._ping()

    async def greeted(self) -> None:
        """Wait until the keeper has answered.

        Raises: CannotStart, which says why it does not.
        """
        with anyio.move_on_after(_GREETS_WITHIN):
            while not self.complete and not self.over and self._channel is not None:
                self._changed.clear()
                await self._changed.wait()
        if self.complete:
            return
        why = self.problem[1] if self.problem else "its keeper does not answer"
        self.close()
        raise CannotStart(f"{self.where}: {why}")

    def ask(self, kind: StreamAsk, *fields: str | int, data: bytes = b"") -> None:
        """See `StreamLink`; what must not get lost is kept until the keeper has had it."""
        if self.over:
            return
        frame = asked(kind, *fields, data=data)
        if kind is StreamAsk.FORGET:
            # A start that is said again of what the keeper has forgotten would be another one.
            kept = [one for one in self._unconfirmed if one.run != fields[0]]
            self._unconfirmed = deque(kept)
        if kind in _REPEATED:
            self._unconfirmed.append(_Unconfirmed(self._pings + 1, str(fields[0]), kind, frame))
        if self.reachable:
            self._say(frame)

    def close(self) -> None:
        """See `StreamLink`."""
        if self._task is not None:
            self._task.cancel()
        self._close_channel()
        if not self.over:
            self._cut_off(None)

    def give_up(self, why: str) -> None:
        """Wait for it no longer."""
        if self._task is not None:
            self._task.cancel()
        self._close_channel()
        self._end(why)

    def _say(self, frame: bytes) -> None:
        if self._channel is not None:
            self._out += frame
            self._flush()

    def _serve(self, frame: SaidFrame) -> None:
        self._missed = 0
        super()._serve(frame)

    def _answered(self, ping: str) -> None:
        while self._unconfirmed and ping.isdigit() and self._unconfirmed[0].ping <= int(ping):
            self._unconfirmed.popleft()

    def _ping(self) -> None:
        """A stall of our own event loop is no silence of the keeper's: beats are counted."""
        if self._next_ping is not None:
            self._next_ping.cancel()
        if self._channel is None:
            return
        if self._missed >= _MISSED_MAX:
            self._hang_up(("lost", f"nothing was heard for {_MISSED_MAX} seconds"))
            return
        self._missed += 1
        if self.reachable:
            self._pings += 1
            self._say(asked(StreamAsk.PING, str(self._pings)))
        self._next_ping = self._loop.call_later(HEARTBEAT, self._ping)

    def _hang_up(self, problem: tuple[str, str] | None) -> None:
        if not self._close_channel():
            return
        self._out.clear()
        final = self.problem is not None and self.problem[0] in _FINAL
        if self.said_bye or final or (not self.welcomed and self.reachable):
            self._cut_off(problem)
            return
        self.problem = None
        if self.reachable:  # else another attempt has failed, and `_reconnect` goes on
            self._lose(problem[1] if problem else "")
        self._changed.set()

    def _lose(self, why: str) -> None:
        self.reachable = False
        left = self._given_lease + _ENDS_WITHIN
        self.ends_at = time.time() + left
        message = (
            f"the connection to {self.where} is lost ({why}): what runs there goes on, and is ended"
            f" there within {human_duration(left)} if it does not come back"
        )
        for command in tuple(self._commands.values()):
            command.say(Unreachable(message))
        self._task = self._loop.create_task(self._reconnect(self._loop.time() + left))
        self._task.add_done_callback(self._tried)

    def _tried(self, task: "asyncio.Task[None]") -> None:
        """Whatever an engine raises that it should not: nobody waits for ever."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._end(f"{self.where} could not be reached again: {error!r}")

    async def _reconnect(self, until: float) -> None:
        pause, why = _FIRST_PAUSE, ""
        while self._loop.time() < until:
            try:
                with anyio.fail_after(_REOPENS_WITHIN):
                    channel = await self._reopen()
                if await self._resume(channel):
                    return
            except KeeperGone:
                self._end(
                    f"its keeper at {self.where} is not there any more: it was killed, or its lease"
                    " was over; what it held has ended with it"
                )
                return
            except (OSError, CannotStart) as error:  # of which TimeoutError is one
                why = f": {error}" if str(error) else ""
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._end(
            f"{self.where} could not be reached again{why}. Its keeper there has ended everything"
            f" by now, as its lease of {human_duration(self._given_lease)} is over"
        )

    async def _resume(self, channel: socket.socket) -> bool:
        self.welcomed, self.rows, self._missed = False, {}, 0
        self._greet(channel)
        with anyio.move_on_after(_GREETS_WITHIN):
            while not self.complete and self._channel is not None:
                self._changed.clear()
                await self._changed.wait()
        if not self.complete or self._channel is None:
            self._close_channel()
            return False
        self.reachable = True
        again = {one.run for one in self._unconfirmed if one.kind is StreamAsk.START}
        for one in self._unconfirmed:
            self._say(one.frame)
        for run, command in tuple(self._commands.items()):
            command.say(Reachable())
            if run in self.rows or run in again:
                command.resume(self.rows.get(run))
            else:
                command.say(Noted(f"the keeper at {self.where} does not know it any more"))
                command.finish(Lost())
        self._ping()
        self._tell_change()
        return True

    def _end(self, why: str) -> None:
        for command in tuple(self._commands.values()):
            command.say(Noted(why))
        self._cut_off(("lost", why))

    def _cut_off(self, problem: tuple[str, str] | None) -> None:
        self.over, self.reachable = True, False
        super()._cut_off(problem)
