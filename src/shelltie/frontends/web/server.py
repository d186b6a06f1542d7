"""HTTP server of the web page (uvicorn) on loopback: start, links, end."""

import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import uvicorn

from shelltie.approval.ancestry import why_not_a_person
from shelltie.basics.frozen import frozen
from shelltie.environment.inherited import inherited
from shelltie.errors import CannotStart
from shelltie.frontends.about import version
from shelltie.frontends.control import monitor_socket
from shelltie.frontends.control.live_rows import LiveRows
from shelltie.frontends.staying_holder import StayingHolder
from shelltie.frontends.web.access import PageAccess, PageRole, PageTokens
from shelltie.frontends.web.routes import PageRoutes
from shelltie.frontends.web.steering import Steering
from shelltie.keeper.hardening import hide_this_process
from shelltie.settings import paths
from shelltie.settings.layers import load

_HOST = "127.0.0.1"
_BACKLOG = 128


@frozen
class PageLinks:
    """Where the page is: to look, to steer if that is possible here, and to be opened once."""

    view: str
    steer: str | None
    once: str
    why_not: str | None  # why nobody can steer


Announce = Callable[[PageLinks], None]


def serve_page(port: int, announce: Announce, *, allow_input: bool) -> None:
    """Serve until a signal comes. `announce` is told once when there is something to see.

    Raises: CannotStart, ConfigWrong, TerminalError.
    """
    config = load(paths.here())
    journal = config.journal
    with ExitStack() as stack:
        sock = stack.enter_context(_bound(port))
        listeners = stack.enter_context(monitor_socket.listening(inherited()))
        # Before there are tokens: nobody but root can read them out of our memory.
        hide_this_process()
        why_not = why_not_a_person(os.getpid())
        tokens = PageTokens(steers=why_not is None)
        lone = StayingHolder(config, "shelltie web")
        stack.callback(lone.close)
        live = LiveRows(inherited(), journal, lone)
        about = {"host": socket.gethostname(), "version": version(), "allowInput": allow_input}
        steering = Steering(live, allow_input=allow_input)
        routes = PageRoutes(live, steering, tokens, journal, about)
        links = _links(sock, tokens, why_not)
        served = _Served(PageAccess(routes.app(), tokens))
        anyio.run(_serve, served, sock, live, listeners, lambda: announce(links))


async def _serve(
    served: "_Served",
    sock: socket.socket,
    live: LiveRows,
    listeners: dict[Path, socket.socket],
    ready: Callable[[], None],
) -> None:
    sock.listen(_BACKLOG)
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as arriving:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(live.watch, listeners)
            tasks.start_soon(served.serve, [sock])
            ready()
            async for _ in arriving:
                break
            served.should_exit = served.force_exit = True
            await served.over.wait()
            tasks.cancel_scope.cancel()


class _Served(uvicorn.Server):
    """A web server that leaves the signals to us."""

    def __init__(self, app: PageAccess) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level=logging.ERROR,
                access_log=False,
                proxy_headers=False,
                server_header=False,
            )
        )
        self.over = anyio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Until it is told to leave."""
        try:
            await super().serve(sockets)
        finally:
            self.over.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: who began it ends it."""
        yield


def _bound(port: int) -> socket.socket:
    """A socket on loopback; port 0 takes any that is free.

    Raises: CannotStart.
    """
    # asyncio sends small answers at once only where the protocol is named: 40 ms each.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((_HOST, port))
    except (OSError, OverflowError) as error:
        sock.close()
        told = f"cannot listen on {_HOST}:{port}: {error}; without --port a free one is taken"
        raise CannotStart(told, 125) from None
    return sock


def _links(sock: socket.socket, tokens: PageTokens, why_not: str | None) -> PageLinks:
    page = f"http://{_HOST}:{sock.getsockname()[1]}/"
    steer = tokens.token(PageRole.STEER)
    return PageLinks(
        view=f"{page}#view={tokens.token(PageRole.VIEW)}",
        steer=None if steer is None else f"{page}#steer={steer}",
        once=f"{page}#once={tokens.new_code()}",
        why_not=why_not,
    )
