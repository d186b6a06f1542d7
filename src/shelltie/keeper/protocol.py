"""Wire protocol between server, keeper and leash, as bytes. Pure.

There is one stream socket between a server and its keeper, and one more for each command, between
the server and that command's leash. Numbers are decimal text unless said otherwise.

Server to keeper, frames of `<II` (body length, kind) and a body of NUL-terminated fields:

    RUN    id flags cwd limits argc argv… env…     carries four descriptors: stdin, stdout,
           stderr and the leash's end of the control socket, on the first byte of the frame; then
           up to four files of cgroups, which the leash joins by writing 0. Of the flags, t is a
           terminal, and dDEVICE.INODE the directory that cwd must lead to; else chdir has failed
    SHOOT  id                                      kill the leash itself: it does not answer
    SOCKET version                                 make a stream socket of IP version 4 or 6 in the
           keeper's network namespace; carries one descriptor, a socket on which the made one is
           passed back beside one byte, or which ends

Keeper to server, lines:

    swept ID        that leash died without a word, and nobody of its tree is left
    ending          somebody else told the keeper (in C) to end everything, and it begins

Server to leash, single bytes: the number of a signal for every descendant; SIGKILL (9), like the
end of file, means "kill until nobody is left".

Leash to server, lines:

    started PID LEASH            the command runs
    failed STEP ERRNO            it could not be started: fork, join, limit, tty, chdir or exec
    signalled SIG SENT REFUSED   how many processes got the signal, how many may not be signalled
    exited WAITSTATUS LEFT       the command's own process ended; LEFT descendants still live
    stuck PID…                   SIGKILL was sent and these are still there
    gone ROUNDS CPU_MS           nobody is left; the leash ends now
"""

import struct
from collections.abc import Callable, Mapping, Sequence

from shelltie.basics.frozen import frozen
from shelltie.model import Directory, RefusedHost, Resources

HEADER = struct.Struct("<II")
RUN, SHOOT, SOCKET = 1, 2, 3
BODY_MAX = 8 * 1024 * 1024  # more than any kernel lets a program be given

_LETTERS = {
    "open_files": "n",
    "core": "c",
    "processes": "u",
    "address_space": "v",
    "cpu_seconds": "t",
}


@frozen
class Started:
    """The command runs; `leash` is the pid that holds it."""

    pid: int
    leash: int


@frozen
class Failed:
    """The command could not be started, and why.

    Of the step "keeper" we say ourselves, with a `reason`: it ended before it took the command.
    """

    step: str
    errno: int
    reason: str = ""


@frozen
class Signalled:
    """A signal was sent to the whole tree."""

    signal: int
    sent: int
    refused: int


@frozen
class Exited:
    """The command's own process ended, with the status of waitpid()."""

    wait_status: int
    left: int


@frozen
class Expired:
    """Its total time was over, and a keeper that stays has begun to end it without a server."""


@frozen
class Stuck:
    """Processes that SIGKILL did not end yet."""

    pids: tuple[int, ...]


@frozen
class Gone:
    """The kernel says that nobody is left."""

    rounds: int
    cpu: float


@frozen
class Lost:
    """Leash and keeper are both gone, so nobody can say what is left. No leash says this itself."""


@frozen
class Taken:
    """Another server holds it now, and it goes on there. A keeper that stays says this."""


@frozen
class Unreachable:
    """The connection to its keeper is lost, and it goes on there; a place says this, no leash."""

    message: str


@frozen
class Reachable:
    """The connection is back, and nothing was lost."""


@frozen
class Noted:
    """What the user should know of this run. A provider says this, no leash does.

    `exhausted` is what the tree wanted more of than it may have. `undone` is said of something that
    it did and must not stay, `unwritten` of something that it wrote and is only kept as a trial.
    `refused` is a host that its network list does not have.
    """

    message: str
    exhausted: str = ""
    undone: bool = False
    unwritten: bool = False
    refused: RefusedHost | None = None


@frozen
class Missing(Noted):
    """Of stream 1 or 2, `size` bytes from `at` on are lost. A keeper that stays causes this."""

    stream: int = 1
    at: int = 0
    size: int = 0


LeashWord = (
    Noted
    | Started
    | Failed
    | Signalled
    | Exited
    | Expired
    | Stuck
    | Unreachable
    | Reachable
    | Gone
    | Lost
    | Taken
)


def run_frame(
    leash_id: int,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    *,
    tty: bool,
    resources: Resources,
    directory: Directory | None = None,
) -> bytes:
    """The frame that starts a command; its four descriptors travel beside it."""
    limits = " ".join(
        f"{letter}{value}"
        for name, letter in _LETTERS.items()
        if (value := getattr(resources, name)) is not None
    )
    flags = ("t" if tty else "") + ("" if directory is None else "d{}.{}".format(*directory))
    fields = [str(leash_id), flags, cwd, limits, str(len(argv)), *argv]
    fields += map("=".join, env.items())  # no step of Python's for each: there may be a hundred
    body = "\0".join((*fields, "")).encode("utf-8", "surrogateescape")
    return HEADER.pack(len(body), RUN) + body


def shoot_frame(leash_id: int) -> bytes:
    """The frame that kills a leash which does not answer."""
    body = f"{leash_id}\0".encode()
    return HEADER.pack(len(body), SHOOT) + body


def socket_frame(version: int) -> bytes:
    """The frame that asks for a socket; the one to answer on travels beside it."""
    body = f"{version}\0".encode()
    return HEADER.pack(len(body), SOCKET) + body


def parse_word(line: bytes) -> LeashWord:
    """What a leash said in one line."""
    name, *numbers = line.decode("ascii").split()
    try:
        return _WORDS[name](*numbers)
    except (KeyError, TypeError) as error:  # another word, or too few numbers
        raise ValueError(f"a leash said {line!r}") from error


_WORDS: dict[str, Callable[..., LeashWord]] = {
    "started": lambda pid, leash: Started(int(pid), int(leash)),
    "failed": lambda step, errno: Failed(step, int(errno)),
    "signalled": lambda signal, sent, refused: Signalled(int(signal), int(sent), int(refused)),
    "exited": lambda status, left: Exited(int(status), int(left)),
    "expired": Expired,
    "stuck": lambda *pids: Stuck(tuple(map(int, pids))),
    "gone": lambda rounds, cpu: Gone(int(rounds), int(cpu) / 1000),
}


ENDING = b"ending"


def parse_swept(line: bytes) -> int:
    """Which leash the keeper has swept after."""
    name, leash_id = line.decode("ascii").split()
    if name != "swept":
        raise ValueError(f"a keeper said {line!r}")
    return int(leash_id)
