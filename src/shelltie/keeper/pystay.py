"""The keeper that stays, in Python: what stay.c does, for where it cannot be built.

Run as `python -I -S pystay.py --stay DIRECTORY LISTENER LEASE`, with nothing but the standard
library. Beside it lie pystream.py, which is a part of it, and pykeeper.py, the keeper that starts
and ends commands. The words are in stream_protocol.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hmac
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable

try:
    from shelltie.keeper.pystream import (
        Body,
        Client,
        RefusedFrame,
        Run,
        Spool,
        StateWord,
        Stream,
        is_on_leash,
        listen_in,
        now,
        ordinary_keeper,
    )
except ImportError:  # there is no package around a keeper
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (slow)
    from pystream import (  # type: ignore[import-not-found,no-redef]
        Body,
        Client,
        RefusedFrame,
        Run,
        Spool,
        StateWord,
        Stream,
        is_on_leash,
        listen_in,
        now,
        ordinary_keeper,
    )

PEER, VERSION, MAGIC = struct.Struct("3i"), 1, b"shelltie-stream"
HEADER, WINDOW, INPUT_MAX, CHUNK = struct.Struct("<II"), 256 * 1024, 64 * 1024, 16 * 1024
OUT_FULL, CLIENTS, RUNS_MAX = 64 * 1024, 8, 256
SPOOL_MIN, SPOOL_MOST = 64 * 1024, 1 << 40
TICK, LAST_WORDS, LAST_BYTES, SEND_PATIENCE = 0.02, 2.0, 0.2, 5.0
HELLO, START, FOLLOW, ACK, INPUT, CLOSE, SIGNAL, RESIZE, LIMIT, SHOOT, FORGET, PING = range(1, 13)
WELCOME, ROW, WORD, OUTPUT, END, TAKEN, PONG, ERROR, BYE = range(65, 74)
TERMINAL, FINISH, RUN_FRAME, SHOOT_FRAME = 13, 14, 1, 2
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
ID = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
STATES = (b"started ", b"failed ", b"exited ", b"gone ")


class StayingKeeper:
    """Serves whoever holds it, and keeps lease and limits when nobody does."""

    def __init__(self, directory: str, listener: socket.socket, token: bytes, lease: float) -> None:
        self._directory, self._listener = directory, listener
        self._token, self._lease = token, lease
        self._runs: dict[bytes, Run] = {}
        self._clients: list[Client] = []
        self._holder: Client | None = None
        self._heard = now()
        self._leaving: float | None = None
        self._numbers = 0
        self._wake, writer = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        ours, theirs = socket.socketpair()
        with theirs:
            subprocess.Popen(
                [sys.executable, "-I", "-S", ordinary_keeper(), str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        ours.settimeout(SEND_PATIENCE)
        self._server: socket.socket | None = ours
        self._said = b""
        self._asks: dict[int, Callable[[Body], None]] = {
            START: self._start,
            PING: self._ping,
            FINISH: lambda _: self._leave(),
        }
        self._asks_of_run: dict[int, Callable[[Run, Body], None]] = {
            FOLLOW: self._follow,
            ACK: self._acknowledge,
            INPUT: self._take_input,
            CLOSE: self._close_at,
            SIGNAL: self._signal,
            RESIZE: lambda run, body: run.resize(body.number(65535), body.number(65535)),
            LIMIT: self._limit,
            SHOOT: lambda run, _: self._ask_keeper(SHOOT_FRAME, b"%d\0" % run.number),
            FORGET: self._forget,
            TERMINAL: self._ask_terminal,
        }

    # Turns

    def serve(self) -> None:
        """Until everything is ended: by order, by SIGTERM, or because the lease is over."""
        while not (self._leaving is not None and self._ended()):
            ready = self._wait()
            if self._wake in ready and signal.SIGTERM in os.read(self._wake, 4096):
                self._leave()
            for run in tuple(self._runs.values()):
                if run.control is not None and run.control.fileno() in ready:
                    self._hear_leash(run)
            if self._server is not None and self._server.fileno() in ready:
                self._hear_keeper()
            self._serve_clients(ready)
            # Only now: a word that came in the last moment counts.
            if now() >= self._heard + self._lease or self._server is None:
                self._leave()
            self._keep_limits()
            for run in self._runs.values():
                self._turn_of(run)
            self._send_everything()
            self._flush_clients()
        self._say_farewell()

    def _wait(self) -> set[int]:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if len(self._clients) < CLIENTS:  # those inside are soon known, or out
            poll.register(self._listener, select.POLLIN)
        if self._server is not None:
            poll.register(self._server, select.POLLIN)
        for client in self._clients:
            wanted = 0 if client.closing else select.POLLIN
            poll.register(client.channel, wanted | (select.POLLOUT if client.out else 0))
        for run in self._runs.values():
            for descriptor, events in run.waits_for().items():
                poll.register(descriptor, events)
        return {descriptor for descriptor, _ in poll.poll(self._pause() * 1000)}

    def _pause(self) -> float:
        due = [client.deadline for client in self._clients if client.deadline is not None]
        due += [] if self._leaving is not None else [self._heard + self._lease]
        ticks = self._leaving is not None
        for run in self._runs.values():
            due += [at for at in (run.deadline, run.kill_at) if at is not None]
            ticks = ticks or not all(word.ready for word in run.words)
        pause = max(0.0, min([*due, now() + 60]) - now())
        return min(pause, TICK) if ticks else pause

    def _turn_of(self, run: Run) -> None:
        run.read_output()
        run.write_input()
        if self._holder is not None and run.taken != run.taken_told:
            self._tell(TAKEN, run.name, run.taken)
        run.taken_told = run.taken
        self._settle_words(run)
        if run.asked_terminal and self._holder is not None:
            run.asked_terminal = not self._holder.pass_terminal(run)

    # Clients

    def _serve_clients(self, ready: set[int]) -> None:
        for client in tuple(self._clients):
            if client.channel.fileno() not in ready or client.closing:
                continue
            client.receive()
            try:
                while not client.closing and (frame := client.frame()) is not None:
                    self._serve_frame(client, *frame)
            except RefusedFrame as error:
                self._say_last(client, error.code, str(error))
        if self._listener.fileno() in ready:
            self._let_in()
        self._flush_clients()

    def _flush_clients(self) -> None:
        for client in tuple(self._clients):
            client.flush()
            late = client.deadline is not None and now() >= client.deadline
            if late and not client.closing and not client.broken:
                self._say_last(client, "late", "the greeting did not come in time")
            elif client.broken or (client.closing and (late or not client.out)):
                self._drop(client)

    def _let_in(self) -> None:
        try:
            channel, _ = self._listener.accept()
        except OSError:
            return
        client = Client(channel)
        self._clients.append(client)
        if not hasattr(socket, "SO_PEERCRED"):
            return
        peer = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size)
        pid, uid, _ = PEER.unpack(peer)
        if uid != os.geteuid():
            self._say_last(client, "user", "this keeper is another user's")
        elif is_on_leash(pid):
            self._say_last(client, "leash", "what a keeper holds may not hold it")

    def _drop(self, client: Client) -> None:
        self._let_go(client)
        self._clients.remove(client)
        client.close()

    def _let_go(self, client: Client) -> None:
        if client is not self._holder:
            return
        self._holder = None
        for run in self._runs.values():
            run.asked_terminal = False
            for stream in run.streams:
                stream.followed = False

    def _say_last(self, client: Client, code: str, why: str) -> None:
        client.put(ERROR, code, why)
        self._let_go(client)
        client.closing = True
        client.deadline = now() + LAST_WORDS

    def _serve_frame(self, client: Client, kind: int, body: bytes) -> None:
        if not client.known and kind != HELLO:
            raise RefusedFrame("garbage", "the greeting is missing")
        if not client.known:
            self._meet(client, Body(body))
            return
        self._heard = now()
        rest = Body(body)
        if kind in self._asks_of_run:
            # Of what is forgotten nothing more is to be done.
            if (run := self._runs.get(rest.text())) is not None:
                self._asks_of_run[kind](run, rest)
        elif kind in self._asks:
            self._asks[kind](rest)
        else:
            raise RefusedFrame("garbage", "an unknown frame")

    def _ping(self, body: Body) -> None:
        if len(text := body.text()) > 64:
            raise RefusedFrame("garbage", "this is no ping")
        self._tell(PONG, text)

    def _meet(self, client: Client, body: Body) -> None:
        self._check_greeting(body)
        if self._holder is not None:
            self._say_last(self._holder, "taken", "a newer server has taken over this keeper")
        self._holder, client.known, client.deadline = client, True, None
        self._heard = now()
        self._tell(WELCOME, VERSION, os.getpid(), int(self._lease * 1000), len(self._runs))
        for run in self._runs.values():
            self._tell_row(run)

    def _check_greeting(self, body: Body) -> None:
        if body.text() != MAGIC:
            raise RefusedFrame("garbage", "this is not the greeting of a stream")
        version = body.number()
        if version != VERSION:
            raise RefusedFrame(
                "version",
                f"this keeper speaks version {VERSION} of the stream, and you speak {version}",
            )
        token, how = body.text(), body.text()
        if body.left:
            raise RefusedFrame("garbage", "a greeting has four fields")
        if not self._token or not hmac.compare_digest(token, self._token):
            raise RefusedFrame("token", "this is not the token of this keeper")
        if self._leaving is not None:
            raise RefusedFrame("ending", "this keeper is ending everything it holds")
        if self._holder is not None and how != b"take":
            raise RefusedFrame("held", "another server holds this keeper")

    def _tell(self, kind: int, *fields: object, data: bytes = b"") -> None:
        if self._holder is not None:
            self._holder.put(kind, *fields, data=data)

    def _tell_row(self, run: Run) -> None:
        out, err = run.streams
        spools = [stream.spool for stream in run.streams if stream.spool is not None]
        problem = next((spool.problem for spool in spools if spool.problem), 0)
        known = run.taken + len(run.typed)
        flags = "" if run.terminal is None else "t"
        self._tell(ROW, run.name, known, out.first, out.end, err.first, err.end, flags, problem)
        run.tell_again()
        self._tell_words(run)

    # What a command prints

    def _send_everything(self) -> None:
        """A piece of each, so that one that floods holds nobody up."""
        more = True
        while more:
            more = False
            for run in self._runs.values():
                for number, stream in enumerate(run.streams, 1):
                    if self._holder is None or len(self._holder.out) >= OUT_FULL:
                        # The next turn begins with another.
                        self._runs[run.name] = self._runs.pop(run.name)
                        return
                    more = self._send_output(run, number, stream) or more

    def _send_output(self, run: Run, number: int, stream: Stream) -> bool:
        if not stream.followed:
            return False
        stream.sent = max(stream.sent, stream.first)
        stream.acked = max(stream.acked, stream.first)
        count = min(stream.end - stream.sent, stream.acked + WINDOW - stream.sent, CHUNK)
        data = b""
        if count > 0 and stream.spool is not None:
            data = stream.spool.read(stream.sent, count)
            if not data:  # the disk failed
                stream.sent = stream.first
        if data:
            self._tell(OUTPUT, run.name, number, stream.sent, data=data)
            stream.sent += len(data)
        if stream.source is None and stream.sent == stream.end and not stream.end_told:
            stream.end_told = True
            self._tell(END, run.name, number, stream.end)
        return bool(data)

    def _tell_words(self, run: Run) -> None:
        for word in run.words:
            if not word.ready:
                return
            if not word.told and self._holder is not None:
                self._tell(WORD, run.name, *word.at, word.line)
                word.told = True

    def _settle_words(self, run: Run) -> None:
        """What was printed before the end is read before the end is told."""
        for word in run.words:
            if word.ready:
                continue
            last = run.gone is not None and word.line.startswith(b"gone ")
            if not self._is_dry(run, last=last):
                return
            if last:
                run.close_streams()
            word.at, word.ready = run.ends, True
        self._tell_words(run)

    def _is_dry(self, run: Run, *, last: bool) -> bool:
        dry = all(stream.source is None or stream.dry for stream in run.streams)
        if not last or run.gone is None:
            return dry
        # Nobody is left, so the end of file comes, if nobody else was given the other end.
        over = all(stream.source is None for stream in run.streams)
        return over or (dry and now() >= run.gone + LAST_BYTES)

    # What a leash says

    def _note_end(self, run: Run, line: bytes) -> None:
        if run.gone is not None:
            return
        run.gone, run.deadline, run.kill_at = now(), None, None
        if run.control is not None:
            run.control.close()
            run.control = None
        if run.terminal is None:
            run.close_input()
        run.typed = b""
        self._add_word(run, line, ready=False)

    def _add_word(self, run: Run, line: bytes, *, ready: bool) -> None:
        if not ready:
            for stream in run.streams:
                stream.dry = False
        run.words.append(StateWord(line, run.ends, ready=ready))
        self._tell_words(run)

    def _hear_leash(self, run: Run) -> None:
        assert run.control is not None
        try:
            arrived = run.control.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            arrived = b""
        if not arrived or len(run.line) > 4096:  # shot: our keeper sweeps, and says so
            run.control.close()
            run.control = None
            return
        *lines, run.line = (run.line + arrived).split(b"\n")
        for line in lines:
            if line.startswith(b"gone "):
                self._note_end(run, line)
                return
            if line.startswith(STATES):
                self._add_word(run, line, ready=not line.startswith(b"exited "))
            else:
                self._tell(WORD, run.name, *run.ends, line)

    def _hear_keeper(self) -> None:
        assert self._server is not None
        try:
            arrived = self._server.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            arrived = b""
        if not arrived:
            self._server.close()
            self._server = None
            return
        *lines, self._said = (self._said + arrived).split(b"\n")
        for line in lines:
            for run in tuple(self._runs.values()):
                if line == b"swept %d" % run.number:
                    if run.control is not None:
                        self._hear_leash(run)  # what it said before it died
                    self._note_end(run, b"gone 0 0")

    def _ask_keeper(self, kind: int, body: bytes, descriptors: tuple[int, ...] = ()) -> None:
        """Raises: OSError."""
        if self._server is None:
            raise OSError(errno.ESRCH, "there is no keeper")
        frame = HEADER.pack(len(body), kind) + body
        sent = socket.send_fds(self._server, [frame], descriptors)
        self._server.sendall(frame[sent:])

    # Starting

    def _start(self, body: Body) -> None:
        name = body.text()
        total, grace, bound, kind = body.number(), body.number(), body.number(), body.text()
        rows, columns = body.number(65535), body.number(65535)
        if not 0 < len(name) <= 64 or not ID.issuperset(name) or not body.left.endswith(b"\0"):
            raise RefusedFrame("garbage", "this start cannot be read")
        if not SPOOL_MIN <= bound <= SPOOL_MOST:
            raise RefusedFrame("garbage", "this start cannot be read")
        if name in self._runs:  # it was asked for twice, and is started once
            self._tell_row(self._runs[name])
            return
        run, step = Run(name), ["fork"]
        try:
            self._begin(run, kind, bound, (rows, columns), body.left, step)
        except OSError as error:
            run.close()
            self._tell(WORD, name, 0, 0, f"failed {step[0]} {error.errno or 0}")
            self._tell(WORD, name, 0, 0, "gone 0 0")
            self._tell(END, name, 1, 0)
            self._tell(END, name, 2, 0)
            return
        self._runs[name] = run
        run.deadline = now() + total / 1000 if total else None
        run.grace = grace / 1000
        self._tell_row(run)

    def _begin(
        self, run: Run, kind: bytes, bound: int, size: tuple[int, int], rest: bytes, step: list[str]
    ) -> None:
        if len(self._runs) >= RUNS_MAX or self._leaving is not None:
            raise OSError(errno.EAGAIN, "no room")
        theirs: list[int] = []
        try:
            step[0] = "spool"
            path = f"{self._directory}/{run.name.decode()}"
            run.streams[0].spool = Spool(f"{path}.1", bound)
            if b"p" not in kind and b"o" not in kind:
                run.streams[1].spool = Spool(f"{path}.2", bound)
            step[0] = "fork"
            stdio = self._open_streams(run, kind, theirs)
            run.resize(*size)
            run.control, control = socket.socketpair()
            with control:
                self._numbers += 1
                run.number = self._numbers
                body = b"%d\0" % run.number + rest
                self._ask_keeper(RUN_FRAME, body, (*stdio, control.fileno()))
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def _open_streams(self, run: Run, kind: bytes, theirs: list[int]) -> tuple[int, int, int]:
        """The command's three descriptors; those of the terminal's other side are in `theirs`."""
        terminal, one = b"p" in kind, b"o" in kind
        out, their_out = os.openpty() if terminal else os.pipe()
        theirs.append(their_out)
        run.streams[0].source = out
        os.set_blocking(out, False)
        if terminal:
            run.terminal = out
        if terminal and not one:
            run.input = out
            return their_out, their_out, their_out
        if b"i" in kind:
            their_in, run.input = os.pipe()
            os.set_blocking(run.input, False)
        else:
            their_in = os.open(os.devnull, os.O_RDONLY)
        theirs.append(their_in)
        if one:
            return their_in, their_out, their_out
        err, their_err = os.pipe()
        theirs.append(their_err)
        os.set_blocking(err, False)
        run.streams[1].source = err
        return their_in, their_out, their_err

    # What whoever holds us asks for

    def _stream(self, run: Run, body: Body) -> Stream:
        number = body.number()
        if number not in (1, 2):
            raise RefusedFrame("garbage", "there is nothing to follow there")
        return run.streams[number - 1]

    def _follow(self, run: Run, body: Body) -> None:
        stream, start = self._stream(run, body), body.number()
        if start > stream.end:
            raise RefusedFrame("garbage", "there is nothing to follow there")
        stream.followed, stream.end_told = True, False
        stream.sent = stream.acked = start

    def _acknowledge(self, run: Run, body: Body) -> None:
        stream, upto = self._stream(run, body), body.number()
        if upto > stream.sent:
            raise RefusedFrame("garbage", "this was not sent")
        stream.acked = max(stream.acked, upto)

    def _take_input(self, run: Run, body: Body) -> None:
        start, known = body.number(), run.taken + len(run.typed)
        if start > known:
            raise RefusedFrame("garbage", "input is missing before this")
        fresh = body.left[known - start :]  # what has come before is not typed again
        if len(fresh) > INPUT_MAX - len(run.typed):
            raise RefusedFrame("window", "more input than there is room for")
        if run.input is None:  # nobody reads it
            run.taken += len(fresh)
        else:
            run.typed += fresh

    def _close_at(self, run: Run, body: Body) -> None:
        run.close_at = body.number()

    def _signal(self, run: Run, body: Body) -> None:
        number = body.number()
        if not 1 <= number < signal.NSIG:
            raise RefusedFrame("garbage", "this request cannot be read")
        run.order(number)

    def _limit(self, run: Run, body: Body) -> None:
        left = body.number()
        run.deadline = now() + left / 1000 if left and run.gone is None else None

    def _forget(self, run: Run, _: Body) -> None:
        if run.gone is None:
            raise RefusedFrame("garbage", "it has not ended")
        del self._runs[run.name]
        run.close()

    def _ask_terminal(self, run: Run, _: Body) -> None:
        run.asked_terminal = True

    # Time, and the end

    def _keep_limits(self) -> None:
        for run in self._runs.values():
            if run.kill_at is not None and now() >= run.kill_at:
                run.order(signal.SIGKILL)
                run.kill_at = now() + 1
            if run.deadline is not None and now() >= run.deadline:
                self._add_word(run, b"expired", ready=True)
                run.order(signal.SIGTERM)
                run.deadline, run.kill_at = None, now() + run.grace

    def _leave(self) -> None:
        if self._leaving is None:
            self._leaving = now()
            for run in self._runs.values():
                run.hang_up()

    def _ended(self) -> bool:
        """True when nobody is left."""
        assert self._leaving is not None
        over = all(run.gone is not None for run in self._runs.values())
        if self._server is not None and (over or now() > self._leaving + 2):
            with contextlib.suppress(OSError):
                self._server.shutdown(socket.SHUT_WR)  # it ends whoever is left, by force
        if self._server is not None or not self._bury():
            return False
        for run in self._runs.values():
            self._note_end(run, b"gone 0 0")
        return all(word.ready for run in self._runs.values() for word in run.words)

    def _bury(self) -> bool:
        """Our keeper is dead, or ends. Its leashes end with their sockets, and what was theirs
        becomes ours: so we kill our children until there is none, which is a proof as well.
        """
        assert self._leaving is not None
        for run in self._runs.values():
            run.hang_up()
            if run.control is not None:
                self._hear_leash(run)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        if now() > self._leaving + 2 and sys.platform == "linux":
            for pid in own_children():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        return False

    def _say_farewell(self) -> None:
        patience = now() + LAST_WORDS
        self._tell(BYE)
        while True:
            self._send_everything()
            self._flush_clients()
            waits = any(
                stream.followed and not stream.end_told
                for run in self._runs.values()
                for stream in run.streams
            )
            holder = self._holder
            if holder is None or (not waits and not holder.out) or now() >= patience:
                break
            events = select.POLLIN | (select.POLLOUT if holder.out else 0)
            poll = select.poll()
            poll.register(holder.channel, events)
            self._serve_clients({descriptor for descriptor, _ in poll.poll(TICK * 1000)})
        for run in self._runs.values():
            run.close()
        for name in ("token", "socket", "about"):
            with contextlib.suppress(OSError):
                os.unlink(f"{self._directory}/{name}")  # noqa: PTH108 (as above)
        with contextlib.suppress(OSError):
            os.rmdir(self._directory)  # noqa: PTH106 (as above)


def own_children() -> list[int]:
    """Whom only we can reap."""
    with open("/proc/thread-self/children", "rb") as file:  # noqa: PTH123 (as above)
        return [int(pid) for pid in file.read().split()]


def hold_descendants() -> None:
    """Who loses our keeper becomes our child; and nobody may look into us."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def read_token(directory: str) -> bytes:
    """Raises: OSError, also where others may look into the directory."""
    place = os.lstat(directory)
    if place.st_uid != os.geteuid() or place.st_mode & 0o77 or not os.path.isdir(directory):  # noqa: PTH112 (as above)
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), directory)
    file = os.open(f"{directory}/token", os.O_RDONLY | os.O_NOFOLLOW)
    try:
        return os.read(file, 127).partition(b"\n")[0]
    finally:
        os.close(file)


def main(words: list[str]) -> None:
    """Begin to stay; what is wrong with how it was started is said on stderr."""
    if len(words) != 5 or words[1] != "--stay" or not words[4].isdigit() or int(words[4]) <= 0:
        sys.exit("usage: pystay.py --stay DIRECTORY LISTENER LEASE")
    directory, lease = words[2], int(words[4]) / 1000
    try:
        token = read_token(directory)
        listener = listen_in(directory) if words[3] == "-" else socket.socket(fileno=int(words[3]))
        listener.setblocking(False)
        os.set_inheritable(listener.fileno(), False)
    except (OSError, ValueError) as error:
        sys.exit(f"shelltie-keeper: {error}")
    with contextlib.suppress(OSError):  # if we lead one already
        os.setsid()
    if os.fork():  # whoever started us sees that it could be done, and has no child then
        return
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.close(null)
    os.chdir("/")
    hold_descendants()
    StayingKeeper(directory, listener, token, lease).serve()


if __name__ == "__main__":
    main(sys.argv)
    os._exit(0)
