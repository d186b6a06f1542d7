"""Event stream to one page: NDJSON over a long answer, coalesced to 30 messages a second.

What has not been sent yet is a set of keys, so a page that reads slowly holds up nobody and costs
nothing: it gets the latest rows when it comes to it. Output that it cannot keep up with is skipped,
and it is told so.
"""

import base64
import json
import secrets
import time

import anyio
from starlette.types import Receive, Scope, Send

from shelltie.errors import NoServerAnswer
from shelltie.frontends.control.async_client import ask
from shelltie.frontends.control.live_rows import LiveRows, Row
from shelltie.frontends.web.access import PageRole

_RATE = 1 / 30  # seconds between two messages
_HEARTBEAT = 5.0
_OUTPUT_MAX = 256 * 1024  # bytes by which a page may be behind
_OUTPUT_KEPT = 64 * 1024  # that it gets of what it missed
_SCREEN_MAX = 2 * 1024 * 1024  # bytes from which a screen is drawn that was not seen before
_TREE = 1.0


class PageStream:
    """A page that is open: what it has not been sent, and whose output it follows."""

    def __init__(self, live: LiveRows, role: PageRole, about: Row) -> None:
        self.id = secrets.token_urlsafe(9)
        self.role = role
        self._live = live
        self._about = about
        self._stale: set[str] = set()
        self._extra: dict[str, Row] = {}  # the latest of each kind: output, tree
        self._news = anyio.Event()
        self._room = anyio.Event()  # what was there has gone out
        self._followed: str | None = None
        self._turn = anyio.Event()  # it follows something else from now on

    def follow(self, key: str | None) -> None:
        """Send the output and the processes of this run, and of no other."""
        self._followed = key
        self._extra.clear()
        self._turn.set()

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, until the page leaves."""
        leave = self._live.subscribe(self._mark)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send_all, send)
                tasks.start_soon(self._keep_following)
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()
        finally:
            leave()

    async def _send_all(self, send: Send) -> None:
        kind = [(b"content-type", b"application/x-ndjson")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        hello = {"type": "hello", "stream": self.id, "role": self.role, **self._about}
        everything = {"type": "rows", "now": time.time(), "all": True, "put": self._live.rows}
        await _send(send, [hello, everything])
        while True:
            with anyio.move_on_after(_HEARTBEAT):
                await self._news.wait()
            self._news = anyio.Event()
            extra, self._extra = self._extra, {}
            self._room.set()
            await _send(send, [self._rows(), *extra.values()])
            await anyio.sleep(_RATE)

    def _rows(self) -> Row:
        """What has changed; without anything, that we are here."""
        stale, self._stale = self._stale, set()
        put = {key: self._live.rows[key] for key in stale if key in self._live.rows}
        drop = [key for key in stale if key not in self._live.rows]
        return {"type": "rows", "now": time.time(), "put": put, "drop": drop}

    def _mark(self, key: str) -> None:
        self._stale.add(key)
        self._news.set()

    # Output

    async def _keep_following(self) -> None:
        while True:
            self._turn = turn = anyio.Event()
            async with anyio.create_task_group() as tasks:
                if self._followed is not None:
                    tasks.start_soon(self._follow_output, self._followed)
                    tasks.start_soon(self._follow_tree, self._followed)
                await turn.wait()
                tasks.cancel_scope.cancel()

    async def _follow_output(self, key: str) -> None:
        drawn = bool(self._live.rows.get(key, {}).get("pty"))
        position, fresh, most = 0, True, _SCREEN_MAX if drawn else _OUTPUT_MAX
        while True:
            wait = {} if fresh else {"wait": 2}
            try:
                if (server := await self._live.server_of(key)) is None:
                    return
                said = await ask(server.path, "logs", id=_run_of(key), **{"from": position}, **wait)
            except NoServerAnswer:
                return
            total = _number(said, "total")
            if total - position > most:
                position = total - _OUTPUT_KEPT
                # A screen stays: what is skipped may have opened it, and will not come again.
                fresh = fresh or not drawn
                continue
            data = base64.b64decode(str(said["data"]))
            if data or fresh:
                await self._send_output(key, data, _number(said, "start"), reset=fresh)
            fresh = False
            position = _number(said, "start") + len(data)
            if position >= total:
                most = _OUTPUT_MAX
                if said.get("ended"):
                    return
            await anyio.sleep(_RATE)

    async def _send_output(self, key: str, data: bytes, start: int, *, reset: bool) -> None:
        """Only when the last piece has gone: that is the backpressure."""
        while "output" in self._extra:
            self._room = anyio.Event()
            await self._room.wait()
        encoded = base64.b64encode(data).decode("ascii")
        fields = {"type": "output", "run": key, "reset": reset, "start": start, "data": encoded}
        self._extra["output"] = fields
        self._news.set()

    async def _follow_tree(self, key: str) -> None:
        while True:
            try:
                if (server := await self._live.server_of(key)) is None:
                    return
                said = await ask(server.path, "tree", id=_run_of(key))
            except NoServerAnswer:
                return
            names = ("processes", "waitingForInput", "password")
            seen = {name: said.get(name) for name in names}
            self._extra["tree"] = {"type": "tree", "run": key, "now": time.time(), **seen}
            self._news.set()
            if self._live.rows.get(key, {}).get("ended"):
                return
            await anyio.sleep(_TREE)


def _run_of(key: str) -> str:
    return key.rpartition("/")[2]


def _number(said: dict[str, object], name: str) -> int:
    value = said.get(name)
    return value if isinstance(value, int) else 0


async def _send(send: Send, messages: list[Row]) -> None:
    lines = b"".join(json.dumps(one).encode("ascii") + b"\n" for one in messages)
    await send({"type": "http.response.body", "body": lines, "more_body": True})
