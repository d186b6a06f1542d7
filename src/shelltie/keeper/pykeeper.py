"""The keeper in Python, for where keeper.c cannot be built; protocol.py says what is spoken.

Run as `python -I -S pykeeper.py FD`, with nothing but the standard library, so that it starts fast
and can be copied to another machine. On Linux it promises what keeper.c promises: each leash is a
child subreaper, and "gone" is the kernel's word.

Elsewhere (or with SHELLTIE_PYKEEPER_PORTABLE=1) there are no subreapers, and `Remembered` looks
for the tree with ps: whoever is in the command's process group, or was once seen below somebody of
the tree. Not promised then: to find a process that left the group and lost its parent between two
looks; to sweep after a leash that was shot ("swept" is not said, for nobody knows); and a pid that
was freed and taken by a stranger between two looks is taken for the old one.
"""

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

HEADER = struct.Struct("<II")
RUN, SHOOT = 1, 2
BODY_MAX = 8 * 1024 * 1024
READ_SIZE = 64 * 1024
CONTROL, DESCRIPTORS = 3, 4
TICK = 0.02
STUCK_MAX = 32
END = signal.SIGRTMIN + 5 if sys.platform == "linux" else signal.SIGUSR2  # a leash is to kill all
WAKING = (signal.SIGCHLD, signal.SIGTERM, END)
ASKING_TO_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
LIMITS = {
    "n": resource.RLIMIT_NOFILE,
    "c": resource.RLIMIT_CORE,
    "u": resource.RLIMIT_NPROC,
    "v": resource.RLIMIT_AS,
    "t": resource.RLIMIT_CPU,
}
PORTABLE = sys.platform != "linux" or "SHELLTIE_PYKEEPER_PORTABLE" in os.environ


def say(to: socket.socket, line: str) -> bool:
    """Say it all or nothing and never wait: a server that does not read must not stop us."""
    try:
        return to.send(line.encode() + b"\n", socket.MSG_DONTWAIT) > 0
    except OSError:
        return False


def send(pid: int, number: int) -> int:
    """Signal a process; the errno, or 0."""
    try:
        os.kill(pid, number)
    except OSError as error:
        return error.errno
    return 0


class Wake:
    """The signals that have come, as something to poll for."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in WAKING:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAKING)

    def took(self, wanted: int) -> bool:
        """Take all signals that have come; whether `wanted` was among them."""
        try:
            return wanted in os.read(self.reader, READ_SIZE)
        except BlockingIOError:
            return False

    def close(self) -> None:
        """For a child, which must not wake its parent."""
        os.close(self.reader)
        os.close(self._writer)


def wait(seconds: float | None, *sources: int) -> list[int]:
    """Which of the descriptors are ready."""
    poll = select.poll()
    for source in sources:
        poll.register(source, select.POLLIN)
    return [ready for ready, _ in poll.poll(None if seconds is None else seconds * 1000)]


# ---- Who is there ----


def contents(path: str) -> bytes:
    """A file of /proc, or nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return b"".join(iter(lambda: os.read(descriptor, READ_SIZE), b""))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def own_children() -> list[int]:
    """Exact, because nobody but us removes somebody from this list: a parent reaps."""
    return [int(pid) for pid in contents("/proc/thread-self/children").split()]


def children_of(pid: int) -> list[int]:
    """Each thread has its own list."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    lists = (contents(f"/proc/{pid}/task/{thread}/children") for thread in threads)
    return [int(child) for one in lists for child in one.split()]


def alive(pid: int) -> bool:
    """Not a zombie. A process whose first thread has ended looks like one, but has more threads."""
    fields = contents(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(fields) and (fields[0] not in (b"Z", b"X") or int(fields[17]) > 1)


class Reaped:
    """The tree of a child subreaper: everybody is a child of ours in the end."""

    pause: float | None = None  # nobody needs to be remembered

    def __init__(self) -> None:
        become_subreaper()

    def held(self, command: int) -> None:
        """The command that was started."""

    def killable(self) -> list[int]:
        """Our unreaped children: nobody else can have their pids."""
        return own_children()

    def living(self) -> list[int]:
        """Everybody who lives below us, at one moment more or less."""
        found = own_children()
        for pid in found:  # which grows meanwhile
            found += [child for child in children_of(pid) if child not in found]
        return [pid for pid in found if alive(pid)]

    def is_empty(self, *, childless: bool) -> bool:
        """The kernel knows."""
        return childless


class Remembered:
    """The tree without a subreaper: what ps shows now, and what it showed before."""

    def __init__(self) -> None:
        self.pause: float | None = 0.05  # to the next look: soon at first, then ever later
        self._known: set[int] = set()
        self._group = 0

    def held(self, command: int) -> None:
        """The command that was started."""
        self._group = command
        self._known = {command}

    def killable(self) -> list[int]:
        """The same as the living: there is nothing better."""
        return self.living()

    def living(self) -> list[int]:
        """Look again."""
        self.pause = min(2.0, 2 * (self.pause or 1))
        if not self._group:
            return []
        table = processes()
        self._known &= table.keys()
        self._known |= {pid for pid, (_, group) in table.items() if group == self._group}
        size = -1
        while size < len(self._known):
            size = len(self._known)
            self._known |= {pid for pid, (parent, _) in table.items() if parent in self._known}
        return list(self._known)

    def is_empty(self, *, childless: bool) -> bool:
        """As far as we can see."""
        return childless and not self.living()


def processes() -> dict[int, tuple[int, int]]:
    """Parent and process group of everybody but zombies, by pid."""
    reader, writer = os.pipe()
    ps = os.posix_spawnp(
        "ps",
        ["ps", "-axo", "pid=,ppid=,pgid=,stat="],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)],
        setsigmask=(),
    )
    os.close(writer)
    with open(reader, encoding="ascii", errors="replace") as listing:  # noqa: PTH123 (a pipe)
        rows = [line.split() for line in listing]
    os.waitpid(ps, 0)
    return {int(r[0]): (int(r[1]), int(r[2])) for r in rows if len(r) > 3 and r[3][0] != "Z"}


def become_subreaper() -> None:
    """From now on the orphans below us are ours, not init's."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


# ---- A leash: starts one command, and holds everything it starts until nobody is left ----


class Order:
    """What a RUN frame asks for. Raises: ValueError."""

    def __init__(self, body: bytes) -> None:
        _, flags, self.cwd, limits, argc, *rest = body[:-1].split(b"\0")
        self.tty = b"t" in flags
        self.limits = limits.decode("ascii").split()
        count = int(argc)
        if not 1 <= count <= len(rest):
            raise ValueError("argc is wrong")
        self.argv = rest[:count]
        pairs = (entry.partition(b"=") for entry in rest[count:])
        self.env = {name: value for name, _, value in pairs}


def limit(letter: str, value: int) -> None:
    """Soft and hard alike. Above the hard limit only root could go, and it holds anyway."""
    hard = resource.getrlimit(LIMITS[letter])[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(LIMITS[letter], (value, value))


def execute(program: bytes, order: Order) -> None:
    """Become the program. A script without #! is the shell's, as with execvp()."""
    try:
        os.execve(program, order.argv, order.env)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        os.execve(b"/bin/sh", [b"/bin/sh", program, *order.argv[1:]], order.env)


def search_and_execute(order: Order) -> NoReturn:
    """Become the program, which is looked for in the PATH that it is given."""
    name, failed = order.argv[0], errno.ENOENT
    if b"/" in name:
        execute(name, order)
    folders = order.env.get(b"PATH", b"/bin:/usr/bin").split(b":") if name else ()
    for folder in folders:
        try:
            execute(os.path.join(folder, name), order)  # noqa: PTH118 (bytes)
        except PermissionError:
            failed = errno.EACCES
        except (FileNotFoundError, NotADirectoryError):
            continue
    raise OSError(failed, os.strerror(failed))


def become(order: Order, stdio: list[int], report: int) -> NoReturn:
    """In the child: become the command, or report the step that failed, and why."""
    step, code = "fork", errno.EINVAL
    try:
        os.setsid()
        for target, source in enumerate(stdio):
            os.dup2(source, target)
        step = "tty"
        if order.tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        step = "limit"
        for word in order.limits:
            limit(word[0], int(word[1:]))
        step = "chdir"
        if order.cwd:
            os.chdir(order.cwd)
        step = "exec"
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        search_and_execute(order)
    except OSError as error:
        code = error.errno
    except (ValueError, KeyError):
        pass
    os.write(report, f"{step} {code}".encode())
    os._exit(127)


class Leash:
    """One command and its tree."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._wake = Wake()
        self._tree: Reaped | Remembered = Remembered() if PORTABLE else Reaped()
        self._command = 0

    def run(self, body: bytes, stdio: list[int]) -> bool:
        """Everything, from start to last word; whether that could be said."""
        self._start(body, stdio)
        for descriptor in stdio:
            os.close(descriptor)
        self._hold()
        rounds = self._kill_everybody()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = int((used.ru_utime + used.ru_stime) * 1000)
        return say(self._control, f"gone {rounds} {cpu}")

    def _start(self, body: bytes, stdio: list[int]) -> None:
        if self._is_deserted():
            return
        try:
            order = Order(body)
            reader, writer = os.pipe()
            pid = os.fork()
        except (OSError, ValueError) as error:
            code = error.errno if isinstance(error, OSError) else errno.EINVAL
            say(self._control, f"failed fork {code}")
            return
        if pid == 0:
            self._wake.close()
            become(order, stdio, writer)
        os.close(writer)
        failure = os.read(reader, 64).decode()  # ends when the command has been exec'ed
        os.close(reader)
        if failure:
            say(self._control, f"failed {failure}")
        else:
            self._command = pid
            self._tree.held(pid)
            say(self._control, f"started {pid} {os.getpid()}")

    def _is_deserted(self) -> bool:
        """Nothing starts for a server that is gone."""
        try:
            return not self._control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _hold(self) -> None:
        while not self._reap():
            ready = wait(self._tree.pause, self._wake.reader, self._control.fileno())
            if self._wake.took(END):
                return
            if self._control.fileno() in ready and not self._obey():
                return

    def _obey(self) -> bool:
        """False when everybody is to be killed: by order, or because the server is gone."""
        try:
            orders = self._control.recv(64, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for number in orders:
            if number == signal.SIGKILL:
                return False
            self._signal_everybody(number)
        return bool(orders)

    def _signal_everybody(self, number: int) -> None:
        pids = self._tree.living()
        results = [send(pid, number) for pid in pids]
        if number in ASKING_TO_END:
            for pid in pids:
                send(pid, signal.SIGCONT)  # who is stopped would die only when continued
        sent, refused = results.count(0), results.count(errno.EPERM)
        say(self._control, f"signalled {number} {sent} {refused}")

    def _reap(self) -> bool:
        """True when nobody is left."""
        ended, childless = None, False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                childless = True
                break
            if pid == 0:
                break
            if pid == self._command:
                self._command, ended = 0, status
        empty = self._tree.is_empty(childless=childless)
        if ended is not None:
            left = 0 if empty else len(self._tree.living())
            say(self._control, f"exited {ended} {left}")
        return empty

    def _kill_everybody(self) -> int:
        rounds, report = 0, time.monotonic() + 1
        while not self._reap():
            for pid in self._tree.killable():
                send(pid, signal.SIGKILL)
            rounds += 1
            wait(TICK, self._wake.reader)
            self._wake.took(signal.SIGCHLD)
            if time.monotonic() >= report:
                self._report_stuck()
                report += 1
        return rounds

    def _report_stuck(self) -> None:
        """Somebody resists. Their children may still be ours to kill, so for once we look deeper."""
        pids = self._tree.living()
        for pid in pids:
            send(pid, signal.SIGKILL)
        if pids:
            say(self._control, f"stuck {' '.join(map(str, pids[:STUCK_MAX]))}")


# ---- The keeper ----


class Frame:
    """A frame that is arriving."""

    def __init__(self) -> None:
        self.head = b""
        self.body = bytearray()
        self.skipped = 0  # of a body that is too long to be kept
        self.descriptors: list[int] = []

    def receive(self, source: socket.socket) -> bool:
        """Take what has come. False at the end of file."""
        try:
            arrived = self._receive(source)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if len(self.head) < HEADER.size:
            self.head += arrived
        elif self.length > BODY_MAX:
            self.skipped += len(arrived)
        else:
            self.body += arrived
        return bool(arrived)

    def _receive(self, source: socket.socket) -> bytes:
        # The header is read alone, or descriptors would arrive with bytes of the frame before theirs.
        if self.head:
            return source.recv(min(self.left, READ_SIZE))
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        arrived, self.descriptors, _, _ = socket.recv_fds(
            source, HEADER.size, DESCRIPTORS, flags | socket.MSG_DONTWAIT
        )
        for descriptor in self.descriptors:
            os.set_inheritable(descriptor, False)
        return arrived

    @property
    def length(self) -> int:
        """Of the body, as the header says."""
        return int(HEADER.unpack(self.head)[0])

    @property
    def kind(self) -> int:
        """RUN or SHOOT, hopefully."""
        return int(HEADER.unpack(self.head)[1])

    @property
    def left(self) -> int:
        """How many bytes are still to come, as far as we know."""
        if len(self.head) < HEADER.size:
            return HEADER.size - len(self.head)
        return self.length - len(self.body) - self.skipped

    def close(self) -> None:
        """Let go of what came with it."""
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
        if not PORTABLE:
            become_subreaper()

    def serve(self) -> None:
        """Until the server is gone, or SIGTERM; then end everything."""
        while not self._bury() or self._ending is None:
            self._sweep()
            pause = TICK if self._unswept or self._ending else None
            sources = () if self._ending else (self._server.fileno(),)
            ready = wait(pause, self._wake.reader, *sources)
            asked = self._wake.took(signal.SIGTERM)
            deserted = self._server.fileno() in ready and not self._receive()
            if (asked or deserted) and self._ending is None:
                self._frame.close()
                self._ending = time.monotonic() + 1
                self._signal_leashes(END)
            if self._ending and time.monotonic() >= self._ending:
                self._signal_leashes(signal.SIGKILL)  # stopped, or holding somebody who resists
        self._sweep()

    def _signal_leashes(self, number: int) -> None:
        for pid in self._leashes:
            send(pid, number)
            send(pid, signal.SIGCONT)  # its command may have stopped it

    def _receive(self) -> bool:
        frame = self._frame
        more = frame.receive(self._server)
        if more and not frame.left:
            self._serve_frame(frame)
            frame.close()
            self._frame = Frame()
        return more

    def _serve_frame(self, frame: Frame) -> None:
        complete = len(frame.descriptors) == DESCRIPTORS
        leash_id = frame.body.partition(b"\0")[0]
        if not leash_id.isdigit() or frame.body[-1]:
            if complete:
                refuse(frame, errno.E2BIG if frame.skipped else errno.EINVAL)
        elif frame.kind == SHOOT:
            self._shoot(int(leash_id))
        elif frame.kind == RUN and complete:
            self._run(int(leash_id), frame)
        elif frame.kind == RUN:  # we have too many descriptors, so these did not arrive
            say(self._server, f"swept {int(leash_id)}")

    def _run(self, leash_id: int, frame: Frame) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, WAKING)  # until the leash has its own Wake
        try:
            pid = os.fork()
        except OSError as error:
            refuse(frame, error.errno)
            pid = -1
        if pid == 0:
            self._server.close()  # or the server would not see the keeper die
            self._wake.close()
            leash = Leash(socket.socket(fileno=frame.descriptors[CONTROL]))
            os._exit(0 if leash.run(bytes(frame.body), frame.descriptors[:CONTROL]) else 1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, WAKING)
        if pid > 0:
            self._leashes[pid] = leash_id

    def _shoot(self, leash_id: int) -> None:
        for pid, known in self._leashes.items():
            if known == leash_id:
                send(pid, signal.SIGKILL)

    def _bury(self) -> bool:
        """True when there is no child left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            leash_id = self._leashes.pop(pid, None)
            if leash_id is not None and status and not PORTABLE:
                self._unswept.append(leash_id)

    def _sweep(self) -> None:
        """A leash's orphans are ours before we can reap it: with no stranger left they are gone."""
        if PORTABLE or not (self._unswept or self._ending):
            return
        strangers = [pid for pid in own_children() if pid not in self._leashes]
        for pid in strangers:
            send(pid, signal.SIGKILL)
        if not strangers:
            self._unswept = [i for i in self._unswept if not say(self._server, f"swept {i}")]


def refuse(frame: Frame, code: int) -> None:
    """Say that no leash could be had."""
    with socket.socket(fileno=os.dup(frame.descriptors[CONTROL])) as control:
        say(control, f"failed fork {code}\ngone 0 0")


def forget_environment() -> None:
    """Wipe what /proc/PID/environ shows: a command can read that of its parent."""
    strings = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    for string in iter(iter(strings).__next__, None):
        ctypes.memset(string, 0, len(ctypes.string_at(string)))


def prepare() -> None:
    """Our own session; nothing inherited; all signals blocked, and as the command wants them."""
    while os.open(os.devnull, os.O_RDWR) < CONTROL:
        pass  # what arrives must not be 0, 1 or 2: dup2() would overwrite it
    for name in os.listdir("/dev/fd"):
        try:
            os.set_inheritable(int(name), False)
        except OSError:  # the listing's own
            continue
    if os.getpgrp() != os.getpid():
        os.setsid()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def main() -> None:
    """Serve on the inherited socket."""
    prepare()
    if not PORTABLE:
        forget_environment()
    Keeper(socket.socket(fileno=int(sys.argv[1]))).serve()
    os._exit(0)


if __name__ == "__main__":
    main()
