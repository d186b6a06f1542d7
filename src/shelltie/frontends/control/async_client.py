"""Asynchronous client of the control socket, for who asks many servers again and again."""

from pathlib import Path

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from shelltie.errors import NoServerAnswer
from shelltie.frontends.control import line_format

_ANSWER_TIMEOUT = 5.0
_TROUBLE = (
    OSError,
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.DelimiterNotFound,
    anyio.BrokenResourceError,
    line_format.NotOurMessage,
)


async def ask(path: Path, do: str, **fields: object) -> dict[str, object]:
    """Ask a server for something, as `client.ask` does.

    Raises: NoServerAnswer.
    """
    try:
        with anyio.fail_after(_ANSWER_TIMEOUT):
            async with await anyio.connect_unix(path) as stream:
                await stream.send(line_format.request(do, fields))
                lines = BufferedByteReceiveStream(stream)
                line = await lines.receive_until(b"\n", line_format.ANSWER_MAX)
        answer = line_format.understood(line)
    except _TROUBLE as error:  # a TimeoutError is an OSError
        raise NoServerAnswer(f"the server at {path} does not answer: {error}") from error
    if answer.get("ok") is not True:
        raise NoServerAnswer(str(answer.get("message")), str(answer.get("code")))
    return answer
