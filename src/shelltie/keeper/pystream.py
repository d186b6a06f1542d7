"""Streams, spools and clients of the keeper that stays, in Python (ring file, authentication).

Part of pystay.py, which is run with nothing but the standard library, and finds this beside it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import termios
import time

HEADER = struct.Struct("<II")
GREETING_MAX, FRAME_MAX, START_MAX, OUT_MAX = 4096, 128 * 1024, 8 * 1024 * 1024, 1024 * 1024
CHUNK, READS_A_TURN, PATIENCE = 16 * 1024, 8, 5.0
START, TTY = 2, 74
now = time.monotonic


class RefusedFrame(Exception):
    """What is wrong on a connection: a code, and why."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


class Body:
    """What is left of the fields of a frame."""

    def __init__(self, left: bytes) -> None:
        self.left = left

    def text(self) -> bytes:
        text, end, self.left = self.left.partition(b"\0")
        if not end:
            raise RefusedFrame("garbage", "this request cannot be read")
        return text

    def number(self, most: int = 10**18 - 1) -> int:
        text = self.text()
        if not text.isdigit() or len(text) > 18 or int(text) > most:
            raise RefusedFrame("garbage", "this request cannot be read")
        return int(text)


class Spool:
    """The last bytes of a stream in a file of bounded size, at absolute offsets (ring file)."""

    def __init__(self, path: str, size: int) -> None:
        self.path, self.size = path, size
        self.first = self.end = self.problem = 0
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        try:
            # Who starts knows then that the room is there; a disk that others fill costs nothing.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file, 0, size)
        except OSError:
            self.close()
            raise

    def add(self, data: bytes) -> None:
        """What the disk does not take is lost, and counted like what fell out."""
        at, self.end = self.end, self.end + len(data)
        try:
            while data:
                room = self.size - at % self.size
                done = os.pwrite(self._file, data[:room], at % self.size)
                at, data = at + done, data[done:]
            self.first = max(self.first, self.end - self.size)
        except OSError as error:
            self.problem, self.first = error.errno or errno.EIO, self.end

    def read(self, start: int, count: int) -> bytes:
        count = min(count, self.end - start)
        place = start % self.size
        try:
            data = os.pread(self._file, min(count, self.size - place), place)
            if len(data) < count and data:
                data += os.pread(self._file, count - len(data), 0)
        except OSError as error:
            self.problem = error.errno or errno.EIO
            data = b""
        if len(data) != count:
            self.first = self.end
            return b""
        return data

    def close(self) -> None:
        os.close(self._file)
        with contextlib.suppress(OSError):
            os.unlink(self.path)  # noqa: PTH108 (pathlib is slow to import)


class Stream:
    """What a command prints to one descriptor."""

    def __init__(self, source: int | None, spool: Spool | None) -> None:
        self.source, self.spool = source, spool
        self.acked = self.sent = 0
        self.followed = self.dry = self.end_told = False

    @property
    def first(self) -> int:
        return self.spool.first if self.spool else 0

    @property
    def end(self) -> int:
        return self.spool.end if self.spool else 0

    @property
    def wants_more(self) -> bool:
        """While somebody reads along, what they have not read is not overwritten."""
        if self.source is None or self.spool is None:
            return False
        return not self.followed or self.end - self.acked + CHUNK <= self.spool.size

    def close(self) -> None:
        if self.source is not None:
            os.close(self.source)
        self.source = None

    def read(self) -> bool:
        """Take what was printed. False at the end."""
        for _ in range(READS_A_TURN):
            if not self.wants_more or self.source is None or self.spool is None:
                return True
            try:
                data = os.read(self.source, CHUNK)
            except BlockingIOError:
                self.dry = True
                return True
            except OSError:  # EIO is how a terminal ends
                data = b""
            if not data:
                self.dry = True
                return False
            self.spool.add(data)
        return True


class StateWord:
    """What a leash has said of a command's state; whoever comes later is told it, too."""

    def __init__(self, line: bytes, at: list[int], *, ready: bool) -> None:
        self.line, self.at, self.ready = line, at, ready
        self.told = False


class Run:
    """One command: our ends of its streams, and what its leash has said."""

    def __init__(self, name: bytes) -> None:
        self.name, self.number = name, 0
        self.control: socket.socket | None = None
        self.streams = [Stream(None, None), Stream(None, None)]
        self.input: int | None = None
        self.terminal: int | None = None
        self.line = b""
        self.words: list[StateWord] = []
        self.gone: float | None = None
        self.asked_terminal = False
        self.deadline: float | None = None
        self.kill_at: float | None = None
        self.grace = 0.0
        self.typed, self.taken, self.taken_told = b"", 0, 0
        self.close_at: int | None = None

    @property
    def ends(self) -> list[int]:
        return [stream.end for stream in self.streams]

    def tell_again(self) -> None:
        """Whoever comes now has heard no state, and not how much input there is room for."""
        self.taken_told = -1
        for word in self.words:
            word.told = False

    def waits_for(self) -> dict[int, int]:
        """What to poll for, by descriptor."""
        wants = {} if self.control is None else {self.control.fileno(): select.POLLIN}
        for stream in self.streams:
            if stream.wants_more and stream.source is not None:
                wants[stream.source] = select.POLLIN
        if self.typed and self.input is not None:
            wants[self.input] = wants.get(self.input, 0) | select.POLLOUT
        return wants

    def close_input(self) -> None:
        if self.input is not None and self.input != self.terminal:
            os.close(self.input)
        self.input = None

    def order(self, number: int) -> None:
        with contextlib.suppress(OSError):
            if self.control is not None:
                self.control.send(bytes([number]), socket.MSG_DONTWAIT)

    def hang_up(self) -> None:
        """To a leash the end of file means kill."""
        with contextlib.suppress(OSError):
            if self.control is not None:
                self.control.shutdown(socket.SHUT_WR)

    def read_output(self) -> None:
        for stream in self.streams:
            if stream.source is not None and not stream.read():
                if stream.source == self.terminal:
                    self.terminal = self.input = None
                stream.close()

    def write_input(self) -> None:
        while self.typed and self.input is not None:
            try:
                count = os.write(self.input, self.typed)
            except BlockingIOError:
                break
            except OSError:  # nobody reads any more
                count = len(self.typed)
                self.close_input()
            self.taken, self.typed = self.taken + count, self.typed[count:]
        if self.close_at is not None and self.taken >= self.close_at and self.terminal is None:
            self.close_input()

    def resize(self, rows: int, columns: int) -> None:
        with contextlib.suppress(OSError):
            if self.terminal is not None:
                fcntl.ioctl(
                    self.terminal, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0)
                )

    def close_streams(self) -> None:
        self.close_input()
        self.terminal = None
        for stream in self.streams:
            stream.close()

    def close(self) -> None:
        if self.control is not None:
            self.control.close()
        self.close_input()
        for stream in self.streams:
            stream.close()
            if stream.spool is not None:
                stream.spool.close()


class Client:
    """Whoever is connected; it must show the token before anything else."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        channel.setblocking(False)
        self.known = self.closing = self.broken = False
        self.deadline: float | None = now() + PATIENCE
        self.arrived = bytearray()
        self.out = bytearray()
        self.passed: tuple[int, int] | None = None  # where in `out`, and the descriptor

    def put(self, kind: int, *fields: object, data: bytes = b"") -> None:
        if self.broken or self.closing:
            return
        if len(self.out) > OUT_MAX:  # it asks, and does not read what we answer
            self.broken = True
            return
        texts = (field if isinstance(field, bytes) else str(field).encode() for field in fields)
        head = b"".join(text + b"\0" for text in texts)
        self.out += HEADER.pack(len(head) + len(data), kind) + head + data

    def pass_terminal(self, run: Run) -> bool:
        if self.passed is not None or run.terminal is None:
            return run.terminal is None
        self.passed = len(self.out), os.dup(run.terminal)
        self.put(TTY, run.name)
        return True

    def flush(self) -> None:
        while self.out and not self.broken:
            try:
                if self.passed is not None and self.passed[0] == 0:
                    sent = socket.send_fds(self.channel, [self.out], [self.passed[1]])
                    os.close(self.passed[1])
                    self.passed = None
                else:
                    until = self.passed[0] if self.passed is not None else len(self.out)
                    sent = self.channel.send(self.out[:until])
                    if self.passed is not None:
                        self.passed = until - sent, self.passed[1]
            except BlockingIOError:
                return
            except OSError:
                self.broken = True
                return
            del self.out[:sent]

    def frame(self) -> tuple[int, bytes] | None:
        """The next whole frame, if there is one."""
        if len(self.arrived) < HEADER.size:
            return None
        length, kind = HEADER.unpack_from(self.arrived)
        most = START_MAX if kind == START else FRAME_MAX
        if length > (most if self.known else GREETING_MAX):
            raise RefusedFrame("oversize", "a frame is longer than it may be")
        if len(self.arrived) < HEADER.size + length:
            return None
        body = bytes(self.arrived[HEADER.size : HEADER.size + length])
        del self.arrived[: HEADER.size + length]
        return kind, body

    def receive(self) -> None:
        """Take what has come."""
        try:
            arrived = self.channel.recv(64 * 1024)
        except BlockingIOError:
            return
        except OSError:
            arrived = b""
        self.arrived += arrived
        self.broken = self.broken or not arrived

    def close(self) -> None:
        self.channel.close()
        if self.passed is not None:
            os.close(self.passed[1])


def listen_in(directory: str) -> socket.socket:
    """By a relative name: the address of a socket has 107 bytes, and a home may have more."""
    listener = socket.socket(socket.AF_UNIX)
    os.chdir(directory)
    listener.bind("socket")
    os.chdir("/")
    listener.listen(16)
    return listener


def parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 (as above)
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def is_on_leash(pid: int) -> bool:
    """What we hold may not hold us. Its orphans are our keeper's: nobody gets out of this."""
    for _ in range(4096):
        if pid == os.getpid():
            return True
        if pid <= 1:
            return False
        pid = parent_of(pid)
    return False


def ordinary_keeper() -> str:
    """What is run as the keeper that starts and ends commands; we may all be in one file."""
    beside = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (as above)
    return f"{beside}/pykeeper.py" if os.path.isdir(beside) else beside  # noqa: PTH112 (as above)
