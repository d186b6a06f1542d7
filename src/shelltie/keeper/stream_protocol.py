"""Wire protocol of a keeper that stays: frames on one byte stream, as bytes. Pure.

A keeper that stays outlives whoever started it. It listens on a Unix socket in a directory of mode
0700, and whoever connects shows the token that lies there. One holds it at a time.

Every frame is `<II` (body length, kind) and a body of NUL-terminated fields; numbers are decimal
text. INPUT and OUTPUT have bytes after their fields. Before the greeting a frame has at most 4 KiB,
a START at most 8 MiB, any other at most 128 KiB. Whatever is wrong ends that connection alone,
after an ERROR frame.

Whoever holds it says:

    HELLO     "shelltie-stream" version token how     how: take (from whoever holds it), or free
    START     run total grace bound streams rows columns, and then what a RUN frame of
              protocol.py has after its id. `run` is a name of the caller's; to say it again starts
              nothing again. After `total` milliseconds (0: never) the keeper itself sends SIGTERM,
              and SIGKILL after `grace`. Of each stream the last `bound` bytes are kept. `streams`:
              p is a terminal, o one output, i input that stays open
    FOLLOW    run stream from     send output from this byte on; stream 1 is stdout, 2 stderr
    ACK       run stream upto     this much was taken: WINDOW bytes beyond it may be sent
    INPUT     run from bytes      what was sent before is not typed again; INPUT_MAX may wait
    CLOSE     run at              the input ends after that byte
    SIGNAL    run number          to every descendant; 9 until nobody is left
    RESIZE    run rows columns
    LIMIT     run total           ends it so many milliseconds from now; 0: never
    SHOOT     run                 end a leash that does not answer
    FORGET    run                 it has ended, and all was read
    PING      text
    TERMINAL  run                 have its terminal passed as a descriptor, to look at
    FINISH                        end everything, and leave

Any frame renews the lease. The keeper says:

    WELCOME   version pid lease runs
    ROW       run input first1 end1 first2 end2 flags errno    what it holds: how much input it has,
              which bytes of each stream; flag t has a terminal; errno of a disk that failed
    WORD      run out err line    what the leash said (protocol.py) when so much had been printed,
              or `expired`: its total time was over. `started`, `failed`, `exited`, `expired` and
              `gone` are said again to whoever comes later. A start can also fail at `spool`
    OUTPUT    run stream from bytes    what is missing before `from` fell out of the bound
    END       run stream at       there will be no more
    TAKEN     run upto            the command's input has had this much
    PONG      text
    ERROR     code text           garbage, oversize, version, token, user, leash, held, taken,
              late, ending, window or memory; the connection ends
    BYE                           everything was ended, and nobody is left
    TTY       run                 the descriptor came with this frame

While somebody follows a stream, nothing that was not acknowledged falls out of its bound: the
command waits, as before a full pipe. While nobody does, the oldest falls out, and it goes on.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum

from shelltie.basics.frozen import frozen

HEADER = struct.Struct("<II")
MAGIC = "shelltie-stream"
VERSION = 1
FRAME_MAX = 128 * 1024
WINDOW = 256 * 1024
INPUT_MAX = 64 * 1024


class StreamAsk(IntEnum):
    """What is asked of a keeper that stays."""

    HELLO = 1
    START = 2
    FOLLOW = 3
    ACK = 4
    INPUT = 5
    CLOSE = 6
    SIGNAL = 7
    RESIZE = 8
    LIMIT = 9
    SHOOT = 10
    FORGET = 11
    PING = 12
    TERMINAL = 13
    FINISH = 14


class StreamSay(IntEnum):
    """What a keeper that stays says."""

    WELCOME = 65
    ROW = 66
    WORD = 67
    OUTPUT = 68
    END = 69
    TAKEN = 70
    PONG = 71
    ERROR = 72
    BYE = 73
    TTY = 74


@frozen
class SaidFrame:
    """A frame of the keeper's: its fields, and the bytes after them."""

    kind: StreamSay
    fields: tuple[str, ...]
    data: bytes = b""

    def number(self, index: int) -> int:
        """A field that is a number.

        Raises: ValueError.
        """
        text = self.fields[index]
        if not text.isascii() or not text.isdigit():
            raise ValueError(f"a keeper said {text[:40]!r} where a number is")
        return int(text)


_FIELDS = {
    StreamSay.WELCOME: 4,
    StreamSay.ROW: 8,
    StreamSay.WORD: 4,
    StreamSay.OUTPUT: 3,
    StreamSay.END: 3,
    StreamSay.TAKEN: 2,
    StreamSay.PONG: 1,
    StreamSay.ERROR: 2,
    StreamSay.BYE: 0,
    StreamSay.TTY: 1,
}


def asked(kind: StreamAsk, *fields: str | int, data: bytes = b"") -> bytes:
    """A frame for the keeper. Of a START the data is the rest of its fields."""
    head = "".join(f"{field}\0" for field in fields).encode("utf-8", "surrogateescape")
    return HEADER.pack(len(head) + len(data), kind) + head + data


class FrameReader:
    """Cuts what a keeper says into frames; half a frame waits for its rest."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, arrived: bytes) -> Iterator[SaidFrame]:
        """The frames that are whole now.

        Raises: ValueError for what no keeper of this version says.
        """
        self._rest += arrived
        while len(self._rest) >= HEADER.size:
            length, kind = HEADER.unpack_from(self._rest)
            if length > FRAME_MAX:
                raise ValueError(f"a frame of {length} bytes")
            if len(self._rest) < HEADER.size + length:
                return
            body = bytes(self._rest[HEADER.size : HEADER.size + length])
            del self._rest[: HEADER.size + length]
            yield _read(StreamSay(kind), body)


def _read(kind: StreamSay, body: bytes) -> SaidFrame:
    parts = body.split(b"\0", _FIELDS[kind])
    if len(parts) != _FIELDS[kind] + 1 or (parts[-1] and kind is not StreamSay.OUTPUT):
        raise ValueError(f"a frame {kind.name} with other fields than it has")
    fields = tuple(part.decode("utf-8", "replace") for part in parts[:-1])
    return SaidFrame(kind, fields, parts[-1])
