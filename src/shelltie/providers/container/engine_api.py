"""Docker/Podman engine API over its Unix socket."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import anyio
import httpx2

from shelltie.basics.frozen import frozen
from shelltie.errors import CannotStart, Silent

CHANGE_TIMEOUT = 60.0  # an engine that copies an image takes its time
QUESTION_TIMEOUT = 15.0  # with a question that needs no work
_TICK = 0.05
_GONE = 404
_WRONG = 400
_ANSWER_BYTES = 8 * 1024 * 1024  # bytes of an answer
_WORDS = 500  # characters of what an engine complains of
_TOLD = 60

T = TypeVar("T")


@frozen
class Image:
    """What of an image matters to us: the environment it comes with, and what it starts itself."""

    variables: dict[str, str]
    checks_itself: bool


@frozen
class _EngineResponse:
    """What the engine says; what is no JSON is a text."""

    status: int
    said: object

    @property
    def fine(self) -> bool:
        return 200 <= self.status < 300


class Engine:
    """Use it as `async with`. Whatever fails raises CannotStart, which says what to do.

    `change_timeout` is for what changes something.
    """

    def __init__(self, address: Path, change_timeout: float | None = None) -> None:
        self.address = address
        self._change_timeout = change_timeout or CHANGE_TIMEOUT
        transport = httpx2.AsyncHTTPTransport(uds=str(address), verify=False)
        # The deadline is one around the whole of a request: an engine may also drip.
        self._client = httpx2.AsyncClient(
            transport=transport,
            base_url="http://engine",
            trust_env=False,
            timeout=None,
            headers={"Accept-Encoding": "identity"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self._client.aclose()

    async def image(self, name: str) -> Image:
        """One that is here already."""
        answer = await self._send("GET", f"/images/{quote(name, safe='/:@')}/json")
        if answer.status == _GONE:
            raise CannotStart(
                f"the image {name} is not here, and nothing is pulled unasked:"
                f" docker pull {name}, or podman pull {name}, or set container.image to another"
            )
        config = self._field(self._content(answer, dict), "Config", dict)
        given = [self._shaped(one, str) for one in self._field(config, "Env", list)]
        variables = dict(one.split("=", 1) for one in given if "=" in one)
        return Image(variables, checks_itself="Healthcheck" in config)

    async def create(self, name: str, order: Mapping[str, object]) -> None:
        """Have one made, not started."""
        answer = await self._send(
            "POST", "/containers/create", params={"name": name}, content=order
        )
        self._content(answer, dict)

    async def start(self, name: str) -> None:
        """Start one that was made."""
        self._content(await self._send("POST", f"/containers/{name}/start"), object)

    async def ended(self, name: str) -> str:
        """How it ended; nothing if it has not."""
        answer = await self._send("GET", f"/containers/{name}/json")
        if answer.status == _GONE:
            return "it ended at once"
        state = self._field(self._content(answer, dict), "State", dict)
        return "" if state.get("Running") else f"it ended with status {state.get('ExitCode')}"

    async def labelled(self, label: str) -> dict[str, str]:
        """Every container that has this label, by id, with what it says."""
        params = {"all": "true", "filters": json.dumps({"label": [label]})}
        answer = await self._send("GET", "/containers/json", params=params)
        found = [self._shaped(one, dict) for one in self._content(answer, list)]
        return {
            self._field(one, "Id", str): str(self._field(one, "Labels", dict).get(label, ""))
            for one in found
        }

    async def remove(self, name: str) -> None:
        """End it, and have nothing left of it."""
        with anyio.fail_after(self._change_timeout):
            # While the engine itself removes one that has ended, it refuses.
            while True:
                params = {"force": "true", "v": "true"}
                answer = await self._send("DELETE", f"/containers/{name}", params=params)
                if answer.status == _GONE:
                    return
                if answer.status < _WRONG:
                    self._content(answer, object)
                    return
                await anyio.sleep(_TICK)

    def _content(self, answer: _EngineResponse, shape: type[T]) -> T:
        """What it says, if that is good news of that shape."""
        if answer.fine:
            return self._shaped(answer.said, shape)
        said = answer.said if isinstance(answer.said, dict) else {"message": answer.said}
        why = said.get("message") or said.get("cause") or f"status {answer.status}"
        raise CannotStart(f"the container engine at {self.address} says: {str(why)[:_WORDS]}")

    def _field(self, said: dict[str, Any], name: str, shape: type[T]) -> T:
        """A part of it. What an engine has nothing to say of, it leaves out, or calls null."""
        value = said.get(name)
        return shape() if value is None else self._shaped(value, shape)

    def _shaped(self, said: object, shape: type[T]) -> T:
        if said is None and shape is list:
            return shape()  # in Go, in which both are written, an empty list may be null
        if not isinstance(said, shape):
            raise CannotStart(
                f"what answers at {self.address} does not speak as a container engine does"
                f" ({str(said)[:_TOLD]!r}): set container.engine to the socket of one"
            )
        return said

    async def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: Mapping[str, object] | None = None,
    ) -> _EngineResponse:
        changes = method != "GET"
        request = self._client.build_request(method, path, params=params, json=content)
        try:
            # What changes something is not given up half way: Podman loses count then.
            with (
                anyio.CancelScope(shield=changes),
                anyio.fail_after(self._change_timeout if changes else QUESTION_TIMEOUT),
            ):
                return await self._answer(request)
            raise AssertionError("nobody cancels that scope")
        except TimeoutError as error:
            raise Silent(
                f"the container engine at {self.address} does not answer: see whether it is well"
            ) from error
        except (httpx2.HTTPError, OSError) as error:
            raise CannotStart(
                f"no container engine answers at {self.address} ({error or type(error).__name__}):"
                " start it (systemctl start docker, or podman.socket), or set container.engine"
            ) from error

    async def _answer(self, request: httpx2.Request) -> _EngineResponse:
        response = await self._client.send(request, stream=True)
        try:
            body = bytearray()
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > _ANSWER_BYTES:
                    raise CannotStart(
                        f"the engine at {self.address} answers more than {_ANSWER_BYTES} B"
                    )
            return _EngineResponse(response.status_code, _parsed(bytes(body)))
        finally:
            await response.aclose()


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body) if body else {}
    except (ValueError, RecursionError):
        return body[:_WORDS].decode("utf-8", "replace")
