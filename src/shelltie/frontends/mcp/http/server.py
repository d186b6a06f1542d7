"""MCP over streamable HTTP (uvicorn, TLS): start, serve, graceful shutdown."""

import logging
import math
import shlex
import signal
import socket
import ssl
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

from shelltie.basics.frozen import frozen
from shelltie.errors import ConfigWrong, InvalidParameters
from shelltie.frontends.mcp.http import address
from shelltie.frontends.mcp.http.address import Address
from shelltie.frontends.mcp.http.auth import AccessControl, Revoked, TokenLookup, Tokens
from shelltie.frontends.mcp.http.clients import HttpClient, HttpClients
from shelltie.frontends.mcp.http.listener import Listener
from shelltie.frontends.mcp.http.request_ids import UniqueRequestIds
from shelltie.frontends.mcp.server import Figures, Forget, Leave, serve
from shelltie.settings import paths
from shelltie.settings.all_settings import HttpSettings
from shelltie.settings.config import Config
from shelltie.settings.layers import load

# Bytes of a request: the SDK's own default. While JSON is read nobody else has a turn; the worst
# that fits, half a million small objects, takes 0.1 to 0.2 seconds; 20 MB took half a second.
_BODY_MAX = 4 * 1024 * 1024
_LAST_WORDS = 1.0  # for the answers of what was ended
_LOOK = 0.5  # seconds from one look at the tokens to the next
_FOR_EVER = 10**9


@frozen
class Tls:
    """Files with a certificate and its key."""

    certificate: Path
    key: Path


@frozen
class Listening:
    """How to serve: where, for whom, under which names, and how long we wait for what."""

    at: Address
    tokens: Path
    tls: Tls | None = None
    plaintext: bool = False
    names: tuple[str, ...] = ()
    settings: HttpSettings = HttpSettings()


def main(args: Namespace) -> int:
    """`shelltie mcp --http`: serve until a signal comes; the exit code.

    Raises: UnsafeAddress, InvalidParameters, CannotStart, ConfigWrong.
    """
    config = load(Path())
    how = listening(args, config)
    check(how.tls)
    with address.bind(how.at, encrypted=how.tls is not None, plaintext=how.plaintext) as sock:
        tokens = Tokens(how.tokens)  # not before: it makes the file
        transport = partial(serve_http, how, tokens.credential, sock, revoked=tokens.revoked)
        anyio.run(serve, config, transport)
    return 0


def listening(args: Namespace, config: Config) -> Listening:
    """What the command line and the settings say.

    Raises: InvalidParameters.
    """
    if (args.tls_cert is None) != (args.tls_key is None):
        raise InvalidParameters("a certificate needs its key: give both --tls-cert and --tls-key")
    return Listening(
        at=args.http,
        tokens=Path(args.token_file) if args.token_file else paths.tokens_file(),
        tls=Tls(Path(args.tls_cert), Path(args.tls_key)) if args.tls_cert else None,
        plaintext=args.allow_plaintext,
        names=tuple(args.allow_host or ()),
        settings=config.http,
    )


def check(tls: Tls | None) -> None:
    """Whether these files can be used.

    Raises: ConfigWrong.
    """
    if tls is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            tls.certificate, tls.key, _no_password
        )
    except (OSError, ssl.SSLError) as error:
        problem = f"{tls.certificate} and {tls.key} are no certificate and its key: {error}"
        raise ConfigWrong(problem) from error


def _no_password() -> str:
    """Nobody is there to type one."""
    return ""


async def serve_http(
    how: Listening,
    known: TokenLookup,
    sock: socket.socket,
    server: Server[Any],
    leave: Leave,
    forget: Forget,
    figures: Figures | None = None,
    revoked: Revoked = lambda _: False,
) -> None:
    """Serve until a signal comes. `forget` ends what one client has, `leave` everything.

    `figures` is what is to be read at /metrics.
    """
    encrypted = how.tls is not None
    silence = how.settings.silence or math.inf
    listener = Listener(sock, how.settings.connections, silence)
    leaving, left = anyio.create_memory_object_stream[HttpClient](math.inf)
    rooms = _rooms(server, how.settings.idle)
    names = address.names(listener, how.names, encrypted=encrypted)
    clients = HttpClients(how.settings.idle, leaving.send_nowait)
    inside = UniqueRequestIds(rooms.handle_request, _BODY_MAX, silence)
    access = AccessControl(
        inside, known, revoked, names, clients, listener, how.settings.requests, figures
    )
    web = _Web(_settings(access, how.tls))
    signals = anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    with listener, signals as arriving, leaving, left:
        async with anyio.create_task_group() as tasks:
            async with rooms.run():
                listener.listen()
                tasks.start_soon(web.serve_at, listener)
                tasks.start_soon(_clear, left, forget)
                tasks.start_soon(_watch_tokens, access)
                _announce(address.url(listener, encrypted=encrypted), how.tokens)
                async for _ in arriving:
                    break
                await _finish(access, web, how.settings.drain, leave)
            await web.end()
            tasks.cancel_scope.cancel()


async def _clear(left: MemoryObjectReceiveStream[HttpClient], forget: Forget) -> None:
    """End what those had who left; one who takes long keeps no other."""
    async with anyio.create_task_group() as tasks:
        async for guest in left:
            for owner in guest.owners:
                tasks.start_soon(forget, owner)


async def _watch_tokens(access: AccessControl) -> None:
    """Polls: the file may be where no kernel tells of changes, such as on another machine."""
    while True:
        await anyio.sleep(_LOOK)
        await access.shut_out_revoked()


async def _finish(access: AccessControl, web: "_Web", drain: float, leave: Leave) -> None:
    """Let what is nearly done be done, end the rest, and let the answers go out."""
    access.close()
    web.should_exit = True
    with anyio.move_on_after(drain):
        await access.wait_idle()
    await leave()
    with anyio.move_on_after(_LAST_WORDS):
        await access.wait_idle()


def _rooms(server: Server[Any], idle: float) -> StreamableHTTPSessionManager:
    # The access looks at Host and Origin before anything else does.
    checked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return StreamableHTTPSessionManager(
        server,
        security_settings=checked,
        session_idle_timeout=idle,
        max_request_body_size=_BODY_MAX,
    )


class _Web(uvicorn.Server):
    """A web server that leaves the signals to us."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._over = anyio.Event()

    async def serve_at(self, listener: Listener) -> None:
        await self.serve([listener])
        self._over.set()

    async def end(self) -> None:
        """Let everybody have what is on its way; who does not read it is left."""
        with anyio.move_on_after(_LAST_WORDS):
            await self._over.wait()
        # Cancelled alone, uvicorn still wants to tell them, and waits until they read.
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()
        with anyio.move_on_after(_LAST_WORDS):
            await self._over.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _settings(app: ASGIApp, tls: Tls | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        # Not what clients do: a request that is none, an upgrade to a websocket.
        log_level=logging.ERROR,
        timeout_keep_alive=_FOR_EVER,  # the listener drops connections that are silent
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )


def _announce(url: str, tokens: Path) -> None:
    """Say on stderr where we are and how a client is added. The token itself belongs in no log."""
    file = shlex.quote(str(tokens.absolute()))
    sys.stderr.write(
        f"shelltie: MCP at {url}, token required; tokens are in {tokens}. For Claude Code:\n"
        f"  claude mcp add --transport http shelltie {url}"
        f' --header "Authorization: Bearer $(grep -v ^# {file} | head -1)"\n'
    )
    sys.stderr.flush()
