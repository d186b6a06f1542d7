"""Who uses the HTTP server, what is theirs, and when they have left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from shelltie.running.alarms import Alarm, Alarms

GUEST = "shelltie.guest"  # where the scope of a request has it


class Guest:
    """Whoever has a credential; where the protocol has sessions, each of them is one."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.owners: set[str] = set()
        self.requests = 0
        self.used = 0.0
        self.alarm: Alarm | None = None

    def owner(self, client: str) -> str:
        """What stands for one client of theirs, as it calls itself."""
        name = f"{self.key}:{client}"
        self.owners.add(name)
        return name


class Guests:
    """Everybody who has something here. Who makes no request for `patience` seconds has left."""

    def __init__(self, patience: float, left: Callable[[Guest], None]) -> None:
        self._patience = patience
        self._left = left
        self._alarms = Alarms()
        self._guests: dict[str, Guest] = {}

    @contextmanager
    def receive(self, key: str) -> Iterator[Guest]:
        """While they have a request here."""
        guest = self._guests.setdefault(key, Guest(key))
        guest.requests += 1
        try:
            yield guest
        finally:
            guest.requests -= 1
            if not guest.requests and self._guests.get(key) is guest:
                self._wait(guest)

    def leave(self, guest: Guest) -> None:
        """They are gone, and what they have is to go."""
        del self._guests[guest.key]
        if guest.alarm is not None:
            self._alarms.set(guest.alarm, None)
        self._left(guest)

    def _wait(self, guest: Guest) -> None:
        if not guest.owners:
            del self._guests[guest.key]
            return
        guest.alarm = guest.alarm or Alarm(partial(self._look, guest))
        guest.used = self._alarms.now()
        self._alarms.set(guest.alarm, guest.used + self._patience)

    def _look(self, guest: Guest, now: float) -> None:
        if guest.requests or guest.alarm is None or self._guests.get(guest.key) is not guest:
            return
        if now < guest.used + self._patience:
            self._alarms.set(guest.alarm, guest.used + self._patience)
        else:
            self.leave(guest)
