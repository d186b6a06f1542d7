"""HTTP clients: which sessions are whose, and when an idle client counts as gone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import anyio

from shelltie.running.alarms import Alarm, Alarms

CLIENT_KEY = "shelltie.guest"  # where the scope of a request has it


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
    """Everybody who has something here. Who makes no request for `patience` seconds has left."""

    def __init__(self, patience: float, left: Callable[[HttpClient], None]) -> None:
        self._patience = patience
        self._left = left
        self._alarms = Alarms()
        self._guests: dict[str, HttpClient] = {}

    @contextmanager
    def request(self, credential: str, session: str | None) -> Iterator[HttpClient]:
        """While they have a request here; it is cut off when they are shut out."""
        guest = HttpClient(credential, session)
        guest = self._guests.setdefault(guest.key, guest)
        with anyio.CancelScope() as request:
            guest.requests.add(request)
            try:
                yield guest
            finally:
                guest.requests.discard(request)
                if not guest.requests and self._guests.get(guest.key) is guest:
                    self._wait(guest)

    def everybody(self) -> list[HttpClient]:
        """Whoever has something here, or asks for it."""
        return list(self._guests.values())

    def forget(self, guest: HttpClient) -> None:
        """They are gone, and what they have is to go."""
        del self._guests[guest.key]
        if guest.alarm is not None:
            self._alarms.set(guest.alarm, None)
        self._left(guest)

    def shut_out(self, guest: HttpClient) -> None:
        """The same, in the middle of whatever they ask for."""
        for request in guest.requests:
            request.cancel()
        self.forget(guest)

    def _wait(self, guest: HttpClient) -> None:
        if not guest.owners:
            del self._guests[guest.key]
            return
        guest.alarm = guest.alarm or Alarm(partial(self._look, guest))
        guest.used = self._alarms.now()
        self._alarms.set(guest.alarm, guest.used + self._patience)

    def _look(self, guest: HttpClient, now: float) -> None:
        if guest.requests or guest.alarm is None or self._guests.get(guest.key) is not guest:
            return
        if now < guest.used + self._patience:
            self._alarms.set(guest.alarm, guest.used + self._patience)
        else:
            self.forget(guest)
