"""Hands a conversation over from the early reader to the SDK, and keeps its first answers.

The SDK is asked all that was read early, so that it knows the client. What it answers a second time
is compared with what was sent, and not sent again.
"""

import json
import logging
from collections.abc import Mapping
from functools import partial

import anyio.to_thread

from shelltie.frontends.mcp.early_reader import EarlyExchange
from shelltie.frontends.mcp.first_answers import Conversation, FirstAnswers, FirstRequest

_log = logging.getLogger(__name__)
_TOOLS_CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

Result = Mapping[str, object]


class Takeover:
    """Knows which answers were given early; without an early reader, none."""

    def __init__(self, early: EarlyExchange, answers: FirstAnswers | None) -> None:
        self._answers = answers
        self._sent = dict(early.answered)
        self._asked: dict[int | str, FirstRequest] = {}
        self._conversation = Conversation("" if answers is None else answers.stamp)
        self._conversation.over = answers is None

    def hear(self, line: bytes | None) -> None:
        """The next line of the client; None stands for one that was too long to be read."""
        if line is None:
            self._conversation.over = True
        elif not self._conversation.over and (request := self._conversation.follow(line)):
            self._asked[request.id] = request

    def instead(self, request: int | str | None, result: Result | None) -> bytes | None:
        """What to write instead of an answer that was given early; None if it was not.

        That is nothing, or that the tools have changed should the early answer have been wrong.
        """
        sent = None if request is None else self._sent.pop(request, None)
        if sent is None or request is None:
            return None
        if json.loads(sent) == result:
            self._asked.pop(request, None)
            return b""
        asked = self._asked.get(request)
        method = "a request" if asked is None else asked.method
        _log.warning("the early answer to %s was out of date", method)
        return json.dumps(_TOOLS_CHANGED).encode() + b"\n" if method == "tools/list" else b""

    async def keep(self, request: int | str | None, result: Result | None) -> None:
        """Have the SDK's answer at hand for the next server, if it is one of the first."""
        asked = None if request is None else self._asked.pop(request, None)
        if asked is None or self._answers is None:
            return
        if result is None:
            work = partial(self._answers.forget, asked)
        else:
            work = partial(self._answers.keep, asked, json.dumps(result))
        try:
            await anyio.to_thread.run_sync(work)
        except RuntimeError:  # no thread can be started: the next server is as slow as this one
            _log.debug("an answer was not kept", exc_info=True)
