"""Shows our terminals in an editor that embeds them but does not own them."""

import base64
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import anyio
from anyio.abc import TaskGroup

from shelltie.frontends.acp.host import TerminalHost
from shelltie.frontends.acp.permission import fenced
from shelltie.frontends.acp.speech import Speaker
from shelltie.frontends.acp.terminal import HostedTerminal
from shelltie.model import Stream
from shelltie.output.text import clean, decoder

_PAUSE = 0.1  # seconds between two updates
_AT_ONCE = 64 * 1024
_BEHIND = 256 * 1024  # what is more is left out: no editor needs a flood
_TEXT = 4096  # of output in a text
_REMEMBERED = 200

Update = dict[str, Any]


class Mode(StrEnum):
    """How an editor wants to see a terminal.

    `META`: in `_meta`, as Zed does; `TEXT`: as any text; `V2`: as the draft of ACP v2.
    """

    META = "meta"
    TEXT = "text"
    V2 = "v2"


class Display:
    """Rewrites what an agent says about tool calls, and tells the editor how terminals go on."""

    def __init__(self, host: TerminalHost, editor: Speaker, tasks: TaskGroup) -> None:
        self.mode = Mode.TEXT
        self._host = host
        self._editor = editor
        self._tasks = tasks
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
        if not terminals:
            return None
        rewritten = self._rewritten(session, call, update, terminals)
        for terminal in terminals:
            if (session, call, terminal.id) not in self._followed:
                self._begin_to_follow(session, call, terminal)
        return rewritten

    def _begin_to_follow(self, session: str, call: str, terminal: HostedTerminal) -> None:
        self._followed[session, call, terminal.id] = terminal
        if len(self._followed) > _REMEMBERED:
            del self._followed[next(iter(self._followed))]
        if self._following < _REMEMBERED:
            self._following += 1
            self._tasks.start_soon(self._follow, session, call, terminal)

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

    def _mode_of(self, terminal: HostedTerminal) -> Mode:
        """Secrets are found in whole texts only, not in pieces of a stream."""
        return Mode.TEXT if terminal.redact else self.mode

    def _remember(self, session: str, call: str, update: Update, *, embeds: bool) -> None:
        """A tool call is told in pieces; some editors want all of it in the one with a terminal."""
        known = self._calls.pop((session, call), {})
        fresh = {name: update[name] for name in _TOLD if update.get(name) is not None}
        if update.get("content") is not None:
            fresh["content"] = update["content"] if embeds else []
        self._calls[session, call] = {**known, **fresh}
        if len(self._calls) > _REMEMBERED:
            del self._calls[next(iter(self._calls))]

    def _rewritten(
        self, session: str, call: str, update: Update, terminals: list[HostedTerminal]
    ) -> Update | None:
        first = terminals[0]
        match self._mode_of(first):
            case Mode.V2:
                return None
            case Mode.TEXT:
                return {**update, "content": self._as_text(update["content"])}
            case Mode.META:
                info = {"terminal_id": first.id, "cwd": first.run.surroundings.cwd}
                meta = update.get("_meta") if isinstance(update.get("_meta"), dict) else {}
                return {
                    "title": _typed(first),
                    **self._calls[session, call],
                    **{name: value for name, value in update.items() if value is not None},
                    "sessionUpdate": "tool_call",
                    "_meta": {**(meta or {}), "terminal_info": info},
                }

    def _as_text(self, content: list[Any]) -> list[Any]:
        named = ((item, self._named(item)) for item in content)
        return [item if found is None else _text_of(found) for item, found in named]

    def _rendered(self, session: str, call: str, terminal: HostedTerminal) -> Iterator[Update]:
        """All that the tool call shows, unless the agent has put something else there."""
        content = self._calls.get((session, call), {}).get("content", [])
        if any(self._named(item) is terminal for item in content):
            yield _call_update(call, content=self._as_text(content))

    # How it goes on

    async def _follow(self, session: str, call: str, terminal: HostedTerminal) -> None:
        run, news = terminal.run, _News()
        run.on_output.append(news.heard)
        run.on_ended.append(news.tell)
        try:
            for update in self._begin(terminal):
                await self._tell(session, update)
            await self._tell_all(session, call, terminal, news)
        except OSError:  # the editor has left, and with it everybody who looks
            pass
        finally:
            run.on_output.remove(news.heard)
            run.on_ended.remove(news.tell)
            self._following -= 1

    async def _tell_all(
        self, session: str, call: str, terminal: HostedTerminal, news: "_News"
    ) -> None:
        run, decode, at = terminal.run, decoder(), 0
        while True:
            ended = run.outcome is not None
            start = max(at, run.output.total - _BEHIND)
            piece = run.output.read(start, start + _AT_ONCE)
            if piece.data:
                said = _Grown(piece.data, piece.start - at, decode.decode)
                for update in self._grown(session, call, terminal, said):
                    await self._tell(session, update)
            at = piece.end
            if ended and at == run.output.total:
                break
            if at == run.output.total:
                await news.wait()
            await anyio.sleep(_PAUSE)
        for update in self._ended(session, call, terminal):
            await self._tell(session, update)

    def _begin(self, terminal: HostedTerminal) -> Iterator[Update]:
        if self._mode_of(terminal) is Mode.V2:
            yield {
                "sessionUpdate": "terminal_update",
                "terminalId": terminal.id,
                "command": _typed(terminal),
                "cwd": terminal.run.surroundings.cwd,
            }

    def _grown(
        self, session: str, call: str, terminal: HostedTerminal, grown: "_Grown"
    ) -> Iterator[Update]:
        left_out = f"\n⟨{grown.skipped} bytes are not shown⟩\n" if grown.skipped else ""
        match self._mode_of(terminal):
            case Mode.V2:
                yield {
                    "sessionUpdate": "terminal_output_chunk",
                    "terminalId": terminal.id,
                    "data": base64.b64encode(left_out.encode() + grown.data).decode("ascii"),
                }
            case Mode.META:
                said = {"terminal_id": terminal.id, "data": left_out + grown.decode(grown.data)}
                yield _call_update(call, _meta={"terminal_output": said})
            case Mode.TEXT:
                yield from self._rendered(session, call, terminal)

    def _ended(self, session: str, call: str, terminal: HostedTerminal) -> Iterator[Update]:
        outcome = terminal.run.outcome
        assert outcome is not None
        code, name = outcome.exit.code, outcome.exit.signal_name
        match self._mode_of(terminal):
            case Mode.V2:
                yield {
                    "sessionUpdate": "terminal_update",
                    "terminalId": terminal.id,
                    "exitStatus": {"exitCode": code, "signal": name},
                }
            case Mode.META:
                said = {"terminal_id": terminal.id, "exit_code": code, "signal": name}
                yield _call_update(call, _meta={"terminal_exit": said})
            case Mode.TEXT:
                yield from self._rendered(session, call, terminal)

    async def _tell(self, session: str, update: Update) -> None:
        params = {"sessionId": session, "update": update}
        await self._editor.tell({"jsonrpc": "2.0", "method": "session/update", "params": params})


_TOLD = ("title", "kind", "status")


@dataclass(frozen=True, slots=True)
class _Grown:
    """What was printed since, after `skipped` bytes that are left out."""

    data: bytes
    skipped: int
    decode: Callable[[bytes], str]


class _News:
    """Wakes one who waits for output or for the end."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def heard(self, _: Stream, __: memoryview) -> None:
        self._event.set()

    def tell(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        self._event = anyio.Event()


def _call_update(call: str, **fields: object) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call, **fields}


def _typed(terminal: HostedTerminal) -> str:
    command = terminal.run.command
    return command.text if command.argv is None else shlex.join(command.argv)


def _text_of(terminal: HostedTerminal) -> dict[str, object]:
    seen, outcome = terminal.output(), terminal.run.outcome
    body = clean(seen.output[-_TEXT:].encode()).rstrip("\n")
    cut = "⟨…⟩\n" if seen.truncated or len(seen.output) > _TEXT else ""
    end = "" if outcome is None else f"\n⟨{outcome.exit.signal_name or outcome.exit.code}⟩"
    told = f"$ {_typed(terminal)}\n{cut}{body}{end}"
    return {"type": "content", "content": {"type": "text", "text": fenced(told)}}
