"""Link to a keeper that stays, through a byte stream: resumes output by offset, flow control.

What a command prints is written to a descriptor of this process, as if it ran here; what its leash
says is told when everything that was printed before it has been written there.
"""

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from shelltie.basics.frozen import frozen
from shelltie.basics.readable import forget, watch
from shelltie.keeper.protocol import (
    Exited,
    Expired,
    Failed,
    Gone,
    LeashWord,
    Lost,
    Missing,
    Started,
    Taken,
    parse_word,
)
from shelltie.keeper.stream_protocol import (
    INPUT_MAX,
    MAGIC,
    VERSION,
    FrameReader,
    SaidFrame,
    StreamAsk,
    StreamSay,
    asked,
)

_READ_SIZE = 256 * 1024
_DESCRIPTORS = 16  # that may come with one reading
_ONCE = (Started, Failed, Exited, Expired, Gone)  # which a keeper says again to whoever comes


@frozen
class HeldRow:
    """What a keeper holds of a command: how much input it has had, which output it still has."""

    run: str
    input: int
    first: tuple[int, int]
    end: tuple[int, int]
    has_terminal: bool
    disk_error: int


class _Outlet:
    """Writes one stream of output to a descriptor of ours, as fast as that is read."""

    def __init__(self, fd: int, at: int, delivered: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd: int | None = fd
        os.set_blocking(fd, False)
        self.at = at  # what came after this is still to be written
        self.arrived = at
        self.acked = at
        self.over = False
        self._ends_at: int | None = None
        self._waiting: deque[bytes] = deque()
        self._delivered = delivered

    def take(self, data: bytes) -> None:
        self.arrived += len(data)
        self._waiting.append(data)
        self._write()

    def end(self, at: int) -> None:
        self._ends_at = at
        self._write()

    def skip_to(self, at: int) -> int:
        """Go on from a later byte, when all before it is written; how much is missing."""
        missing = at - self.arrived
        if missing > 0:
            self.arrived = at
            if not self._waiting:
                self.at = at
        return max(0, missing)

    def close(self) -> None:
        """Nobody reads it any more, or nothing more will come."""
        if self._fd is not None:
            self._loop.remove_writer(self._fd)
            os.close(self._fd)
            self._fd = None
        self._waiting.clear()
        self.at = self.arrived

    def _write(self) -> None:
        while self._waiting and self._fd is not None:
            try:
                written = os.write(self._fd, self._waiting[0])
            except BlockingIOError:
                self._loop.add_writer(self._fd, self._write)
                self._delivered()
                return
            except OSError:  # its reader has closed it
                self.close()
                break
            self.at += written
            rest = self._waiting.popleft()[written:]
            if rest:
                self._waiting.appendleft(rest)
        if self._fd is None:
            self._waiting.clear()
        self.at = self.arrived
        if self._fd is not None:
            self._loop.remove_writer(self._fd)
        if self._ends_at is not None and self.at >= self._ends_at:
            self.close()
            self.over = True
        self._delivered()


class _Inlet:
    """Reads what is typed from a descriptor of ours, as fast as the command takes it."""

    def __init__(self, fd: int, at: int, send: Callable[[int, bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._fd: int | None = fd
        os.set_blocking(fd, False)
        self.sent = self._taken = at
        self._unread = bytearray()  # what was sent after `_taken`: a link that broke has lost it
        self._send = send
        self.ended: Callable[[int], None] = lambda _: None
        self._watched = False
        self.watch()

    def watch(self) -> None:
        wanted = self._fd is not None and self.sent - self._taken < INPUT_MAX
        if wanted and not self._watched and self._fd is not None:
            watch(self._loop, self._fd, self._read)
        if not wanted and self._watched and self._fd is not None:
            forget(self._loop, self._fd)
        self._watched = wanted

    def _read(self) -> None:
        assert self._fd is not None
        try:
            data = os.read(self._fd, INPUT_MAX - (self.sent - self._taken))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            self.ended(self.sent)
            return
        at, self.sent = self.sent, self.sent + len(data)
        self._unread += data
        self._send(at, data)
        self.watch()

    def take(self, upto: int) -> None:
        """The command's input has had this much."""
        if upto > self._taken:
            del self._unread[: upto - self._taken]
            self._taken = upto
            self.watch()

    def send_again(self, start: int) -> None:
        """What the keeper has not had, and that it ends if it does."""
        if rest := bytes(self._unread[start - self._taken :]):
            self._send(start, rest)
        if self._fd is None:
            self.ended(self.sent)

    def close(self) -> None:
        if self._fd is not None:
            if self._watched:
                forget(self._loop, self._fd)
            os.close(self._fd)
            self._fd = None


class HeldCommand:
    """A command that a keeper which stays holds. `listen` hears the rest; last is Gone or Lost."""

    def __init__(self, link: "StreamLink", run: str, listen: Callable[[LeashWord], None]) -> None:
        self.run = run
        self.terminal: int | None = None  # to look at, once it was passed
        self._link = link
        self._listen: Callable[[LeashWord], None] | None = listen
        self._outlets: dict[int, _Outlet] = {}
        self._inlet: _Inlet | None = None
        self._words: deque[tuple[tuple[int, int], LeashWord]] = deque()
        self._heard: set[type] = set()
        self._shared = False
        self._attached = False

    def attach(
        self,
        outputs: Mapping[int, int],
        typed: int | None,
        row: HeldRow | None,
        *,
        shared: bool,
        starts: Mapping[int, int],
    ) -> None:
        """Write its streams to these descriptors, and read its input from that one.

        `shared`: that is the other direction of the first, as of a terminal. `starts` says from
        which byte on a stream is wanted; without it from the first that is kept.
        """
        self._attached = True
        for number, fd in outputs.items():
            start = starts.get(number, 0)
            self._outlets[number] = _Outlet(fd, start, self._settle)
            self._link.ask(StreamAsk.FOLLOW, self.run, number, start)
        if typed is not None:
            send = lambda at, data: self._link.ask(StreamAsk.INPUT, self.run, at, data=data)  # noqa: E731
            self._inlet = _Inlet(typed, 0 if row is None else row.input, send)
            self._shared = shared
            if not shared:
                self._inlet.ended = lambda at: self._link.ask(StreamAsk.CLOSE, self.run, at)
        self._settle()

    def resume(self, row: HeldRow | None) -> None:
        """Go on where another connection broke; no `row`: its keeper has not known it then."""
        for number, outlet in self._outlets.items():
            self._link.ask(StreamAsk.FOLLOW, self.run, number, outlet.arrived)
        if self._inlet is not None:
            self._inlet.send_again(0 if row is None else row.input)

    def signal(self, number: int) -> None:
        """Send a signal to everybody; SIGKILL, until nobody is left."""
        self._link.ask(StreamAsk.SIGNAL, self.run, number)

    def shoot(self) -> None:
        """Have the leash itself killed, and then its tree."""
        self._link.ask(StreamAsk.SHOOT, self.run)

    def resize(self, rows: int, columns: int) -> None:
        """Give its terminal another size."""
        self._link.ask(StreamAsk.RESIZE, self.run, rows, columns)

    def limit(self, total: float) -> None:
        """Have it ended in so many seconds without us; 0 takes that back."""
        self._link.ask(StreamAsk.LIMIT, self.run, round(total * 1000))

    def poll(self) -> None:
        """Hear what has been said already."""
        self._link.hear()

    def output(self, number: int, start: int, data: bytes) -> None:
        """More was printed. Raises: ValueError."""
        outlet = self._outlets.get(number)
        if outlet is None or start < outlet.arrived:
            raise ValueError("output that was not asked for")
        self._skip(number, outlet, start)
        outlet.take(data)

    def ended(self, number: int, at: int) -> None:
        """There is no more of this stream."""
        if (outlet := self._outlets.get(number)) is not None:
            self._skip(number, outlet, at)
            outlet.end(at)

    def _skip(self, number: int, outlet: _Outlet, start: int) -> None:
        at = outlet.arrived
        if missing := outlet.skip_to(start):
            told = (
                f"{missing} bytes of its output are lost: more was printed while no server"
                f" held it than is kept ({self._link.bound_setting})"
            )
            self.say(Missing(told, stream=number, at=at, size=missing))

    def taken(self, upto: int) -> None:
        """Its input has had this much."""
        if self._inlet is not None:
            self._inlet.take(upto)

    def word(self, at: tuple[int, int], word: LeashWord) -> None:
        """Its leash said this when so much had been printed."""
        if isinstance(word, _ONCE):
            if type(word) in self._heard:
                return
            self._heard.add(type(word))
        self._words.append((at, word))
        self._settle()

    def finish(self, word: Gone | Lost | Taken) -> None:
        """Deliver the last word, unless there was one, and close everything."""
        listen, self._listen = self._listen, None
        self._words.clear()
        for outlet in self._outlets.values():
            outlet.close()
        if self._inlet is not None:
            self._inlet.close()
        if listen is None:
            return
        self._link.discard(self.run)
        listen(word)

    def cut_off(self, *, proved: bool) -> None:
        """There is no connection any more; `proved`: the keeper has said that nobody is left."""
        if not proved and not any(isinstance(word, Gone) for _, word in self._words):
            self.finish(Lost())
            return
        if Gone not in self._heard:
            self.word((0, 0), Gone(0, 0.0))
        for outlet in self._outlets.values():  # what has come is still read to its end
            outlet.end(outlet.arrived)
        if not self._outlets:
            self.finish(Gone(0, 0.0))

    def fail(self, reason: str) -> None:
        """Its keeper could not begin: nothing was started."""
        self.say(Failed("keeper", errno.ESRCH, reason))
        self.finish(Gone(0, 0.0))

    def let_go(self) -> None:
        """Hear nothing more of it."""
        self._listen = None

    def close_terminal(self) -> None:
        """Look at it no longer."""
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None

    def say(self, word: LeashWord) -> None:
        """Tell whoever listens."""
        if self._listen is not None:
            self._listen(word)

    def _settle(self) -> None:
        """Tell what the output has come to, and acknowledge what was written."""
        if not self._attached:
            return
        for number, outlet in self._outlets.items():
            if outlet.at > outlet.acked:
                outlet.acked = outlet.at
                self._link.ask(StreamAsk.ACK, self.run, number, outlet.at)
        if self._shared and self._inlet is not None and self._outlets[1].over:
            self._inlet.close()
        while self._words and self._listen is not None and self._reached(*self._words[0]):
            _, word = self._words.popleft()
            if isinstance(word, Gone):
                self.finish(word)
            else:
                self._listen(word)

    def _reached(self, at: tuple[int, int], word: LeashWord) -> bool:
        """Whether all that was printed before it has been written here."""
        outlets = self._outlets.items()
        if isinstance(word, Gone):
            return all(outlet.over for _, outlet in outlets)
        return all(outlet.at >= at[number - 1] for number, outlet in outlets)


class StreamLink:
    """A connection to a keeper that stays. It belongs to the event loop in which it was made.

    `on_welcome` is called with what it holds; `on_lost` with why there is no connection any more.
    """

    bound_setting = "stay.output"  # which bounds what is kept of the output

    def __init__(self, channel: socket.socket, token: str, *, take: bool = False) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel: socket.socket | None = None
        self._reader = FrameReader()
        self._out = bytearray()
        self._passed: deque[int] = deque()
        self._commands: dict[str, HeldCommand] = {}
        self._expected = 0
        self.rows: dict[str, HeldRow] = {}
        self.keeper_pid = 0
        self.lease = 0.0
        self._next_ping: asyncio.TimerHandle | None = None
        self.welcomed = False
        self.finishing = self.said_bye = False
        self.problem: tuple[str, str] | None = None  # the code and text of its ERROR
        self.on_change: list[Callable[[], None]] = []  # something of the above has changed
        self._greeting = asked(StreamAsk.HELLO, MAGIC, VERSION, token, "take" if take else "free")
        self._greet(channel)

    def _greet(self, channel: socket.socket) -> None:
        """Begin a connection: the keeper answers with what it holds."""
        channel.setblocking(False)
        self._channel = channel
        self._reader = FrameReader()
        watch(self._loop, channel.fileno(), self.hear)
        self._out += self._greeting
        self._flush()

    @property
    def alive(self) -> bool:
        """Whether there is a connection."""
        return self._channel is not None

    @property
    def complete(self) -> bool:
        """It has said everything that it holds."""
        return self.welcomed and len(self.rows) >= self._expected

    @property
    def idle(self) -> bool:
        """Nothing runs here that somebody listens to."""
        return not self._commands

    def command(self, run: str, listen: Callable[[LeashWord], None]) -> HeldCommand:
        """One that is about to be started here, or that it holds already."""
        held = self._commands[run] = HeldCommand(self, run, listen)
        return held

    def discard(self, run: str) -> None:
        """It has had its last word."""
        self._commands.pop(run, None)

    def ask(self, kind: StreamAsk, *fields: str | int, data: bytes = b"") -> None:
        """Queue a frame; what cannot be sent any more is not needed any more."""
        if self._channel is None:
            return
        self.finishing = self.finishing or kind is StreamAsk.FINISH
        self._out += asked(kind, *fields, data=data)
        self._flush()

    def fail(self, reason: str) -> None:
        """The keeper has ended before it could begin."""
        for command in tuple(self._commands.values()):
            command.fail(reason)
        self._hang_up(("start", reason))

    def close(self) -> None:
        """Let go of it, without a word: what it holds goes on."""
        self._hang_up(None)

    def hear(self) -> None:
        """Take what has come."""
        if self._channel is None:
            return
        try:
            arrived, passed, _, _ = socket.recv_fds(self._channel, _READ_SIZE, _DESCRIPTORS)
        except BlockingIOError:
            return
        except OSError:
            arrived, passed = b"", []
        for descriptor in passed:
            os.set_inheritable(descriptor, False)
        self._passed.extend(passed)
        try:
            for frame in self._reader.feed(arrived):
                self._serve(frame)
        except (ValueError, IndexError) as error:
            self._hang_up(("garbage", f"this is no keeper of ours: {error}"))
            return
        if not arrived:
            self._hang_up(("lost", "the keeper has ended, or the connection to it"))

    def _serve(self, frame: SaidFrame) -> None:
        match frame.kind:
            case StreamSay.WELCOME:
                self.welcomed, self.keeper_pid = True, frame.number(1)
                self.lease, self._expected = frame.number(2) / 1000, frame.number(3)
                self._ping()
            case StreamSay.ROW:
                row = _row(frame)
                self.rows[row.run] = row
            case StreamSay.BYE:
                self.said_bye = True
            case StreamSay.ERROR:
                self.problem = self.problem or (frame.fields[0], frame.fields[1])
            case StreamSay.PONG:
                self._answered(frame.fields[0])
                return
            case _:
                self._serve_command(frame)
                return
        self._tell_change()

    def _ping(self) -> None:
        """While we hold it, its lease does not end."""
        if self._channel is not None:
            self.ask(StreamAsk.PING, "held")
            self._next_ping = self._loop.call_later(self.lease / 3, self._ping)

    def _answered(self, ping: str) -> None:
        """A keeper beside us is there as long as its socket is."""

    def _serve_command(self, frame: SaidFrame) -> None:
        command = self._commands.get(frame.fields[0])
        descriptor = (
            self._passed.popleft() if frame.kind is StreamSay.TTY and self._passed else None
        )
        if command is None:
            if descriptor is not None:
                os.close(descriptor)
            return
        match frame.kind:
            case StreamSay.WORD:
                word = parse_word(frame.fields[3].encode())
                command.word((frame.number(1), frame.number(2)), word)
            case StreamSay.OUTPUT:
                command.output(frame.number(1), frame.number(2), frame.data)
            case StreamSay.END:
                command.ended(frame.number(1), frame.number(2))
            case StreamSay.TAKEN:
                command.taken(frame.number(1))
            case StreamSay.TTY:
                command.close_terminal()
                command.terminal = descriptor
            case _:
                pass

    def _tell_change(self) -> None:
        for hear in tuple(self.on_change):
            hear()

    def _flush(self) -> None:
        while self._out and self._channel is not None:
            try:
                sent = self._channel.send(self._out)
            except BlockingIOError:
                self._loop.add_writer(self._channel, self._flush)
                return
            except OSError:  # what it said before it left is still to be heard
                self._out.clear()
                break
            del self._out[:sent]
        if self._channel is not None:
            self._loop.remove_writer(self._channel)

    def _hang_up(self, problem: tuple[str, str] | None) -> None:
        if self._close_channel():
            self._cut_off(problem)

    def _close_channel(self) -> bool:
        channel, self._channel = self._channel, None
        if channel is None:
            return False
        if self._next_ping is not None:
            self._next_ping.cancel()
        forget(self._loop, channel.fileno())
        self._loop.remove_writer(channel)
        channel.close()
        with suppress(IndexError):
            while True:
                os.close(self._passed.popleft())
        return True

    def _cut_off(self, problem: tuple[str, str] | None) -> None:
        """There will be no connection any more."""
        self.problem = self.problem or problem
        for command in tuple(self._commands.values()):
            if self.problem is not None and self.problem[0] == "taken":
                command.finish(Taken())
            else:
                command.cut_off(proved=self.said_bye)
        self._tell_change()


def _row(frame: SaidFrame) -> HeldRow:
    numbers = [frame.number(index) for index in range(1, 6)]
    first, end = (numbers[1], numbers[3]), (numbers[2], numbers[4])
    terminal = "t" in frame.fields[6]
    return HeldRow(frame.fields[0], numbers[0], first, end, terminal, frame.number(7))
