"""NetworkProxy: the only way out of a sandbox whose network is a list of hosts.

It listens on a socket that the keeper made inside and passed out, so it is in the loopback of the
sandbox and nowhere else; what it connects to is in the network of this machine. A sandbox without
its proxy has no network at all.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from shelltie.errors import CannotStart
from shelltie.keeper.link import Link
from shelltie.keeper.protocol import Gone, LeashWord, Lost, Noted
from shelltie.model import RefusedHost
from shelltie.providers.listening_ports import holds_connection
from shelltie.providers.loopback_forward import socket_inside
from shelltie.providers.proxy.connection import ProxyConnection, ProxyLimits
from shelltie.providers.proxy.lookup import Lookups, Resolve, system_addresses
from shelltie.providers.spawn import LeashedProcess
from shelltie.settings.network_list import AllowedHost

PORT = 23128  # inside; no service is known for it, and the kernel gives it to nobody
_TOLD_MAX = 16  # hosts that one command is told of
_LOOKS_MAX = 200  # at who has which connection, for one sandbox; to look is dear
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED)
_PAUSE = 0.5  # until there may be descriptors again
_LOCAL = "localhost,127.0.0.1,::1"
ENDED = "the proxy of its sandbox has ended ({}): nothing can be reached from there; run it again"


def proxy_variables() -> Mapping[str, str]:
    """What programs read to use it; each in the two spellings that there are."""
    address = f"http://127.0.0.1:{PORT}"
    named = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), address)
    named |= {"NO_PROXY": _LOCAL}
    return {
        **named,
        **{name.lower(): value for name, value in named.items()},
        "YARN_HTTP_PROXY": address,
        "YARN_HTTPS_PROXY": address,
        "NODE_USE_ENV_PROXY": "1",  # for fetch() of Node 24 and later
        # What is refused stays refused: to try again five times only takes longer.
        "PIP_RETRIES": "1",
        "npm_config_fetch_retries": "1",
        "npm_config_fetch_retry_mintimeout": "1000",
    }


@dataclass(slots=True, eq=False)
class _ProxiedCommand:
    """A command that runs behind the proxy now, and what it was told of."""

    listen: Callable[[LeashWord], None]
    process: LeashedProcess | None = None
    told: set[RefusedHost] = field(default_factory=set)

    def tell(self, refused: RefusedHost) -> None:
        if refused not in self.told and len(self.told) < _TOLD_MAX:
            self.told.add(refused)
            self.listen(Noted("", refused=refused))

    def has(self, port: int) -> bool:
        leash = 0 if self.process is None else self.process.leash
        return bool(leash) and holds_connection(leash, port, PORT)


class NetworkProxy:
    """Listens on `server` and connects to what is `allowed`, until it is closed."""

    def __init__(
        self,
        server: socket.socket,
        allowed: tuple[AllowedHost, ...],
        resolve: Resolve = system_addresses,
        limits: ProxyLimits = ProxyLimits(),  # noqa: B008  frozen
    ) -> None:
        server.setblocking(False)
        self._server = server
        self._allowed = allowed
        self._limits = limits
        self._lookups = Lookups(resolve)
        self._connections: set[ProxyConnection] = set()
        self._commands: list[_ProxiedCommand] = []
        self._looks = 0
        self._loop = asyncio.get_running_loop()
        self._listens = False
        self._accept_more()

    @property
    def alive(self) -> bool:
        """Whether anything can be reached through it."""
        return self._server.fileno() >= 0

    def serving(
        self, listen: Callable[[LeashWord], None]
    ) -> tuple[Callable[[LeashWord], None], Callable[[LeashedProcess], LeashedProcess]]:
        """For a command that is about to start: who listens to its leash, and who is to be given
        its process. It is told of hosts that it was refused.
        """
        command = _ProxiedCommand(listen)
        self._commands.append(command)

        def hear(word: LeashWord) -> None:
            if isinstance(word, Gone | Lost) and command in self._commands:
                self._commands.remove(command)
            listen(word)

        def attached(process: LeashedProcess) -> LeashedProcess:
            command.process = process
            return process

        return hear, attached

    def _accept_more(self) -> None:
        room = self.alive and len(self._connections) < self._limits.connections
        if room and not self._listens:
            self._listens = True
            self._loop.add_reader(self._server.fileno(), self._accept)

    def _pause(self) -> None:
        if self._listens:
            self._listens = False
            self._loop.remove_reader(self._server.fileno())

    def _accept(self) -> None:
        try:
            client, _ = self._server.accept()
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in _PASSING:
                self._pause()
                self._loop.call_later(_PAUSE, self._accept_more)
            else:
                # Nothing is reached any more: whoever runs is told at once.
                self.close()
                for command in self._commands:
                    command.listen(Noted(ENDED.format(error.strerror or error)))
            return
        made = ProxyConnection(
            client, self._allowed, self._lookups, self._limits, self._refused, self._over
        )
        self._connections.add(made)
        if len(self._connections) >= self._limits.connections:
            self._pause()

    def _over(self, connection: ProxyConnection) -> None:
        self._connections.discard(connection)
        self._accept_more()

    def _refused(self, refused: RefusedHost, port: int) -> None:
        """Have the command know that has this connection; all of them, if that cannot be found."""
        commands = [one for one in self._commands if refused not in one.told]
        if len(self._commands) > 1 and commands and self._looks < _LOOKS_MAX:
            self._looks += 1
            commands = [one for one in self._commands if one.has(port)] or commands
        for command in commands:
            command.tell(refused)

    def close(self) -> None:
        """End every connection, and listen no more."""
        if not self.alive:
            return
        self._pause()
        self._server.close()
        for connection in tuple(self._connections):
            connection.abort()


async def open_proxy(link: Link, allowed: tuple[AllowedHost, ...]) -> NetworkProxy:
    """A proxy in the loopback of that keeper's network namespace.

    Raises: CannotStart.
    """
    with ExitStack() as undo:
        try:
            server = undo.enter_context(await socket_inside(link))
            server.bind(("127.0.0.1", PORT))
            server.listen(128)
        except OSError as error:
            raise CannotStart(f"the proxy of the sandbox cannot listen: {error}") from error
        undo.pop_all()
    return NetworkProxy(server, allowed)
