"""A program that uses shelltie as a library says yes or no in a function of its own."""

import inspect
import logging
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread

from shelltie.approval.broker import OPEN_MAX
from shelltie.approval.question import Answer, Question

_log = logging.getLogger(__name__)

Said = bool | Answer
Callback = Callable[[Question], Said | Awaitable[Said]]


class CallbackChannel:
    """Asks a function. Whatever it returns but `True` or an `Answer` that allows it is no."""

    name = "callback"
    can_ask = True

    def __init__(self, function: Callback) -> None:
        self._function = function
        self._threads = anyio.CapacityLimiter(OPEN_MAX)  # the usual few are for those who are quick

    async def ask(self, question: Question) -> Answer:
        """See `Channel`."""
        try:
            said = await self._call(question)
        except Exception:  # noqa: BLE001  anybody's code; whatever happens in it is a no
            _log.exception("the function that was asked raised; this is a no")
            return Answer(allowed=False, by=self.name, reason="the function that was asked failed")
        if isinstance(said, Answer):
            return said
        return Answer(allowed=said is True, by=self.name)

    async def _call(self, question: Question) -> object:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(question)
        # An ordinary function may wait for a person; the event loop must not.
        said = await anyio.to_thread.run_sync(
            self._function, question, abandon_on_cancel=True, limiter=self._threads
        )
        return await said if inspect.isawaitable(said) else said
