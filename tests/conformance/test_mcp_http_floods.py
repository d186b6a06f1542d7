"""The server on HTTP among clients that send nothing, too little, or what makes no sense."""

import socket
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest

from tests.conformance.http_mcp import (
    MODERN,
    HttpClient,
    HttpServer,
    OwnServer,
    http_client,
    listening,
    shared_server,
)
from tests.conformance.raw_mcp import SERVER
from tests.conformance.test_mcp_http_start import certificate
from tests.tree import until

DESCRIPTORS = 256
ERAS = ["legacy", "modern"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with shared_server(tmp_path_factory.mktemp("server")) as made:
        yield made


@asynccontextmanager
async def small_server(tmp_path: Path, *args: str, **settings: str) -> AsyncIterator[OwnServer]:
    """One with few descriptors."""
    tokens = tmp_path / "tokens"
    limit = [sys.executable, "-m", "tests.programs.few_descriptors", str(DESCRIPTORS)]
    command = [*limit, *SERVER, "--http", "127.0.0.1:0", "--token-file", str(tokens), *args]
    async with listening(command, tokens, **settings) as server:
        yield server


def connect(server: HttpServer) -> socket.socket:
    url = httpx2.URL(server.url)
    assert url.port is not None
    return socket.create_connection((url.host, url.port), timeout=20)


def head(server: HttpServer, *, token: str, length: int) -> bytes:
    lines = [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{httpx2.URL(server.url).port}",
        f"Authorization: Bearer {token}",
        f"MCP-Protocol-Version: {MODERN}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {length}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("kind", ["silent", "half a head", "half a body without a token"])
async def test_more_silent_connections_than_descriptors_keep_nobody_out(
    tmp_path: Path, kind: str
) -> None:
    async with (
        small_server(tmp_path) as server,
        http_client(server, "legacy") as inside,
    ):
        sent = {
            "silent": b"",
            "half a head": b"POST /mcp HTTP/1.1\r\nHost: ",
            "half a body without a token": head(server, token="none", length=9) + b"{",
        }[kind]
        with ExitStack() as flood:
            for _ in range(DESCRIPTORS + 100):
                flood.enter_context(connect(server)).sendall(sent)
            said = [await inside.call("run", command=f"echo {n}") for n in range(5)]
            async with http_client(server, "modern") as late:
                said.append(await late.call("run", command="echo late"))
        log = (tmp_path / "stderr").read_text(encoding="utf-8")

    assert [one["stdout"] for one in said] == [*(f"{n}\n" for n in range(5)), "late\n"]
    assert len(log.splitlines()) == 2, log  # where it listens, and how to add it


async def test_unfinished_handshakes_keep_nobody_out_either(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "localhost")
    trust = ssl.create_default_context(cafile=str(cert))
    tls = ("--tls-cert", str(cert), "--tls-key", str(key))
    async with (
        small_server(tmp_path, *tls) as server,
        httpx2.AsyncClient(verify=trust, timeout=20, trust_env=False) as http,
    ):
        named = server.url.replace("127.0.0.1", "localhost")
        client = HttpClient(http, named, server.token)
        with ExitStack() as flood:
            for _ in range(DESCRIPTORS + 100):
                flood.enter_context(connect(server)).sendall(b"\x16\x03\x01\x02\x00\x01")
            said = [await client.call("run", command=f"echo {n}") for n in range(3)]
        log = (tmp_path / "stderr").read_text(encoding="utf-8")

    assert [one["stdout"] for one in said] == ["0\n", "1\n", "2\n"]
    assert len(log.splitlines()) == 2, log


async def test_who_is_served_is_not_dropped_for_those_who_come(tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    command = f"touch {begun}; until [ -e {go} ]; do sleep 0.05; done; echo whole"
    said = []
    async with small_server(tmp_path) as server, http_client(server, "modern") as client:
        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                said.append(await client.call("run", command=command))

            tasks.start_soon(wait)
            await until(begun.exists)  # before, it is one of those who come
            await anyio.to_thread.run_sync(fill, server)
            go.touch()

    assert [one["stdout"] for one in said] == ["whole\n"]


def fill(server: HttpServer) -> None:
    with ExitStack() as flood:
        for _ in range(DESCRIPTORS):
            flood.enter_context(connect(server))


@pytest.mark.parametrize("kind", ["silent", "slow head", "slow body", "no token", "kept alive"])
async def test_a_connection_that_brings_no_whole_request_is_closed(
    tmp_path: Path, kind: str
) -> None:
    async with small_server(tmp_path, SHELLTIE_HTTP_SILENCE="0.5") as server:
        good = head(server, token=server.token, length=100)
        first = {
            "silent": b"",
            "slow head": good[:50],
            "slow body": good,
            "no token": head(server, token="none", length=100),
            "kept alive": good + b" " * 100,
        }[kind]
        with connect(server) as client:
            client.sendall(first)
            with anyio.fail_after(50):
                said = await anyio.to_thread.run_sync(drip, client, kind.startswith("slow"))

    status = {"slow body": b"408", "no token": b"401", "kept alive": b"400"}.get(kind)
    assert said.startswith(b"HTTP/1.1 " + status) if status else said == b""


def drip(client: socket.socket, slowly: bool) -> bytes:
    """Send a byte now and then, until the other side closes; what it said."""
    said = b""
    client.settimeout(0.1)
    while True:
        try:
            if slowly:
                client.send(b"x")
            chunk = client.recv(65536)
        except TimeoutError:
            continue
        except OSError:
            return said
        if not chunk:
            return said
        said += chunk


async def test_what_clients_break_off_or_make_up_is_no_traceback(tmp_path: Path) -> None:
    upgrade = (
        "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    async with small_server(tmp_path) as server, http_client(server, "legacy") as after:
        modern = head(server, token=server.token, length=100)
        legacy = modern.replace(MODERN.encode(), b"2025-11-25")
        of_session = legacy.replace(b"\r\n", f"\r\nMcp-Session-Id: {after.session}\r\n".encode(), 1)
        for sent in (modern, legacy, of_session):
            with connect(server) as client:
                client.sendall(sent + b"{")
        for sent in (upgrade.encode(), b"\x16\x03\x01 this is no HTTP\r\n\r\n"):
            with connect(server) as client:
                client.sendall(sent)
                assert client.recv(65536).startswith(b"HTTP/1.1 4")
        said = await after.call("run", command="echo still here")
        log = (tmp_path / "stderr").read_text(encoding="utf-8")

    assert said["stdout"] == "still here\n"
    assert len(log.splitlines()) == 2, log


@pytest.mark.parametrize("era", ERAS)
async def test_an_id_that_is_none_is_refused_as_on_stdio(server: HttpServer, era: str) -> None:
    async with http_client(server, era) as client:
        refused = []
        wrong: tuple[object, ...] = (None, True, 1.5, [], {})
        for number in wrong:
            message, headers = client.request("run", command="echo hi")
            refused.append(await client.post({**message, "id": number}, headers))

    assert [one.status_code for one in refused] == [400] * 5
    said = [one.json() for one in refused]
    assert [(one["id"], one["error"]["code"]) for one in said] == [(None, -32600)] * 5


@pytest.mark.parametrize("era", ERAS)
async def test_a_token_with_many_open_requests_is_told_to_wait_and_others_are_served(
    tmp_path: Path, era: str
) -> None:
    second, go = "second-" + "x" * 30, tmp_path / "go"
    command = f"echo > {tmp_path}/begun-$RANDOM$RANDOM; until [ -e {go} ]; do sleep 0.05; done"
    async with small_server(tmp_path, SHELLTIE_HTTP_REQUESTS="2") as server:
        first = server.token
        with server.tokens.open("a", encoding="ascii") as file:
            file.write(f"{second}\n")
        async with (
            http_client(server, era, token=first) as greedy,
            http_client(server, era, token=second) as other,
            anyio.create_task_group() as tasks,
        ):
            for _ in range(2):
                tasks.start_soon(partial(greedy.call, "run", command=command))
            await until(lambda: len(list(tmp_path.glob("begun-*"))) == 2)
            refused = await greedy.post(*greedy.request("run", command="echo too many"))
            served = await other.call("run", command="echo served")
            go.touch()
        async with http_client(server, era, token=first) as later:
            after = await later.call("run", command="echo after")

    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert "2 requests of this token are open (http.requests)" in refused.text
    assert (served["stdout"], after["stdout"]) == ("served\n", "after\n")
