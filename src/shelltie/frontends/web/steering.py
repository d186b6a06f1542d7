"""Steering from the page: answer a question, extend limits, kill, type, resize; only for a person.

The browser's process is looked for at the other end of its connection. It must not be one that a
command of ours started, nor may it be invisible; each server looks at it once more by itself.
"""

import base64
import os
from collections.abc import Mapping
from typing import Any

import anyio.to_thread
from starlette.requests import Request

from shelltie.approval.ancestry import why_not_a_person
from shelltie.errors import ControlRefused, InvalidParameters, NoServerAnswer
from shelltie.frontends.control.async_client import ask
from shelltie.frontends.control.live_rows import STAYS, LiveRows, ServerSeen
from shelltie.frontends.web.tcp_peer import holders, other_end

_UNSEEN = (
    "it cannot be seen which program asks. Answer in a terminal: shelltie approve, shelltie kill"
)


async def person_behind(request: Request) -> int:
    """The process of the browser.

    Raises: ControlRefused.
    """
    scope = request.scope

    def look() -> tuple[int | None, str | None]:
        end = other_end(tuple(scope["client"]), tuple(scope["server"]))
        if end is None or end.uid not in (0, os.geteuid()):
            return None, _UNSEEN
        pids = holders(end)
        why = next(filter(None, map(why_not_a_person, pids)), None)
        return (pids[0], why) if pids else (None, _UNSEEN)

    pid, why = await anyio.to_thread.run_sync(look)
    if pid is None or why is not None:
        raise ControlRefused(f"only a person may do this, and whoever asks may not: {why}")
    return pid


class Steering:
    """What a person does, handed to the server that it concerns."""

    def __init__(self, live: LiveRows, *, allow_input: bool) -> None:
        self._live = live
        self._allow_input = allow_input

    async def answer(self, given: Mapping[str, Any], behalf: int) -> Mapping[str, object]:
        """Say yes or no to a question, exactly as it was shown: its digest says so."""
        server, question = await self._meant(given, "question")
        names = ("digest", "allowed", "scope", "reason")
        fields = {name: given[name] for name in names if name in given}
        return await self._ask(server, "answer", id=question, behalf=behalf, **fields)

    async def extend(self, given: Mapping[str, Any], behalf: int) -> Mapping[str, object]:
        """Make the limits of a run longer."""
        server, run = await self._meant(given, "run")
        fields = {"seconds": given.get("seconds"), "behalf": behalf}
        return await self._ask(server, "extend", id=run, **fields)

    async def kill(self, given: Mapping[str, Any], behalf: int) -> Mapping[str, object]:
        """End a run and all its processes."""
        server, run = await self._meant(given, "run")
        return await self._ask(server, "kill", ids=[run], behalf=behalf)

    async def stop_all(self, _: Mapping[str, Any], behalf: int) -> Mapping[str, object]:
        """End everything in all servers; who did not answer is told."""
        problems: list[str] = []
        ended = 0
        for server in tuple(self._live.servers.values()):
            mine = f"run/{server.name}/"
            rows = self._live.rows.items()
            ids = [k.removeprefix(mine) for k, row in rows if k.startswith(mine) and _lives(row)]
            try:
                if ids:
                    await self._ask(server, "kill", ids=ids, behalf=behalf)
                    ended += len(ids)
            except NoServerAnswer as error:
                problems.append(str(error))
        alone = f"run/{STAYS}/"
        for key in [k for k, row in self._live.rows.items() if k.startswith(alone) and _lives(row)]:
            try:
                await self.kill({"run": key}, behalf)
                ended += 1
            except NoServerAnswer as error:
                problems.append(str(error))
        return {"ended": ended, "problems": problems}

    async def type(self, given: Mapping[str, Any], behalf: int) -> Mapping[str, object]:
        """Type into a session.

        Raises: ControlRefused where the page was not started to allow that.
        """
        if not self._allow_input:
            raise ControlRefused(
                "this page takes no input: start it with shelltie web --allow-input"
            )
        server, run = await self._meant(given, "run")
        text = given.get("text")
        if not isinstance(text, str):
            raise InvalidParameters("text must be what to type")
        data = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
        return await self._ask(server, "send", id=run, data=data, behalf=behalf)

    async def resize(self, given: Mapping[str, Any], behalf: int) -> Mapping[str, object]:
        """Give the terminal of a session the size of the one on the page."""
        server, run = await self._meant(given, "run")
        size = {name: given.get(name) for name in ("rows", "columns")}
        return await self._ask(server, "resize", id=run, behalf=behalf, **size)

    async def _meant(self, given: Mapping[str, Any], kind: str) -> tuple[ServerSeen, str]:
        """The server of a row, and what the server calls it; it says itself what is over by now.

        Raises: InvalidParameters if it names no server that is there; NoServerAnswer.
        """
        key = str(given.get(kind))
        named, _, rest = key.partition("/")
        own = rest.partition("/")[2]
        server = await self._live.server_of(key) if named == kind and own else None
        if server is None:
            raise InvalidParameters(f"this {kind} is gone: its server has ended")
        return server, own

    async def _ask(self, server: ServerSeen, do: str, **fields: object) -> Mapping[str, object]:
        if server.name == STAYS:  # that is us, and who asks was looked at before they came here
            fields.pop("behalf", None)
        try:
            return await ask(server.path, do, **fields)
        finally:
            self._live.look_again(server)


def _lives(row: Mapping[str, Any]) -> bool:
    return not row.get("ended") or bool(row.get("left"))
