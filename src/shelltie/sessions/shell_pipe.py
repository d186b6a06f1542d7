"""Command pipe of a persistent shell, and the filter that removes marks from its output."""

import fcntl
import os
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from shelltie.errors import InvalidParameters
from shelltie.model import Stream
from shelltie.output.store import Store
from shelltie.sessions.shell_marks import FORMAT, CommandMark, Marks

_PREFIX = "shelltie-shell-"
_WITHHELD_MAX = 64 * 1024
_BASH = "exec bash --noprofile --norc --noediting -i"
_LAUNCH = f'{_BASH} 0<>"$1"'
# The nonce is in no environment, no argument and no file, and cannot be lost. A status goes through
# a mark unchanged, unless `set -e` would end the shell for it. No prompt, whoever set one. Without
# a trap an interactive shell ignores SIGTERM, and its end would take as long as its grace. Should a
# command have closed the pipe, the shell must not go on with what somebody types.
_SETUP = (
    "PS1= PS2=; unset HISTFILE; set +o history +H; history -c; trap 'exit 143' TERM; "
    "readonly _shelltie_nonce={nonce}; "
    "_shelltie_mark() {{ local code=$? cwd=$PWD; [[ $cwd == *[[:cntrl:]]* ]] && cwd=; "
    'builtin printf \'{format}\' "$_shelltie_nonce" "$1" "$2" "$code" "$cwd" >/dev/tty; '
    'PS1= PS2=; [[ $- == *e* ]] || return "$code"; }}; '
    "_shelltie_check() {{ local code=$?; [[ /dev/fd/0 -ef {pipe} ]] || builtin exit 1; "
    '[[ $- == *e* ]] || return "$code"; }}; '
    "readonly -f _shelltie_mark _shelltie_check; {more}_shelltie_mark E 0\n"
)
# A trace goes to stderr, and must not show the nonce. The end is asked for once more in a line of
# its own: a shell that is interrupted drops the rest of the line it is in. No line has quotes, so
# that half a line, which an interrupt may leave, cannot swallow the next.
_ASK = "{{ _shelltie_mark E {number}; _shelltie_check; }} 2>/dev/null\n"
_COMMAND = (
    "{{ _shelltie_mark B {number}; }} 2>/dev/null; \\builtin . {path} </dev/tty; " + _ASK + _ASK
)


# In a place with files of its own: the pipe comes in as stderr, because a terminal must be stdin to
# become the controlling one. What a line has left after an interrupt is run as a line of its own;
# as digits a text is then no program. Numbers that no `exec {fd}` is given.
_PASSED_LAUNCH = f"{_BASH} 0<&2 2>&1"
_KEPT, _TEXT = 198, 199
_DECODE = (
    "exec {kept}<&0; _shelltie_text() {{ local code=$?; "
    'builtin printf -v _shelltie_command %b "$1"; [[ $- == *e* ]] || return "$code"; }}; '
    "readonly -f _shelltie_text; "
)
_PASSED_COMMAND = (
    "{{ _shelltie_mark B {number}; _shelltie_text {text}; }} 2>/dev/null; "
    "\\builtin . /dev/fd/{fd} {fd}<<<$_shelltie_command </dev/tty; " + _ASK + _ASK
)
_PIPE_SIZE = 256 * 1024
_RESERVED = 8 * 1024  # for what was asked and not yet read
PASSED_TEXT_MAX = 32 * 1024  # bytes; each takes five in the pipe, in which all of it must fit


class CommandPipe:
    """A private directory: the pipe a shell gets its commands from, and the text of the last one.

    A text goes into a file, so that it is one command whatever lines and quotes it has.
    """

    def __init__(self) -> None:
        nonce = secrets.token_hex(16).upper()
        self.marks = Marks(nonce)
        _sweep()
        self._path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self._pipe = self._path / "commands"
        self._text: Path | None = None
        os.mkfifo(self._pipe, 0o600)
        # Held open for both: who writes is never alone, and who reads never sees an end.
        self._fd: int | None = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        pipe = shlex.quote(str(self._pipe))
        setup = _SETUP.format(nonce=nonce, format=FORMAT, pipe=pipe, more="")
        os.write(self._fd, setup.encode())

    passed: int | None = None  # nothing: the shell opens the pipe by its name

    @property
    def argv(self) -> tuple[str, ...]:
        """What starts the shell."""
        return ("sh", "-c", _LAUNCH, "sh", str(self._pipe))

    def put(self, number: int, text: str) -> None:
        """The next command."""
        assert self._fd is not None
        self._text = self._path / f"command-{number}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(self._text, flags, 0o600), "wb") as file:  # noqa: PTH123  a descriptor
            file.write(text.encode("utf-8", "surrogateescape") + b"\n")
        line = _COMMAND.format(number=number, path=shlex.quote(str(self._text)))
        os.write(self._fd, line.encode())

    def ask(self, number: int) -> None:
        """Have the end marked again, when the shell is back; to ask in vain does no harm."""
        assert self._fd is not None
        with suppress(BlockingIOError):  # so many have been asked that one more is not needed
            os.write(self._fd, _ASK.format(number=number).encode())

    def clear(self) -> None:
        """Remove the text of a command that has ended."""
        if self._text is not None:
            self._text.unlink(missing_ok=True)
            self._text = None

    def close(self) -> None:
        """Remove everything."""
        if self._fd is not None:
            fd, self._fd = self._fd, None
            os.close(fd)
            shutil.rmtree(self._path, ignore_errors=True)


class PassedPipe:
    """A pipe whose other end is handed to a shell that cannot see our files: in a sandbox."""

    def __init__(self) -> None:
        nonce = secrets.token_hex(16).upper()
        self.marks = Marks(nonce)
        self.argv = ("sh", "-c", _PASSED_LAUNCH)
        passed, fd = os.pipe2(os.O_CLOEXEC)
        self.passed: int | None = passed
        self._fd: int | None = fd
        with suppress(OSError):  # this user has too many pipes: shorter texts still fit
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        os.set_blocking(fd, False)
        more, pipe = _DECODE.format(kept=_KEPT), f"/dev/fd/{_KEPT}"
        setup = _SETUP.format(nonce=nonce, format=FORMAT, pipe=pipe, more=more)
        os.write(fd, setup.encode())

    def put(self, number: int, text: str) -> None:
        """The next command.

        Raises: InvalidParameters.
        """
        assert self._fd is not None
        data = text.encode("utf-8", "surrogateescape")
        digits = "".join(f"\\\\x{byte:02X}" for byte in data)
        line = _PASSED_COMMAND.format(number=number, text=digits, fd=_TEXT)
        if len(line) > fcntl.fcntl(self._fd, fcntl.F_GETPIPE_SZ) - _RESERVED:
            raise InvalidParameters("command does not fit into the pipe of its shell: use a file")
        os.write(self._fd, line.encode())

    def ask(self, number: int) -> None:
        """See `CommandPipe`."""
        assert self._fd is not None
        with suppress(BlockingIOError):
            os.write(self._fd, _ASK.format(number=number).encode())

    def clear(self) -> None:
        """There is no file."""

    def close(self) -> None:
        """Give both ends back."""
        for fd in (self._fd, self.passed):
            if fd is not None:
                os.close(fd)
        self._fd = self.passed = None


def _sweep() -> None:
    """Remove what servers left behind that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = path.name.removeprefix(_PREFIX).partition("-")[0]
        with suppress(OSError):
            ours = path.lstat().st_uid == os.geteuid() and not path.is_symlink()
            if ours and pid.isdecimal() and not Path(f"/proc/{pid}").exists():
                shutil.rmtree(path, ignore_errors=True)


class MarkFilter:
    """Stands before the store of a run: takes what was printed, and keeps what is no mark.

    Before the first mark nobody has asked for anything: what the shell says then, such as a first
    prompt, is kept only if it never becomes ready.
    """

    def __init__(
        self,
        store: Store,
        marks: Marks,
        on_output: Callable[[bytes], None],
        on_mark: Callable[[CommandMark], None],
    ) -> None:
        self._store = store
        self._marks = marks
        self._on_output = on_output
        self._on_mark = on_mark
        self._withheld: bytes | None = b""

    def add(self, stream: Stream, data: memoryview) -> None:
        """Take the next bytes."""
        for found in self._marks.feed(bytes(data)):
            if isinstance(found, CommandMark):
                self._withheld = None
                self._on_mark(found)
            else:
                self._keep(stream, found)

    def finish(self) -> None:
        """No more will come."""
        rest = (self._withheld or b"") + self._marks.flush()
        self._withheld = None
        if rest:
            self._keep(Stream.STDOUT, rest)

    def _keep(self, stream: Stream, data: bytes) -> None:
        if self._withheld is not None:
            self._withheld = (self._withheld + data)[-_WITHHELD_MAX:]
            return
        self._store.add(stream, memoryview(data))
        self._on_output(data)
