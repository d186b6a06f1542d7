"""A command at a place, read as it prints, with every word about it."""

import os
from collections.abc import Callable

from shelltie.keeper.protocol import Exited, Gone, LeashWord, Lost, Noted
from shelltie.model import Resources
from shelltie.providers.places.provider import PlaceProcess, PlaceProvider
from shelltie.providers.provider import Prepared
from tests.tree import until

_LIMIT = 60.0
_PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


class Seen:
    """A command at a place, all that it printed, and every word about it."""

    def __init__(self, provider: PlaceProvider, *argv: str, **how: object) -> None:
        given = {"stdin": None, "pty": None, "stays_open": False, **how}
        prepared = Prepared(argv, _PATH, "/", resources=Resources(), **given)  # type: ignore[arg-type]
        self.words: list[LeashWord] = []
        self.printed = b""
        self.process: PlaceProcess = provider.spawn(prepared, self.words.append)
        self._streams = [
            self.process.stdout,
            *([self.process.stderr] if self.process.stderr else []),
        ]
        for fd in self._streams:
            os.set_blocking(fd, False)

    def read(self) -> None:
        for fd in self._streams:
            try:
                while data := os.read(fd, 1 << 20):
                    self.printed += data
            except OSError:
                pass

    async def until(self, condition: Callable[[], bool]) -> None:
        def look() -> bool:
            self.read()
            return condition()

        await until(look, _LIMIT)

    async def over(self) -> None:
        await self.until(lambda: self.said(Gone) or self.said(Lost))
        self.read()

    def said(self, kind: type[LeashWord]) -> bool:
        return any(isinstance(word, kind) for word in self.words)

    @property
    def notes(self) -> str:
        return " ".join(word.message for word in self.words if isinstance(word, Noted))

    @property
    def exit_code(self) -> int:
        status = next(word.wait_status for word in self.words if isinstance(word, Exited))
        return os.waitstatus_to_exitcode(status)
