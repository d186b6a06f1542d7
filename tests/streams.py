"""A peer of a keeper that stays, which says frames one by one, wrong ones too."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from shelltie.keeper.binaries import choose, staying_argv
from shelltie.keeper.protocol import HEADER, run_frame
from shelltie.keeper.stay_folder import StayFolder
from shelltie.keeper.stream_protocol import (
    MAGIC,
    VERSION,
    FrameReader,
    SaidFrame,
    StreamAsk,
    StreamSay,
    asked,
)
from shelltie.model import Resources

PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
LIMIT = 40.0  # seconds for whatever is waited for
BOUND = 64 * 1024


class StreamPeer:
    """One connection. Blocks; whatever is waited for comes within LIMIT."""

    def __init__(self, channel: socket.socket, token: str) -> None:
        channel.setblocking(True)
        channel.settimeout(LIMIT)
        self.channel, self.token = channel, token
        self.frames: list[SaidFrame] = []
        self._reader = FrameReader()
        self.over = False

    def send(self, data: bytes) -> None:
        self.channel.sendall(data)

    def ask(self, kind: StreamAsk, *fields: str | int, data: bytes = b"") -> None:
        self.send(asked(kind, *fields, data=data))

    def hello(self, how: str = "take", version: int = VERSION) -> "StreamPeer":
        self.ask(StreamAsk.HELLO, MAGIC, version, self.token, how)
        return self

    def start(
        self,
        run: str,
        *argv: str,
        total: int = 0,
        grace: int = 0,
        streams: str = "o",
        bound: int = BOUND,
    ) -> None:
        tty = "p" in streams and "o" not in streams
        frame = run_frame(0, argv, PATH, "/", tty=tty, resources=Resources())
        rest = frame[HEADER.size :].partition(b"\0")[2]
        self.ask(StreamAsk.START, run, total, grace, bound, streams, 24, 80, data=rest)

    def receive(self) -> bool:
        """False at the end of the connection."""
        try:
            arrived = self.channel.recv(65536)
        except ConnectionResetError:
            arrived = b""
        self.over = not arrived
        self.frames += self._reader.feed(arrived)
        return bool(arrived)

    def wait(self, wanted: Callable[[SaidFrame], bool]) -> SaidFrame:
        """The first frame that is so; it stays in `frames`."""
        seen, deadline = 0, time.monotonic() + LIMIT
        while True:
            for frame in self.frames[seen:]:
                if wanted(frame):
                    return frame
            seen = len(self.frames)
            assert time.monotonic() < deadline, self.frames[-5:]
            assert self.receive(), f"the connection ended after {self.frames[-5:]}"

    def said(self, kind: StreamSay, run: str | None = None) -> SaidFrame:
        return self.wait(lambda one: one.kind is kind and run in (None, *one.fields[:1]))

    def word(self, run: str, name: str) -> str:
        def is_it(frame: SaidFrame) -> bool:
            if frame.kind is not StreamSay.WORD or frame.fields[0] != run:
                return False
            return frame.fields[3].split()[0] == name

        return self.wait(is_it).fields[3]

    def words(self, run: str) -> list[str]:
        mine = (one for one in self.frames if one.kind is StreamSay.WORD and one.fields[0] == run)
        return [one.fields[3].split()[0] for one in mine]

    def read_all(self, run: str, start: int = 0, stream: int = 1) -> tuple[int, bytes]:
        """Follow to the end: where what can still be read begins, and all of it."""
        self.ask(StreamAsk.FOLLOW, run, stream, start)
        first, got, seen = start, bytearray(), len(self.frames)
        while True:
            for frame in self.frames[seen:]:
                if frame.kind is StreamSay.OUTPUT and frame.fields[:2] == (run, str(stream)):
                    first = frame.number(2) if not got else first
                    assert frame.number(2) == first + len(got), "a byte twice, or a gap"
                    got += frame.data
                    self.ask(StreamAsk.ACK, run, stream, first + len(got))
                if frame.kind is StreamSay.END and frame.fields[:2] == (run, str(stream)):
                    assert frame.number(2) == first + len(got)
                    return first, bytes(got)
            seen = len(self.frames)
            assert self.receive()

    def error(self) -> str:
        """The code of the error with which this connection ends."""
        frame = self.said(StreamSay.ERROR)
        while not self.over:
            self.receive()
        return frame.fields[0]

    def close(self) -> None:
        self.channel.close()


class StreamPlace:
    """A keeper that stays, in a folder of its own."""

    def __init__(self, folder: Path, keeper: str) -> None:
        self.folder = StayFolder(folder)
        self._keeper = keeper
        self._peers: list[StreamPeer] = []

    def launch(self, lease: float = 120.0) -> StreamPeer:
        argv, kind = choose(self._keeper)
        process, channel, token = self.folder.launch(
            staying_argv(argv, kind), "k", b"{}", lease, stderr=sys.stderr.fileno()
        )
        assert process.wait(LIMIT) == 0
        return self._peer(channel, token)

    def connect(self) -> StreamPeer:
        while True:
            with suppress(BlockingIOError):  # too many wait at its door
                return self._peer(*self.folder.reach("k"))
            time.sleep(0.01)

    def _peer(self, channel: socket.socket, token: str) -> StreamPeer:
        self._peers.append(StreamPeer(channel, token))
        return self._peers[-1]

    @property
    def files(self) -> set[str]:
        return {one.name for one in (self.folder.place / "k").glob("*")}

    def gone(self) -> None:
        """Wait until keeper and directory are gone."""
        deadline = time.monotonic() + LIMIT
        while self.folder.names():
            assert time.monotonic() < deadline, self.files
            time.sleep(0.01)

    def end(self) -> None:
        for peer in self._peers:
            peer.close()
        try:
            last = self.connect().hello()
            last.ask(StreamAsk.FINISH)
            while last.receive():
                pass
            last.close()
        except OSError:  # it has ended already
            pass


@contextmanager
def stream_place(folder: Path, keeper: str) -> Iterator[StreamPlace]:
    """One whose keeper is ended at the end."""
    place = StreamPlace(folder, keeper)
    try:
        yield place
    finally:
        place.end()


def inner_keeper(pid: int) -> psutil.Process:
    """The ordinary keeper below one that stays."""
    (child,) = psutil.Process(pid).children()
    return child


def run_python(code: str, *arguments: str) -> bytes:
    """What a small program prints."""
    return subprocess.check_output([sys.executable, "-c", code, *arguments], timeout=LIMIT)
