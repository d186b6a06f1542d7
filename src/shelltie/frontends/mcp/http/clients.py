"""HTTP clients: which sessions are whose, and when an idle client counts as gone."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import anyio

from shelltie.running.alarms import Alarm, Alarms

CLIENT_KEY = "shelltie.client"  # where the scope of a request has it


class HttpClient:
    """Whoever has a credential; where the protocol has sessions, each of them is one."""

    def __init__(self, credential: str, session: str | None) -> None:
        self.credential = credential
        self.session = session
        self.owners: set[str] = set()
        self.requests: set[anyio.CancelScope] = set()
        self.used = 0.0
        self.alarm: Alarm | None = None

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return self.credential if self.session is None else f"{self.credential}/{self.session}"

    def owner(self, client: str) -> str:
        """What stands for one client of theirs, as it calls itself."""
        name = f"{self.key}:{client}"
        self.owners.add(name)
        return name


class HttpClients:
    """Everybody who has something here. Who asks nothing for `idle_timeout` seconds has left."""

    def __init__(self, idle_timeout: float, left: Callable[[HttpClient], None]) -> None:
        self._idle_timeout = idle_timeout
        self._left = left
        self._alarms = Alarms()
        self._clients: dict[str, HttpClient] = {}
        self._open: Counter[str] = Counter()  # requests by credential

    @contextmanager
    def request(self, credential: str, session: str | None) -> Iterator[HttpClient]:
        """While they have a request here; it is cut off when they are shut out."""
        client = HttpClient(credential, session)
        client = self._clients.setdefault(client.key, client)
        with anyio.CancelScope() as request:
            client.requests.add(request)
            self._open[credential] += 1
            try:
                yield client
            finally:
                client.requests.discard(request)
                self._open[credential] -= 1
                if not self._open[credential]:
                    del self._open[credential]
                if not client.requests and self._clients.get(client.key) is client:
                    self._wait(client)

    def open_requests(self, credential: str) -> int:
        """How many requests of a credential have no answer yet, in all its sessions."""
        return self._open[credential]

    def all(self) -> list[HttpClient]:
        """Whoever has something here, or asks for it."""
        return list(self._clients.values())

    def forget(self, client: HttpClient) -> None:
        """They are gone, and what they have is to go."""
        del self._clients[client.key]
        if client.alarm is not None:
            self._alarms.set(client.alarm, None)
        self._left(client)

    def shut_out(self, client: HttpClient) -> None:
        """The same, in the middle of whatever they ask for."""
        for request in client.requests:
            request.cancel()
        self.forget(client)

    def _wait(self, client: HttpClient) -> None:
        if not client.owners:
            del self._clients[client.key]
            return
        client.alarm = client.alarm or Alarm(partial(self._look, client))
        client.used = self._alarms.now()
        self._alarms.set(client.alarm, client.used + self._idle_timeout)

    def _look(self, client: HttpClient, now: float) -> None:
        if client.requests or client.alarm is None or self._clients.get(client.key) is not client:
            return
        if now < client.used + self._idle_timeout:
            self._alarms.set(client.alarm, client.used + self._idle_timeout)
        else:
            self.forget(client)
