"""Thread that reads stdin and answers a client's first requests while the SDK is imported.

It answers what `first_answers` has and nothing else. Whatever it read is handed on: the SDK is
asked the same, and its answers to what was answered here are compared instead of sent.
"""

import json
import os
import select
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from types import TracebackType

from shelltie.basics.frozen import frozen
from shelltie.frontends.jsonl import READ_SIZE, Lines
from shelltie.frontends.mcp.first_answers import Conversation, FirstAnswers

_TAKEN_MAX = 1024 * 1024  # bytes; whoever says more before he is served waits


@frozen
class EarlyExchange:
    """What was read and what was answered, before the SDK could."""

    read: bytes = b""
    answered: Mapping[int | str, str] = field(default_factory=dict)  # results by request, as JSON
    unsent: bytes = b""  # of the answers, since the client does not read


class EarlyReader:
    """Reads and answers until it is left; `exchange` is what happened."""

    def __init__(self, source: int, sink: int, answers: FirstAnswers) -> None:
        self._source = source
        self._sink = sink
        self._answers = answers
        self._conversation = Conversation(answers.stamp)
        self._lines = Lines(_TAKEN_MAX)
        self._read = bytearray()
        self._answered: dict[int | str, str] = {}
        self._unsent = b""
        self._thread = threading.Thread(target=self._exchange, daemon=True)
        self._woken, self._wake = os.pipe2(os.O_CLOEXEC)

    @property
    def exchange(self) -> EarlyExchange:
        """Whole once the reader was left."""
        return EarlyExchange(bytes(self._read), self._answered, self._unsent)

    def __enter__(self) -> "EarlyReader":
        with suppress(RuntimeError):  # no thread can be started: nobody is answered early
            self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        os.close(self._wake)
        if self._thread.ident is not None:
            self._thread.join()
        os.close(self._woken)

    def _exchange(self) -> None:
        with suppress(OSError):  # the client left: whoever serves will find that, too
            while len(self._read) < _TAKEN_MAX and self._ready(self._source, select.POLLIN):
                chunk = os.read(self._source, READ_SIZE)
                self._read += chunk
                if not chunk:
                    return
                for line in self._lines.feed(chunk):
                    self._answer(line)

    def _ready(self, fd: int, event: int) -> bool:
        """Wait for it; False when somebody else wants to go on."""
        poll = select.poll()
        poll.register(fd, event)
        poll.register(self._woken, select.POLLIN)
        ready = dict(poll.poll())
        return self._woken not in ready

    def _answer(self, line: bytes | None) -> None:
        self._conversation.over |= line is None
        request = self._conversation.follow(line or b"")
        result = None if request is None else self._answers.find(request)
        if request is None or result is None:
            return
        self._answered[request.id] = result
        self._unsent += (
            f'{{"jsonrpc":"2.0","id":{json.dumps(request.id)},"result":{result}}}\n'.encode()
        )
        while self._unsent and self._ready(self._sink, select.POLLOUT):
            with suppress(BlockingIOError):
                self._unsent = self._unsent[os.write(self._sink, self._unsent) :]
