"""MCP stdio transport: one JSON-RPC message a line, with clean-up on SIGTERM and SIGINT.

Our own because the SDK's transport skips all clean-up on SIGTERM and hangs on SIGINT.
"""

import json
import signal
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine
from contextlib import suppress

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy
from shelltie.basics.pulse import Pulse
from shelltie.frontends.fd_io import read, write
from shelltie.frontends.jsonl import LINE_MAX, Lines
from shelltie.frontends.mcp.early_reader import EarlyExchange
from shelltie.frontends.mcp.first_answers import FirstAnswers
from shelltie.frontends.mcp.sdk_takeover import Takeover

_CANCELLED = "notifications/cancelled"
_ENDLESS = "subscriptions/listen"  # is answered when it ends
_UNANSWERED_MAX = 1000  # a client that does not read its answers is not read, either
_QUICK = 1.0  # a script closes its end at once: what takes no longer is still answered
_LAST_WORDS = 1.0  # for the answers of what was ended
# A key and its value, if that is a text or a whole number, and the comma after it.
_PAIR = lazy(r'\s*"(?P<key>\w*)"\s*:\s*(?P<value>"(?:[^"\\]|\\.)*"|-?\d{1,18})\s*,')

Messages = MemoryObjectReceiveStream[SessionMessage | Exception]
Answers = MemoryObjectSendStream[SessionMessage]
_ToServer = MemoryObjectSendStream[SessionMessage | Exception]
_ToClient = MemoryObjectReceiveStream[SessionMessage]


@frozen
class Stdio:
    """The client's descriptors, and what was read and answered there before we could serve."""

    source: int
    sink: int
    early: EarlyExchange = EarlyExchange()
    answers: FirstAnswers | None = None


async def serve_stdio(
    serve: Callable[[Messages, Answers], Coroutine[object, object, None]],
    leave: Callable[[], Awaitable[None]],
    stdio: Stdio,
) -> None:
    """Serve until the client closes its end or a signal comes.

    Then `leave` ends what runs, its answers are sent if the client still reads, and we return.
    """
    to_server, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    answers, to_client = anyio.create_memory_object_stream[SessionMessage](0)
    signals = anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    with signals as arriving, to_server, messages, to_client:
        wire = _Wire(stdio)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wire.listen, to_server, answers.clone())
            tasks.start_soon(wire.speak, to_client)
            tasks.start_soon(wire.obey, arriving)
            tasks.start_soon(serve, messages, answers)
            await wire.over.wait()
            await leave()
            with anyio.move_on_after(_LAST_WORDS):
                await wire.answered()
            # So that who still waits to answer gives up: to cancel a thousand takes seconds.
            to_client.close()
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()


class _Wire:
    """Both directions, and which requests wait for their answer."""

    def __init__(self, stdio: Stdio) -> None:
        self.over = anyio.Event()
        self._source = stdio.source
        self._sink = stdio.sink
        self._early = stdio.early
        self._takeover = Takeover(stdio.early, stdio.answers)
        self._lines = Lines(LINE_MAX)
        self._unanswered: set[str] = set()
        self._writing = False
        self._moved = Pulse()

    async def obey(self, arriving: AsyncIterable[signal.Signals]) -> None:
        """Any of the signals means: leave."""
        async for _ in arriving:
            self.over.set()

    async def listen(self, to_server: _ToServer, answers: Answers) -> None:
        """Hand on what the client says, until it closes its end."""
        with answers, suppress(anyio.BrokenResourceError):  # when it is over already
            await self._take(self._early.read, to_server, answers)
            while chunk := await read(self._source):
                await self._take(chunk, to_server, answers)
            await self._take(b"\n", to_server, answers)  # the last line may lack it
            with anyio.move_on_after(_QUICK):
                await self.answered()
            self.over.set()

    async def speak(self, to_client: _ToClient) -> None:
        """Write what the server says; who has more to say waits until the client has read."""
        with suppress(OSError, anyio.ClosedResourceError):  # the client left, or we do
            await write(self._sink, self._early.unsent)
            async for envelope in to_client:
                message = envelope.message
                request = _answered(message)
                result = message.result if isinstance(message, JSONRPCResponse) else None
                instead = self._takeover.instead(request, result)
                self._writing = True
                await write(self._sink, _line(message).encode() if instead is None else instead)
                self._writing = False
                await self._takeover.keep(request, result)
                self._forget(request)
        self.over.set()

    async def answered(self) -> None:
        """Return when no request is unanswered."""
        while self._unanswered:
            await self._moved.wait()

    async def _take(self, chunk: bytes, to_server: _ToServer, answers: Answers) -> None:
        for line in self._lines.feed(chunk):
            self._takeover.hear(line)
            if line is None:
                problem = f"Invalid request: a line is longer than {LINE_MAX} bytes and was dropped"
                refusal = _error(_id_at_the_start(self._lines.head), INVALID_REQUEST, problem)
                await answers.send(SessionMessage(refusal))
                continue
            if not line or line.isspace():
                continue
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValidationError:
                await answers.send(SessionMessage(_malformed(line)))
                continue
            if isinstance(message, JSONRPCNotification) and _has_id(line):
                await answers.send(SessionMessage(_malformed(line)))
                continue
            self._note(message)
            await to_server.send(SessionMessage(message))
            # Its answers would pile up here if the client reads nothing.
            while self._writing and len(self._unanswered) > _UNANSWERED_MAX:
                await self._moved.wait()

    def _note(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest) and message.method != _ENDLESS:
            self._unanswered.add(str(message.id))
        if isinstance(message, JSONRPCNotification) and message.method == _CANCELLED:
            self._forget((message.params or {}).get("requestId"))  # no answer will come

    def _forget(self, request: object) -> None:
        self._unanswered.discard(str(request))
        self._moved.beat()


def _answered(message: JSONRPCMessage) -> int | str | None:
    """Which request this answers, if it is an answer at all."""
    return message.id if isinstance(message, JSONRPCResponse | JSONRPCError) else None


def _id_at_the_start(head: bytes) -> int | str | None:
    """Of a request of which nobody has read the rest, if its id and its method come first.

    Only what stands in the outermost object before any other: an id in `params` is not its own. And
    only of a request: the id of a response is one of ours, and may be another request's of theirs.
    """
    text, said = head.decode("ascii", "replace"), dict[str, str]()
    at = 1 if text.startswith("{") else len(text)
    while pair := _PAIR.match(text, at):
        said[pair["key"]] = pair["value"]
        at = pair.end()
    try:
        known = json.loads(said["id"]) if "method" in said else None
    except (KeyError, ValueError):
        return None
    return known if isinstance(known, int) or str(known).isascii() else None


def _has_id(line: bytes) -> bool:
    """Whether somebody waits for an answer, if under an id that is none: null, true, 1.5."""
    return b'"id"' in line and "id" in json.loads(line)


def _line(message: JSONRPCMessage) -> str:
    """As it is written. What cannot be, because it holds half a character, is said to be that."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
    except ValueError:
        problem = "the answer holds what cannot be written as UTF-8"
        request = _answered(message)
        known = request if isinstance(request, int) or str(request).isascii() else None
        return _error(known, INTERNAL_ERROR, problem).model_dump_json(by_alias=True) + "\n"


def _malformed(line: bytes) -> JSONRPCError:
    """Whoever sent an id gets it back, or would wait for ever."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, PARSE_ERROR, "Parse error: the line is not JSON")
    request = message.get("id") if isinstance(message, dict) else None
    known = request if isinstance(request, int | str) and not isinstance(request, bool) else None
    if isinstance(known, str) and not known.isascii():
        known = None  # half a character would be no answer at all
    return _error(known, INVALID_REQUEST, "Invalid request: this is no JSON-RPC 2.0 message")


def _error(request: int | str | None, code: int, message: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=message))
