"""REST client of a Kubernetes API server: credentials of the kubeconfig, refusals in words.

lightkube reads the kubeconfig and knows how to log in. Objects are plain dictionaries: a template
of the user's may have fields that no generated model has yet.
"""

import json
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from secrets import token_bytes
from typing import Any

import anyio
import httpx2
import yaml
from httpx2.websockets import AsyncWebSocketSession, HTTPXWSException
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.core.exceptions import ConfigError

from shelltie.errors import ApiRefusal, CannotStart
from shelltie.settings.places import KubernetesPlace

Json = dict[str, Any]
MERGE_PATCH = "application/merge-patch+json"
_ANSWERS_WITHIN = 10.0  # seconds, an API server that is there
_MESSAGE_MAX = 8 * 1024 * 1024  # bytes of a WebSocket message; what exec prints comes in 32 KiB
_PROTOCOLS = "v5.channel.k8s.io, v4.channel.k8s.io"  # v5 can close stdin, which we never do


class KubernetesApi:
    """One namespace of a cluster, as the user of a kubeconfig."""

    def __init__(self, place_name: str, place: KubernetesPlace) -> None:
        """Raises: CannotStart, where there is no kubeconfig that can be used."""
        self._place_name = place_name
        try:
            config = _read_config(place)
            params = ConnectionParams(timeout=httpx2.Timeout(_ANSWERS_WITHIN)).httpx_params(config)
        except (ConfigError, OSError, ValueError, LookupError, TypeError, yaml.YAMLError) as error:
            raise CannotStart(
                f"place {place_name}: no kubeconfig that can be used ({error}): say which with"
                f" `kubeconfig` and `context` in [places.{place_name}]"
            ) from error
        self.server: str = config.cluster.server or ""
        self.namespace: str = place.namespace or config.namespace
        # Each session holds a connection for as long as it lives: none may wait for another's.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
        self._client = httpx2.AsyncClient(**params, limits=limits)
        self._clock_ahead = timedelta()

    def path(self, kind: str, name: str = "", group: str = "api/v1") -> str:
        """Where objects of a kind (in the plural: pods) are, or that one of them."""
        return "/".join(part for part in (group, "namespaces", self.namespace, kind, name) if part)

    def now(self) -> datetime:
        """What the API server's clock says, to a second: ours may be wrong, and others read it."""
        return datetime.now(UTC) + self._clock_ahead

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Json:
        """The object that it answers with.

        Raises: ApiRefusal; CannotStart, where there is no answer.
        """
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type}
        request = self._client.build_request(
            method, path, content=content, params=params, headers=headers
        )
        with self._in_words():
            answer = await self._send(request, stream=False)
        with suppress(KeyError, ValueError):
            self._clock_ahead = parsedate_to_datetime(answer.headers["date"]) - datetime.now(UTC)
        if answer.is_error:
            raise self._refusal(answer.status_code, answer.content)
        return self._object(answer.content)

    async def watch(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[tuple[str, Json], None]:
        """What becomes of these objects: ADDED, MODIFIED or DELETED, and the object.

        It may end at any time, and is then begun anew. Whoever leaves it before closes it, and
        with it a connection (`aclosing`). Raises: ApiRefusal, CannotStart.
        """
        with self._in_words():
            request = self._client.build_request("GET", path, params={**params, "watch": "1"})
            async with aclosing(await self._send(request, stream=True)) as answer:
                if answer.is_error:
                    raise self._refusal(answer.status_code, await answer.aread())
                async for line in answer.aiter_lines():
                    event = self._object(line)
                    if event.get("type") == "ERROR":  # too old a version: a fresh look says more
                        return
                    yield str(event["type"]), event["object"]

    @asynccontextmanager
    async def exec(self, pod: str, command: Sequence[str]) -> AsyncIterator[AsyncWebSocketSession]:
        """A WebSocket on which a program in the pod is run; `exec_stream` has the words on it.

        Raises: ApiRefusal, CannotStart.
        """
        streams = {"stdin": "true", "stdout": "true", "stderr": "true"}
        with self._in_words():
            try:
                request = self._client.build_request(
                    "GET",
                    self.path("pods", f"{pod}/exec"),
                    params={**streams, "command": list(command)},
                    headers=_upgrade_headers(),
                )
                async with aclosing(await self._send(request, stream=True)) as answer:
                    if answer.status_code != 101:
                        raise self._refusal(answer.status_code, await answer.aread())
                    async with AsyncWebSocketSession(
                        answer.extensions["network_stream"],
                        max_message_size_bytes=_MESSAGE_MAX,
                        keepalive_ping_interval_seconds=None,
                        response=answer,
                    ) as session:
                        try:
                            yield session
                        finally:  # a farewell would wait for a link that is cut; this aborts
                            with anyio.CancelScope(shield=True):
                                await session.stream.aclose()
            except (HTTPXWSException, ExceptionGroup) as error:  # of the tasks in a session
                raise CannotStart(f"place {self._place_name}: {pod} was lost: {error}") from error

    async def _send(self, request: httpx2.Request, *, stream: bool) -> httpx2.Response:
        """Bounded by the client's timeouts, and not cancelled: a connection that is cancelled in
        its TLS handshake is left open (httpcore2 2.16).
        """
        with anyio.CancelScope(shield=True):
            return await self._client.send(request, stream=stream)
        raise AssertionError("a scope that nobody cancels ends with its return")

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except (httpx2.HTTPError, httpx2.InvalidURL, ConfigError, ssl.SSLError) as error:
            what = str(error) or type(error).__name__
            raise CannotStart(
                f"place {self._place_name}: the API server {self.server} cannot be reached: {what};"
                " does `kubectl version` answer?"
            ) from error

    def _object(self, text: str | bytes) -> Json:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise CannotStart(
                f"place {self._place_name}: {self.server} does not answer as a Kubernetes API"
                " server does"
            )
        return found

    def _refusal(self, status: int, content: bytes) -> ApiRefusal:
        try:
            found = json.loads(content)
            message, reason = str(found["message"]), str(found.get("reason", ""))
        except (ValueError, LookupError, TypeError, AttributeError):
            message, reason = content[:500].decode("utf-8", "replace") or f"HTTP {status}", ""
        return ApiRefusal(
            f"place {self._place_name}: {message}{self._advice(status, message)}", status, reason
        )

    def _advice(self, status: int, message: str) -> str:
        """What to do about it, where we know."""
        if status == 401:
            return "; log in anew: `kubectl get pods` must work with this kubeconfig"
        if "exceeded quota" in message or "PodSecurity" in message or "RuntimeClass" in message:
            return ""
        if status == 403 and "cannot" in message:
            return (
                f"; `shelltie places apply {self._place_name}` prints the rights that are needed,"
                " for somebody who may grant them"
            )
        return ""


def _upgrade_headers() -> Json:
    """Of a WebSocket's handshake. Not `AsyncClient.websocket`: that has lost why it was refused."""
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": b64encode(token_bytes(16)).decode(),
        "Sec-WebSocket-Protocol": _PROTOCOLS,
    }


def _read_config(place: KubernetesPlace) -> SingleConfig:
    if place.kubeconfig:
        whole = KubeConfig.from_file(Path(place.kubeconfig).expanduser())
    else:
        whole = KubeConfig.from_env()
    found = whole.get(place.context or None)
    assert found is not None  # it raises where there is none
    return found
