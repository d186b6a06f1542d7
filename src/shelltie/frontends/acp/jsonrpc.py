"""JSON-RPC as lines: strict parsing, which refuses what two readers could take for two messages."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio

PARSE_ERROR = -32700
INVALID_REQUEST = -32600


class AmbiguousMessage(ValueError):
    """Two readers could take this line for two different messages."""


def parse_strict(line: bytes) -> dict[str, Any]:
    """The one message in a line, as every reader must understand it.

    Raises: AmbiguousMessage: no JSON, no object, or a name that is there twice, of which readers
    take different ones.
    """
    try:
        message = json.loads(line.decode("utf-8"), object_pairs_hook=_once)
    except AmbiguousMessage:
        raise
    except (ValueError, RecursionError) as error:
        raise AmbiguousMessage("the line is not JSON") from error
    if not isinstance(message, dict):
        raise AmbiguousMessage("a message is one object; a list of them is not taken apart")
    return message


def parse_or_none(line: bytes) -> dict[str, Any] | None:
    """The message in a line, if there is one."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def one_line(line: bytes) -> bytes:
    """As it is, and a single line for everybody: some take a carriage return for the end of one.

    Between JSON's words it is a blank, and within them it cannot stand.
    """
    return line.replace(b"\r", b" ") + b"\n"


def as_line(message: Mapping[str, object]) -> bytes:
    """A message of our own, or one that we changed."""
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def error_line(request: object, code: int, message: str) -> bytes:
    """What is answered to a line that nobody gets."""
    return as_line({"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": message}})


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise AmbiguousMessage("a name is there twice")
    return names


class LineWriter:
    """One end of the wire, for any number who speak: each line stays whole."""

    def __init__(self, sink: int) -> None:
        self._sink: int | None = sink
        self._turn = anyio.Lock()
        # Of a line whose speaker was cancelled: without it the next line would be spoiled.
        self._rest = bytearray()

    async def write_line(self, line: bytes) -> None:
        """Write a line when it is our turn.

        Raises: OSError when nobody reads.
        """
        async with self._turn:
            self._rest += line
            while self._rest:
                if self._sink is None:
                    raise BrokenPipeError
                try:
                    del self._rest[: os.write(self._sink, self._rest)]
                except BlockingIOError:
                    with suppress(anyio.ClosedResourceError):
                        await anyio.wait_writable(self._sink)

    async def write_message(self, message: Mapping[str, object]) -> None:
        """Write a message of ours.

        Raises: OSError when nobody reads.
        """
        await self.write_line(as_line(message))

    def close(self) -> None:
        """Say nothing any more: the descriptor will be somebody else's."""
        if self._sink is not None:
            anyio.notify_closing(self._sink)
            self._sink = None
