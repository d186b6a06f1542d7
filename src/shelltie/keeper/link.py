"""Link to a keeper process: starts it, requests leashes, dispatches what they report."""

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Protocol

import anyio

from shelltie.basics.frozen import mutable
from shelltie.basics.readable import forget, watch
from shelltie.errors import CannotStart
from shelltie.keeper.binaries import KeeperKind
from shelltie.keeper.pid_namespace import ask_who_sends, command_of, outside, receive
from shelltie.keeper.protocol import (
    BODY_MAX,
    ENDING,
    HEADER,
    Failed,
    Gone,
    LeashWord,
    Lost,
    Noted,
    Started,
    Stuck,
    parse_swept,
    parse_word,
    run_frame,
    shoot_frame,
    socket_frame,
)
from shelltie.keeper.sigstop import GIVEN_UP, KeeperWatch, StoppableProcess
from shelltie.keeper.start import complaint, start_keeper
from shelltie.model import Directory, Resources

_READ_SIZE = 16 * 1024  # a word has less than 500 bytes
_FIXED_FIELDS = 5  # of a RUN frame, before argv and env
_PATIENCE = 5.0  # with a keeper that ends everything; it gives a leash one second
_TICK = 0.005  # where the kernel offers only polling


class _Lines:
    """Cuts what arrives on a socket into lines. `sender` is who sent them, from inside."""

    def __init__(self, source: socket.socket, *, from_inside: bool = False) -> None:
        source.setblocking(False)
        self._source = source
        self._from_inside = from_inside
        self._rest = b""
        self.sender = 0

    def receive(self) -> bool:
        """Take what has arrived. False when there will be nothing more."""
        try:
            if self._from_inside:
                arrived, sender = receive(self._source, _READ_SIZE)
                self.sender = sender or self.sender
            else:
                arrived = self._source.recv(_READ_SIZE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._rest += arrived
        return bool(arrived)

    def __iter__(self) -> Iterator[bytes]:
        # One at a time from the shared rest: whoever hears a line may ask for the next ones.
        while b"\n" in self._rest:
            line, self._rest = self._rest.split(b"\n", 1)
            yield line
        if len(self._rest) > _READ_SIZE:
            raise ValueError("a line without an end")


class Leash:
    """One command. `listen` hears what its leash says, in order; the last word is Gone or Lost."""

    def __init__(
        self,
        link: "Link",
        leash_id: int,
        control: socket.socket,
        listen: Callable[[LeashWord], None],
    ) -> None:
        self.id = leash_id
        self.pid = 0  # until it has said that the command runs
        self.spoke = False
        self._link = link
        self._control = control
        self._lines = _Lines(control, from_inside=link.contained)
        self._listen: Callable[[LeashWord], None] | None = listen
        self._loop = asyncio.get_running_loop()
        watch(self._loop, control.fileno(), self.poll)

    @property
    def silent(self) -> bool:
        """The leash itself has nothing more to say."""
        return self._control.fileno() < 0

    def signal(self, number: int) -> None:
        """Send a signal to everybody on this leash; SIGKILL, until nobody is left."""
        with suppress(OSError):  # it has gone, or it is stopped and was told more than enough
            self._control.send(bytes([number]))

    def shoot(self) -> None:
        """Have the keeper kill the leash itself, because it does not answer, and then its tree."""
        self._link.shoot(self.id)

    def poll(self) -> None:
        """Hear what has been said already."""
        if self.silent:  # after nonsense the rest is not heard either
            return
        more = self._lines.receive()
        try:
            for line in self._lines:
                self._hear(parse_word(line))
        except ValueError:  # not our leash any more: its command has got hold of it
            more = False
        if not more and not self.silent:
            self._hang_up()
            self._link.conclude(self)

    def close(self) -> None:
        """End everything: to a leash the end of file means kill. The last word still comes."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def note(self, message: str) -> None:
        """Have the user of this command know something."""
        if self._listen is not None:
            self._listen(Noted(message))

    def finish(self, word: Gone | Lost) -> None:
        """Deliver the last word, unless there was one."""
        listen, self._listen = self._listen, None
        if listen is not None:
            self._hang_up()
            self._link.forget(self.id)
            listen(word)

    def fail(self, reason: str) -> None:
        """Its keeper ended before it could be started."""
        self._hear(Failed("keeper", errno.ESRCH, reason))
        self.finish(Gone(0, 0.0))

    def _hear(self, word: LeashWord) -> None:
        self.spoke = True
        if isinstance(word, Gone | Lost):
            self.finish(word)
            return
        word = self._in_our_numbers(word) if self._link.contained else word
        self.pid = word.leash if isinstance(word, Started) else self.pid
        if self._listen is not None:
            self._listen(word)

    def _in_our_numbers(self, word: LeashWord) -> LeashWord:
        leash = self._lines.sender
        if isinstance(word, Started):
            return Started(command_of(leash, word.pid), leash)
        return Stuck(outside(leash, word.pids)) if isinstance(word, Stuck) else word

    def _hang_up(self) -> None:
        if not self.silent:
            forget(self._loop, self._control.fileno())
            self._control.close()


@mutable
class _Parcel:
    """What the socket could not take yet."""

    rest: bytes
    descriptors: tuple[int, ...] = ()  # our own copies, until they are sent


class Keeper(StoppableProcess, Protocol):
    """A process that can be watched and ended, too."""

    def poll(self) -> int | None:
        """`None` as long as it is there."""
        ...

    def kill(self) -> None:
        """End it by force. Never raises."""
        ...


class Link:
    """A running keeper. It belongs to the event loop in which it was made.

    One that is `contained` is the first process of a pid namespace. Then the kernel ends everybody
    with it, so that none can be lost. `stderr` and the descriptors that are `passed` are for the
    program that puts it there.

    Raises: CannotStart.
    """

    _stderr: int | None = None  # what our own keeper complains of can be read here

    def __init__(
        self,
        argv: Sequence[str],
        kind: KeeperKind,
        *,
        contained: bool = False,
        stderr: int | None = None,
        passed: tuple[int, ...] = (),
    ) -> None:
        try:
            channel, keeper, self._stderr = start_keeper(argv, stderr, passed)
        except OSError as error:
            more = "; end something and try again" if error.errno == errno.EAGAIN else ""
            raise CannotStart(f"the keeper {argv[0]} cannot be started: {error}{more}") from error
        self._hold(channel, keeper, kind, contained=contained)

    def _hold(
        self, channel: socket.socket, keeper: Keeper, kind: KeeperKind, *, contained: bool
    ) -> None:
        self.kind = kind
        self.contained = contained
        self._loop = asyncio.get_running_loop()
        self._ids = count(1)
        self._leashes: dict[int, Leash] = {}
        self._shot: set[int] = set()
        self._parcels: deque[_Parcel] = deque()
        self._alive, self._ending = True, False
        self._over = anyio.Event()
        self._socket, self._process = channel, keeper
        self.pid = keeper.pid
        self._lines = _Lines(channel)
        self._watch = KeeperWatch(keeper, self)
        self._broken = ""  # why it starts nothing, if it does not
        watch(self._loop, channel.fileno(), self._hear)

    @property
    def alive(self) -> bool:
        """Whether the keeper is there. Leashes hold without it, but no more can be had."""
        return self._alive

    @property
    def serves(self) -> bool:
        """Whether it takes commands, by what it has said until now: it may be about to end."""
        if self._alive:
            self._hear()
        return self._alive and not self._ending

    @property
    def last_word(self) -> Gone | Lost:
        """What becomes of a leash without its last word, when there is no keeper either."""
        return Gone(0, 0.0) if self.contained else Lost()

    @property
    def idle(self) -> bool:
        """Nothing runs here."""
        return not self._leashes

    @property
    def doubtful(self) -> bool:
        """Whether it was told to shoot a leash, and has not done so yet."""
        return bool(self._shot)

    def spawn(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        stdio: tuple[int, int, int],
        *,
        tty: bool,
        resources: Resources,
        listen: Callable[[LeashWord], None],
        joins: tuple[int, ...] = (),
        directory: Directory | None = None,
    ) -> Leash:
        """Ask for a leash that `joins` cgroups; `listen` hears the rest. All may be closed at once.

        Raises: CannotStart; then nothing was started, and nothing more is heard.
        """
        leash_id = next(self._ids)
        frame = checked_run_frame(
            leash_id, argv, env, cwd, tty=tty, resources=resources, directory=directory
        )
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise CannotStart(f"no control socket: {error}") from error
        if self.contained:
            ask_who_sends(ours)
        with theirs:
            try:
                self._send(frame, (*stdio, theirs.fileno(), *joins))
            except OSError as error:
                ours.close()
                self._hear()  # if the keeper is dead, `alive` should say so to our caller
                why = self._broken or f"the keeper cannot be asked: {error}"
                raise CannotStart(why) from error
        leash = self._leashes[leash_id] = Leash(self, leash_id, ours, listen)
        self._watch.expect()
        return leash

    def shoot(self, leash_id: int) -> None:
        """Have the keeper kill a leash."""
        self._shot.add(leash_id)
        self._watch.expect()
        with suppress(OSError):  # without a keeper nobody can
            self._send(shoot_frame(leash_id))

    def ask_socket(self, version: int) -> socket.socket:
        """Ask for a stream socket of the keeper's network namespace, of IP version 4 or 6.

        On what is returned the socket comes (`taken_socket`), or the end of file.
        Raises: OSError.
        """
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                self._send(socket_frame(version), (theirs.fileno(),))
            except OSError:
                ours.close()
                raise
        return ours

    def conclude(self, leash: Leash) -> None:
        """A leash has gone without its last word."""
        if self._alive:  # the keeper sweeps, and then says so
            self._watch.expect()
        elif self._broken and not leash.spoke:
            leash.fail(self._broken)
        else:
            leash.finish(self.last_word)

    @property
    def owed(self) -> list[Leash]:
        """See `Creditor`."""
        return [leash for leash in self._leashes.values() if self._owes(leash)]

    @property
    def answering(self) -> set[int]:
        """See `Creditor`."""
        return {leash.pid for leash in self._leashes.values() if not self._owes(leash)}

    def _owes(self, leash: Leash) -> bool:
        return not leash.spoke or leash.silent or leash.id in self._shot

    def give_up(self, *, swept: bool) -> None:
        """See `Creditor`. Leashes that answer hold on; the next command gets another keeper."""
        silent = [leash for leash in self.owed if leash.spoke and leash.silent]
        self._broken = GIVEN_UP
        self._process.kill()
        for leash in silent if swept else ():
            leash.finish(Gone(0, 0.0))

    def forget(self, leash_id: int) -> None:
        """A leash has had its last word."""
        self._leashes.pop(leash_id, None)
        self._shot.discard(leash_id)
        self._settle()

    def dismiss(self) -> None:
        """Let an idle keeper go, without waiting."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def reap(self) -> None:
        """No zombie is left of a keeper that has ended, even if the loop ends right now."""
        self._process.poll()

    async def close(self) -> None:
        """End everything, wait for it a few seconds, and let go of the keeper."""
        self._discard_parcels()
        for leash in tuple(self._leashes.values()):
            leash.close()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._watch.expect()  # a keeper that is stopped would not see the end of the file
        self._settle()
        with anyio.move_on_after(_PATIENCE, shield=True):
            await self._over.wait()
        if self._alive:
            self._process.kill()
            self._hang_up()
        for leash in tuple(self._leashes.values()):
            leash.finish(self.last_word)
        with anyio.move_on_after(_PATIENCE, shield=True):
            while self._process.poll() is None:  # noqa: ASYNC110 (there is no pidfd on macOS)
                await anyio.sleep(_TICK)

    def _bury(self) -> None:
        if self._process.poll() is None:  # its socket closes a little before it ends
            self._loop.call_later(_TICK, self._bury)

    def _hear(self) -> None:
        more = self._lines.receive()
        try:
            for line in self._lines:
                if line == ENDING:
                    self._ending = True
                else:
                    self._swept(parse_swept(line))
        except ValueError:
            more = False
        if not more:
            self._hang_up()

    def _swept(self, leash_id: int) -> None:
        leash = self._leashes.get(leash_id)
        if leash is not None:
            leash.poll()  # it may have said something before it died
            leash.finish(Gone(0, 0.0))

    def _hang_up(self) -> None:
        """The keeper is dead. Its leashes hold on; only who was to be swept after is lost."""
        if not self._alive:
            return
        self._alive = False
        self._broken = self._broken or complaint(self._stderr)
        self._watch.close()
        forget(self._loop, self._socket.fileno())
        self._discard_parcels()
        self._socket.close()
        self._bury()
        for leash in tuple(self._leashes.values()):
            leash.poll()
            if leash.silent:
                self.conclude(leash)
        self._settle()

    def _settle(self) -> None:
        if not self._alive and not self._leashes:
            self._over.set()

    def _send(self, frame: bytes, descriptors: tuple[int, ...] = ()) -> None:
        sent = 0 if self._parcels else self._push(frame, descriptors)
        if sent < len(frame):
            held = () if sent else _duplicates(descriptors)
            self._parcels.append(_Parcel(frame[sent:], held))
            if sent:
                self._flush()

    def _push(self, rest: bytes, descriptors: tuple[int, ...]) -> int:
        """How many bytes the socket took, the descriptors with the first. If none, we try again."""
        try:
            return socket.send_fds(self._socket, [rest], descriptors)
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._flush)
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            # Too many descriptors are on their way. The socket is writable meanwhile.
            self._loop.remove_writer(self._socket)
            self._loop.call_later(_TICK, self._flush)
        return 0

    def _flush(self) -> None:
        while self._parcels:
            parcel = self._parcels[0]
            try:
                sent = self._push(parcel.rest, parcel.descriptors)
            except OSError:
                self._discard_parcels()
                return
            if sent == 0:
                return
            _close(parcel.descriptors)
            parcel.rest, parcel.descriptors = parcel.rest[sent:], ()
            if not parcel.rest:
                self._parcels.popleft()
        if self._alive:
            self._loop.remove_writer(self._socket)

    def _discard_parcels(self) -> None:
        """Their leashes see the end of file: nobody was started, and the keeper cannot say so."""
        for parcel in self._parcels:
            _close(parcel.descriptors)
        self._parcels.clear()
        if self._alive:
            self._loop.remove_writer(self._socket)


def taken_socket(answer: socket.socket) -> socket.socket | None:
    """The socket that a keeper was asked for; `None` if it could make none."""
    with suppress(OSError):
        _, descriptors, _, _ = socket.recv_fds(answer, 1, 1)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
            return socket.socket(fileno=descriptor)
    return None


def checked_run_frame(
    leash_id: int,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    *,
    tty: bool,
    resources: Resources,
    directory: Directory | None,
) -> bytes:
    """The frame that starts a command. Raises: CannotStart for what no command can be."""
    try:
        frame = run_frame(
            leash_id, argv, env, cwd, tty=tty, resources=resources, directory=directory
        )
    except UnicodeEncodeError as error:
        raise CannotStart(f"the command cannot be written as bytes: {error}") from error
    if frame.count(0, HEADER.size) != _FIXED_FIELDS + len(argv) + len(env):
        raise CannotStart("the command, its directory or its environment contains a NUL byte")
    if len(frame) - HEADER.size > BODY_MAX:
        raise CannotStart("the command and its environment are too long: write them to a file")
    return frame


def _duplicates(descriptors: Sequence[int]) -> tuple[int, ...]:
    copies: list[int] = []
    try:
        for descriptor in descriptors:
            copies.append(os.dup(descriptor))  # noqa: PERF401 (what was made must be closed)
    except OSError:
        _close(copies)
        raise
    return tuple(copies)


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
