"""Second parser: shfmt, as a process that is started before its text is there.

It reads one text and ends. To start it takes longer than to parse a command, so once there was a
text, another one waits for the next.
"""

import subprocess
import threading
from contextlib import suppress

from shelltie.shell.shfmt import SHFMT_ARGS

_ONE_THREAD = {"GOMAXPROCS": "1"}  # of Go: more are started, and parse a command no sooner
_TIMEOUT = 5.0  # it takes a hundredth of a second, but not on a busy machine


class SecondParser:
    """Asks `program` for syntax trees, from any thread. What waits is ended by `close`, and ends
    with us as well: its input does.
    """

    def __init__(self, program: str) -> None:
        self._argv = (program, *SHFMT_ARGS)
        self._lock = threading.Lock()
        self._waiting: subprocess.Popen[bytes] | None = None
        self._closed = False

    def tree(self, text: bytes) -> bytes | None:
        """What it says of a text; `None` if it cannot read it, or takes too long. Blocks."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            code, output = self._ask(waiting, text)
            if code >= 0:
                return None if code else output
            # Somebody has killed it while it waited.
        try:
            process = self._start()
        except OSError:
            return None
        code, output = self._ask(process, text)
        return None if code else output

    def start_ahead(self) -> None:
        """Have one wait for the next text, if none does. Blocks for a millisecond."""
        with self._lock, suppress(OSError):
            if self._waiting is None and not self._closed:
                self._waiting = self._start()

    def close(self) -> None:
        """Nothing waits any more. Blocks for a millisecond."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.kill()
            waiting.communicate()

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ONE_THREAD,
            cwd="/",  # what waits shall keep no directory from being unmounted
        )

    def _ask(self, process: "subprocess.Popen[bytes]", text: bytes) -> tuple[int, bytes]:
        """Its exit code, below 0 if a signal has ended it, and what it printed."""
        with process:
            try:
                output, _ = process.communicate(text, _TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                return 1, b""
        return process.returncode, output
