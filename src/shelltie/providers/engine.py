"""A container engine on this machine, Docker or Podman, through the API that both speak."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import quote

import anyio
import httpx2

from shelltie.errors import CannotStart
from shelltie.frozen import frozen

_PATIENCE = 60.0  # an engine that copies an image takes its time
_SHORT = 15.0  # with a question that needs no work
_TICK = 0.05
_GONE = 404
_WRONG = 400


@frozen
class Image:
    """What of an image matters to us: the environment it comes with, and what it starts itself."""

    variables: dict[str, str]
    checks_itself: bool


class Engine:
    """Use it as `async with`. Whatever fails raises CannotStart, which says what to do."""

    def __init__(self, address: Path) -> None:
        self.address = address
        transport = httpx2.AsyncHTTPTransport(uds=str(address), verify=False)
        self._client = httpx2.AsyncClient(
            transport=transport, base_url="http://engine", trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._client.aclose()

    async def image(self, name: str) -> Image:
        """One that is here already."""
        answer = await self._send("GET", f"/images/{quote(name, safe='/:@')}/json")
        if answer.status_code == _GONE:
            raise CannotStart(
                f"the image {name} is not here, and nothing is pulled unasked:"
                f" docker pull {name}, or podman pull {name}, or set container.image to another"
            )
        config = self._content(answer).get("Config") or {}
        variables = dict(one.split("=", 1) for one in config.get("Env") or () if "=" in one)
        return Image(variables, checks_itself="Healthcheck" in config)

    async def create(self, name: str, order: Mapping[str, object]) -> None:
        """Have one made, not started."""
        await self._asked("POST", "/containers/create", params={"name": name}, content=order)

    async def start(self, name: str) -> None:
        """Start one that was made."""
        await self._asked("POST", f"/containers/{name}/start")

    async def ended(self, name: str) -> str:
        """How it ended; nothing if it has not."""
        answer = await self._send("GET", f"/containers/{name}/json")
        if answer.status_code == _GONE:
            return "it ended at once"
        state = self._content(answer).get("State") or {}
        return "" if state.get("Running") else f"it ended with status {state.get('ExitCode')}"

    async def labelled(self, label: str) -> dict[str, str]:
        """Every container that has this label, by id, with what it says."""
        params = {"all": "true", "filters": json.dumps({"label": [label]})}
        answer = await self._send("GET", "/containers/json", params=params)
        found = cast(list[dict[str, Any]], self._content(answer) or [])
        return {one["Id"]: str((one.get("Labels") or {}).get(label, "")) for one in found}

    async def remove(self, name: str) -> None:
        """End it, and have nothing left of it."""
        with anyio.fail_after(_PATIENCE):
            # While the engine itself removes one that has ended, it refuses.
            while True:
                params = {"force": "true", "v": "true"}
                answer = await self._send("DELETE", f"/containers/{name}", params=params)
                if answer.status_code < _WRONG or answer.status_code == _GONE:
                    return
                await anyio.sleep(_TICK)

    async def _asked(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: Mapping[str, object] | None = None,
    ) -> dict[str, Any]:
        answer = await self._send(method, path, params=params, content=content)
        return cast(dict[str, Any], self._content(answer) or {})

    def _content(self, answer: httpx2.Response) -> Any:  # noqa: ANN401  whatever it says
        try:
            said = answer.json() if answer.content else {}
        except ValueError:
            said = {"message": answer.text[:500]}
        if answer.status_code >= _WRONG:
            why = said.get("message") or said.get("cause") or f"status {answer.status_code}"
            raise CannotStart(f"the container engine at {self.address} says: {why}")
        return said

    async def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: Mapping[str, object] | None = None,
    ) -> httpx2.Response:
        changes = method != "GET"
        patience = _PATIENCE if changes else _SHORT
        try:
            # What changes something is not given up half way: Podman loses count then.
            with anyio.CancelScope(shield=changes):
                return await self._client.request(
                    method, path, params=params, json=content, timeout=patience
                )
            raise AssertionError("nobody cancels that scope")
        except httpx2.TimeoutException as error:
            raise CannotStart(
                f"the container engine at {self.address} does not answer: see whether it is well"
            ) from error
        except (httpx2.HTTPError, OSError) as error:
            raise CannotStart(
                f"no container engine answers at {self.address} ({error or type(error).__name__}):"
                " start it (systemctl start docker, or podman.socket), or set container.engine"
            ) from error
