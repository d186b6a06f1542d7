"""Shows our terminals in an editor that embeds them but does not own them."""

from collections.abc import Iterator
from functools import partial

import anyio
from anyio.abc import TaskGroup

from shelltie.frontends.acp.host import TerminalHost
from shelltie.frontends.acp.looks import (
    BEHIND,
    Grown,
    Look,
    MetaLook,
    Mode,
    Shown,
    TextLook,
    Update,
    V2Look,
)
from shelltie.frontends.acp.speech import Speaker
from shelltie.frontends.acp.terminal import HostedTerminal
from shelltie.model import Stream
from shelltie.output.text import decoder

_REMEMBERED = 200  # tool calls, and terminals in them
_TOLD = ("title", "kind", "status")


class Display:
    """Rewrites what an agent says about tool calls, and tells the editor how terminals go on."""

    def __init__(self, host: TerminalHost, editor: Speaker, tasks: TaskGroup) -> None:
        self.mode = Mode.TEXT
        self._host = host
        self._editor = editor
        self._tasks = tasks
        self._looks: dict[Mode, Look] = {
            Mode.META: MetaLook(),
            Mode.TEXT: TextLook(self._named),
            Mode.V2: V2Look(),
        }
        self._calls: dict[tuple[str, str], Update] = {}
        self._followed: dict[tuple[str, str, str], HostedTerminal] = {}
        self._following = 0

    def rewrite(self, session: object, update: object) -> Update | None:
        """The update as the editor shall get it; `None` if it may stay as it is."""
        if not isinstance(session, str) or not isinstance(update, dict):
            return None
        call = update.get("toolCallId")
        if not isinstance(call, str):
            return None
        terminals = list(self._embedded(update))
        self._remember(session, call, update, embeds=bool(terminals))
        told = partial(self._told, session, call)
        every = [Shown(session, call, terminal, told) for terminal in terminals]
        rewritten = self._look_of(every[0]).embedded(every[0], update) if every else None
        for shown in every:
            self._begin_to_follow(shown)
        return rewritten

    def _embedded(self, update: Update) -> Iterator[HostedTerminal]:
        content = update.get("content")
        for item in content if isinstance(content, list) else ():
            terminal = self._named(item)
            if terminal is not None:
                yield terminal

    def _named(self, item: object) -> HostedTerminal | None:
        """The terminal that an item of a tool call shows; a released one still is one."""
        match item:
            case {"type": "terminal", "terminalId": str(name)}:
                followed = (one for one in self._followed.values() if one.id == name)
                return self._host.find(name) or next(followed, None)
            case _:
                return None

    def _look_of(self, shown: Shown) -> Look:
        """Secrets are found in whole texts only, not in pieces of a stream."""
        return self._looks[Mode.TEXT if shown.terminal.redact else self.mode]

    def _remember(self, session: str, call: str, update: Update, *, embeds: bool) -> None:
        """A tool call is told in pieces; some editors want all of it in the one with a terminal."""
        known = self._calls.pop((session, call), {})
        fresh = {name: update[name] for name in _TOLD if update.get(name) is not None}
        if update.get("content") is not None:
            fresh["content"] = update["content"] if embeds else []
        self._calls[session, call] = {**known, **fresh}
        if len(self._calls) > _REMEMBERED:
            del self._calls[next(iter(self._calls))]

    def _told(self, session: str, call: str) -> Update:
        return self._calls.get((session, call), {})

    # How it goes on

    def _begin_to_follow(self, shown: Shown) -> None:
        key = shown.session, shown.call, shown.terminal.id
        if key in self._followed:
            return
        self._followed[key] = shown.terminal
        if len(self._followed) > _REMEMBERED:
            del self._followed[next(iter(self._followed))]
        if self._following < _REMEMBERED:
            self._following += 1
            self._tasks.start_soon(self._follow, shown)

    async def _follow(self, shown: Shown) -> None:
        run, news = shown.terminal.run, _News()
        run.on_output.append(news.heard)
        run.on_ended.append(news.tell)
        try:
            await self._tell_all(shown, news)
        except OSError:  # the editor has left, and with it everybody who looks
            pass
        finally:
            run.on_output.remove(news.heard)
            run.on_ended.remove(news.tell)
            self._following -= 1

    async def _tell_all(self, shown: Shown, news: "_News") -> None:
        run, look, decode, at = shown.terminal.run, self._look_of(shown), decoder().decode, 0
        await self._tell(shown, look.begun(shown))
        while run.outcome is None or at < run.output.total:
            if at == run.output.total:
                await news.wait()
            start = max(at, run.output.total - BEHIND)
            piece = run.output.read(start, start + look.most)
            if piece.data:
                grown = Grown(piece.data, piece.start - at, decode)
                await self._tell(shown, look.grown(shown, grown))
                await anyio.sleep(look.pause)
            at = piece.end
        await self._tell(shown, look.ended(shown))

    async def _tell(self, shown: Shown, updates: Iterator[Update]) -> None:
        for update in updates:
            params = {"sessionId": shown.session, "update": update}
            message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
            await self._editor.tell(message)


class _News:
    """Wakes one who waits for output or for the end."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def heard(self, _: Stream, __: memoryview) -> None:
        """It printed something."""
        self._event.set()

    def tell(self) -> None:
        """It has ended."""
        self._event.set()

    async def wait(self) -> None:
        """Until there is news that nobody was told of."""
        await self._event.wait()
        self._event = anyio.Event()
