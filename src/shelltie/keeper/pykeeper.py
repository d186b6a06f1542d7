"""The keeper in Python (subreaper, process tree), for where keeper.c cannot be built.

Run as `python -I -S pykeeper.py FD`, with nothing but the standard library, so that it starts fast
and can be copied to another machine. On Linux it promises what keeper.c promises: each leash is a
child subreaper, and "gone" is the kernel's word.

Elsewhere (or with SHELLTIE_PYKEEPER_PORTABLE=1) there are no subreapers, and `PortableLeash` looks
for the tree with ps: whoever is in the command's process group, or was once seen below somebody of
the tree. Not promised then: to find a process that left the group and lost its parent between two
looks; to sweep after a leash that was shot ("swept" is not said, for nobody knows); to notice that
a pid has become a stranger's between two looks. The CPU time is then ps's too.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import select
import signal
import socket
import struct
import sys
import termios
import time
from typing import NoReturn

HEADER, BODY_MAX, READ_SIZE = struct.Struct("<II"), 8 * 1024 * 1024, 64 * 1024
RUN, SHOOT, SOCKET, CONTROL, DESCRIPTORS, DESCRIPTORS_MAX = 1, 2, 3, 3, 4, 8
PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 2, 4, 36
TICK, STUCK_MAX = 0.02, 32
END = signal.SIGRTMIN + 5 if sys.platform == "linux" else signal.SIGUSR2  # a leash is to kill all
WAKING = (signal.SIGCHLD, signal.SIGTERM, END)
ASKING_TO_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
NAMES = {"n": "NOFILE", "c": "CORE", "u": "NPROC", "v": "AS", "t": "CPU"}
LIMITS = {letter: getattr(resource, f"RLIMIT_{name}") for letter, name in NAMES.items()}
LIBC, HUNG_UP = ctypes.CDLL(None), getattr(select, "POLLRDHUP", select.POLLHUP)
PORTABLE = sys.platform != "linux" or "SHELLTIE_PYKEEPER_PORTABLE" in os.environ


def say(to: socket.socket, line: str) -> bool:
    """Say it all or nothing and never wait: a server that does not read must not stop us."""
    try:
        return to.send(line.encode() + b"\n", socket.MSG_DONTWAIT) > 0
    except OSError:
        return False


def code(error: Exception) -> int:
    """The errno, also of what was not even asked of the kernel."""
    return error.errno or 0 if isinstance(error, OSError) else errno.EINVAL


def send(pid: int, number: int) -> int:
    """Signal a process; the errno, or 0."""
    try:
        os.kill(pid, number)
    except OSError as error:
        return code(error)
    return 0


def kill_child(pid: int) -> None:
    """With its whole group, which the kernel kills at once: a bomb outruns everything slower."""
    # No other session has members from outside our tree, and while it is unreaped, no stranger's.
    with contextlib.suppress(OSError):
        if not PORTABLE and os.getsid(pid) != os.getsid(0):
            os.killpg(os.getpgid(pid), signal.SIGKILL)
    send(pid, signal.SIGKILL)


def reap() -> tuple[dict[int, int], bool]:
    """The wait status of each child that has died; and whether there is none left."""
    statuses: dict[int, int] = {}
    try:
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            statuses[child[0]] = child[1]
    except ChildProcessError:
        return statuses, True
    return statuses, False


def wait(seconds: float | None, *sources: int, events: int = select.POLLIN) -> list[int]:
    poll = select.poll()
    for source in sources:
        poll.register(source, events)
    return [ready for ready, _ in poll.poll(None if seconds is None else seconds * 1000)]


class Wake:
    """The signals that have come, as something to wait for."""

    def __init__(self) -> None:
        self._came: set[int] = set()
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in WAKING:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAKING)

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._came.update(os.read(self.reader, READ_SIZE))

    def took(self, wanted: int) -> bool:
        """Take all signals that have come; whether `wanted` was among them."""
        self.drain()
        came, self._came = self._came, set()
        return wanted in came


def contents(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 (pathlib is slow to import)
            return file.read()
    except OSError:
        return b""


def own_children() -> list[int]:
    """Exact, because nobody but us removes somebody from this list: a parent reaps."""
    return [int(pid) for pid in contents("/proc/thread-self/children").split()]


def children_of(pid: int) -> list[int]:
    try:  # each thread has its own list
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 (as above)
    except OSError:
        return []
    lists = (contents(f"/proc/{pid}/task/{thread}/children") for thread in threads)
    return [int(child) for one in lists for child in one.split()]


def alive(pid: int) -> bool:
    """Not a zombie. A process whose first thread has ended looks like one, but has more threads."""
    fields = contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(fields) and (fields[0] not in (b"Z", b"X") or int(fields[17]) > 1)


def limit(number: int, value: int) -> None:
    """Soft and hard alike. Above the hard limit only root could go, and it holds anyway."""
    hard = resource.getrlimit(number)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (value, value))


def execute(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """As execvp(): the PATH is the command's own, and a script without #! is the shell's."""
    try:
        os.execvpe(argv[0], argv, env)  # noqa: S606 (no shell is wanted)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        script = [b"/bin/sh", os.fsencode(error.filename), *argv[1:]]
        os.execve(script[0], script, env)  # noqa: S606 (this is one)


def become(body: bytes, stdio: list[int], report: int) -> NoReturn:
    """In the child: become the command, or report the step that failed, and why."""
    step = "fork"
    try:
        _, flags, cwd, limits, argc, *rest = body[:-1].split(b"\0")
        program, *arguments = [rest[i] for i in range(int(argc))]
        pairs = [entry.partition(b"=") for entry in rest[int(argc) :]]
        os.setsid()
        for target, source in enumerate(stdio):
            os.dup2(source, target)
        step = "tty"
        if b"t" in flags:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        step = "limit"
        for word in limits.decode().split():
            limit(LIMITS[word[0]], int(word[1:]))
        step = "chdir"
        os.chdir(cwd or b".")
        if b"d" in flags and not flags.endswith(b"d%d.%d" % os.stat(".")[2:0:-1]):  # noqa: PTH116
            raise OSError(errno.ESTALE, "another directory")  # noqa: TRY301 (reported below)
        step = "exec"
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        execute([program, *arguments], {name: value for name, _, value in pairs})
    except (OSError, ValueError, LookupError, OverflowError) as error:
        os.write(report, f"{step} {code(error)}".encode())
    os._exit(127)


class Leash:
    """Starts one command, and holds everything it starts until nobody is left."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._wake = Wake()
        self._command = 0
        self._pause: float | None = None  # until we look again unasked

    def run(self, body: bytes, descriptors: list[int]) -> bool:
        """Everything, from the start to the last word; whether that could be said."""
        step, stdio, cgroups = "join", descriptors[:CONTROL], descriptors[DESCRIPTORS:]
        hold_descendants()
        try:
            for group in cgroups:
                os.write(group, b"0")  # the kernel takes it for whoever writes it
            step = "fork"
            if not wait(0, self._control.fileno(), events=HUNG_UP):  # nothing for who is gone
                self._start(body, stdio)
        except OSError as error:
            say(self._control, f"failed {step} {code(error)}")
        for descriptor in (*stdio, *cgroups):
            os.close(descriptor)
        self._hold()
        rounds = self._kill_everybody()
        user, system, *_ = resource.getrusage(resource.RUSAGE_CHILDREN)
        return say(self._control, f"gone {rounds} {int((user + system) * 1000)}")

    def _start(self, body: bytes, stdio: list[int]) -> None:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            become(body, stdio, writer)
        os.close(writer)
        failure = os.read(reader, 64).decode()  # ends when the command has been exec'ed
        os.close(reader)
        self._command = 0 if failure else pid
        say(self._control, f"failed {failure}" if failure else f"started {pid} {os.getpid()}")

    def _hold(self) -> None:
        while not self._reap():
            ready = wait(self._pause, self._wake.reader, self._control.fileno())
            if PORTABLE:
                self._living()
            if self._wake.took(END):
                return
            if self._control.fileno() in ready and not self._obey():
                return

    def _obey(self) -> bool:
        """False when everybody is to be killed: by order, or because the server is gone."""
        try:
            orders = self._control.recv(64, socket.MSG_DONTWAIT)
        except OSError as error:
            return isinstance(error, BlockingIOError)
        for number in orders:
            if number == signal.SIGKILL:
                return False
            self._signal_everybody(number)
        return bool(orders)

    def _signal_everybody(self, number: int) -> None:
        pids = self._living()
        results = [send(pid, number) for pid in pids]
        for pid in pids if number in ASKING_TO_END else ():
            send(pid, signal.SIGCONT)  # who is stopped would die only when continued
        say(self._control, f"signalled {number} {results.count(0)} {results.count(errno.EPERM)}")

    def _reap(self) -> bool:
        """True when nobody is left."""
        statuses, childless = reap()
        empty = childless and not (PORTABLE and self._living())
        if (status := statuses.get(self._command)) is not None:
            self._command = 0
            say(self._control, f"exited {status} {0 if empty else len(self._living())}")
        return empty

    def _kill_everybody(self) -> int:
        rounds, patience = 0, time.monotonic() + 1
        while not self._reap():
            # While our own are not reaped, nobody else can have their pids.
            for pid in self._living() if PORTABLE else own_children():
                kill_child(pid)
            rounds += 1
            wait(TICK, self._wake.reader)
            self._wake.took(signal.SIGCHLD)
            if time.monotonic() >= patience:
                patience += 1
                self._report_stuck()
        return rounds

    def _report_stuck(self) -> None:
        """Somebody resists. Their children may still be ours to kill: for once we look deeper."""
        pids = self._living()
        for pid in pids:
            send(pid, signal.SIGKILL)
        if pids:
            say(self._control, f"stuck {' '.join(map(str, pids[:STUCK_MAX]))}")

    def _living(self) -> list[int]:
        """Everybody who lives below us, at one moment more or less."""
        found = dict.fromkeys(own_children())
        queue = list(found)
        for pid in queue:  # which grows meanwhile
            fresh = [child for child in children_of(pid) if child not in found]
            found.update(dict.fromkeys(fresh))
            queue += fresh
        return [pid for pid in found if alive(pid)]


class PortableLeash(Leash):
    """Remembers who belongs to the tree, for want of a subreaper."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__(control)
        self._pause = 0.05  # soon at first, then ever later
        self._group = 0
        self._known: set[int] = set()

    def _living(self) -> list[int]:
        self._pause = min(2.0, 2 * (self._pause or 1))
        self._group = self._group or self._command
        if self._group == 0:
            return []
        try:
            table = processes()
        except OSError:
            return [*self._known, self._group]  # as long as we cannot see, nobody is gone
        self._wake.drain()  # ps was a child of ours
        self._known &= table.keys()
        self._known |= {pid for pid, (_, group) in table.items() if group == self._group}
        size = -1
        while size < len(self._known):
            size = len(self._known)
            self._known |= {pid for pid, (parent, _) in table.items() if parent in self._known}
        return list(self._known)


def processes() -> dict[int, tuple[int, int]]:
    """Parent and process group of everybody but zombies, by pid."""
    with os.popen("ps -axo pid=,ppid=,pgid=,stat=") as listing:  # noqa: S605, S607 (nothing variable)
        rows = [line.split() for line in listing]
    table = {int(r[0]): (int(r[1]), int(r[2])) for r in rows if len(r) > 3 and r[3][0] != "Z"}
    if os.getpid() not in table:
        raise OSError(errno.ENOSYS, "ps does not tell")
    return table


class Frame:
    def __init__(self) -> None:
        self.bytes = bytearray()  # what has arrived
        self.skipped = 0  # of a body that is too long to be kept
        self.descriptors: list[int] = []

    def left(self) -> int:
        """How much is to come: the header, and then what it says."""
        if len(self.bytes) < HEADER.size:
            return HEADER.size - len(self.bytes)
        length, _ = HEADER.unpack_from(self.bytes)
        if length > BODY_MAX:
            self.skipped += len(self.bytes) - HEADER.size
            del self.bytes[HEADER.size :]
        return HEADER.size + int(length) - len(self.bytes) - self.skipped

    def receive(self, source: socket.socket) -> bool:
        """Take what has come. False at the end of file."""
        # The header is read alone, or descriptors would come with bytes of the frame before theirs.
        try:
            if self.bytes:
                arrived = source.recv(min(self.left(), READ_SIZE), socket.MSG_DONTWAIT)
            else:
                # This takes no flags, whatever it says: neither DONTWAIT nor CMSG_CLOEXEC.
                arrived, self.descriptors, _, _ = socket.recv_fds(
                    source, HEADER.size, DESCRIPTORS_MAX
                )
        except OSError as error:
            return isinstance(error, BlockingIOError)
        for descriptor in self.descriptors:
            os.set_inheritable(descriptor, False)
        self.bytes += arrived
        return bool(arrived)

    def refuse(self, error: int) -> None:
        with socket.socket(fileno=self.descriptors.pop(CONTROL)) as control:
            say(control, f"failed fork {error}\ngone 0 0")

    def lend_socket(self, version: int) -> None:
        """A socket stays in the network namespace in which it was made, whoever connects it."""
        family = socket.AF_INET6 if version == 6 else socket.AF_INET
        # Whoever asked sees the end of file if there can be none.
        with (
            contextlib.suppress(OSError),
            socket.socket(fileno=self.descriptors.pop()) as answer,
            socket.socket(family) as made,
        ):
            answer.setblocking(False)
            socket.send_fds(answer, [b"\0"], [made.fileno()])

    def close(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)


class Keeper:
    """Forks a leash for each command, and sweeps after those that were shot."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server
        self._wake = Wake()
        self._leashes: dict[int, int] = {}  # id by pid
        self._unswept: list[int] = []
        self._frame = Frame()
        self._ending: float | None = None  # when patience with the leashes ends

    def serve(self) -> None:
        """Until the server is gone, or SIGTERM; then end everything."""
        server = self._server.fileno()
        while not self._bury() or self._ending is None:
            self._sweep()
            pause = TICK if self._unswept or self._ending else None
            ready = wait(pause, self._wake.reader, *(() if self._ending else (server,)))
            asked = self._wake.took(signal.SIGTERM) and os.getpid() != 1  # there a command may
            deserted = server in ready and not self._receive()
            if self._ending is None and (asked or deserted):
                self._frame.close()
                self._ending = time.monotonic() + 1
                self._signal_leashes(END)
            elif self._ending and time.monotonic() >= self._ending and not PORTABLE:
                self._signal_leashes(signal.SIGKILL)  # stopped, or holding somebody who resists
        self._sweep()

    def _signal_leashes(self, number: int, only: int | None = None) -> None:
        for pid, leash_id in self._leashes.items():
            if only in (None, leash_id):
                send(pid, number)
                send(pid, signal.SIGCONT)  # its command may have stopped it

    def _receive(self) -> bool:
        frame = self._frame
        more = frame.receive(self._server)
        if more and not frame.left():
            self._frame = Frame()
            self._serve_frame(frame)
            frame.close()
        return more

    def _serve_frame(self, frame: Frame) -> None:
        (_, kind), body = HEADER.unpack_from(frame.bytes), bytes(frame.bytes[HEADER.size :])
        leash_id = body.partition(b"\0")[0]
        complete = len(frame.descriptors) >= DESCRIPTORS
        if not leash_id.isdigit() or body[-1]:
            if complete:
                frame.refuse(errno.E2BIG if frame.skipped else errno.EINVAL)
        elif kind == SHOOT:
            self._signal_leashes(signal.SIGKILL, int(leash_id))
        elif kind == SOCKET and frame.descriptors:
            frame.lend_socket(int(leash_id))
        elif kind == RUN and complete:
            self._run(int(leash_id), frame, body)
        elif kind == RUN:  # we have too many descriptors, so these did not arrive
            say(self._server, f"swept {int(leash_id)}")

    def _run(self, leash_id: int, frame: Frame, body: bytes) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, WAKING)  # until the leash has its own Wake
        try:
            pid = os.fork()
        except OSError as error:
            frame.refuse(code(error))
            pid = -1
        if pid == 0:
            self._server.close()  # or the server would not see the keeper die
            control = socket.socket(fileno=frame.descriptors[CONTROL])
            leash = PortableLeash(control) if PORTABLE else Leash(control)
            os._exit(0 if leash.run(body, frame.descriptors) else 1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAKING)
        if pid > 0:
            self._leashes[pid] = leash_id

    def _bury(self) -> bool:
        statuses, childless = reap()
        for pid, status in statuses.items():
            leash_id = self._leashes.pop(pid, None)
            if leash_id is not None and status and not PORTABLE:
                self._unswept.append(leash_id)
        # A stopped leash hears nothing. One a round: who goes on shall not keep us from the rest.
        with contextlib.suppress(ChildProcessError):  # which is said of zombies alone, too
            stopped = os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG)
            if stopped is not None and stopped.si_pid in self._leashes:
                send(stopped.si_pid, signal.SIGCONT)
        return childless

    def _sweep(self) -> None:
        """A leash's orphans are ours before we can reap it: with no stranger left they are gone."""
        if PORTABLE or not (self._unswept or self._ending):
            return
        strangers = [pid for pid in own_children() if pid not in self._leashes]
        for pid in strangers:
            kill_child(pid)
        if not strangers:
            self._unswept = [i for i in self._unswept if not say(self._server, f"swept {i}")]


def hold_descendants() -> None:
    """For keeper and leash; a fork inherits neither."""
    if not PORTABLE:
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # Who is stopped sees no end of file: when the parent dies, the kernel continues us. In a
        # sandbox it kills us then, because bwrap has said so before.
        at_its_death = ctypes.c_int()
        LIBC.prctl(PR_GET_PDEATHSIG, ctypes.byref(at_its_death), 0, 0, 0)
        if not at_its_death.value:
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)


def prepare() -> None:
    """Our own session, nothing inherited, every signal blocked and as a command should find it."""
    while os.open(os.devnull, os.O_RDWR) < CONTROL:
        pass  # what arrives must not be 0, 1 or 2: dup2() would overwrite it
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 (as above)
        with contextlib.suppress(OSError):  # the listing's own
            os.set_inheritable(int(name), False)
    with contextlib.suppress(OSError):  # if we lead one already
        os.setsid()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    hold_descendants()
    if not PORTABLE and b"hidepid=" not in contents("/proc/self/mounts"):
        # No command may look into us; where others are hidden, the server would not see us then.
        LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def main(words: list[str]) -> None:
    """Serve whoever has the other end of the socket that is named."""
    if not PORTABLE and os.path.realpath("/proc/self") != f"/proc/{os.getpid()}":
        sys.exit("shelltie-keeper: /proc is missing, or of another pid namespace")
    prepare()
    Keeper(socket.socket(fileno=int(words[1]))).serve()


if __name__ == "__main__":
    main(sys.argv)
    os._exit(0)
