"""200 sessions, one of which floods, watched by a page: what that costs the server and the page."""

import threading
import time
from contextlib import suppress

import psutil

from benchmarks.rows import Goal, Of, Row
from tests.web_page import WebPage, agent, own_environment, web_page

_SESSIONS = 200
_SPAN = 5.0  # seconds of each look
_FLOOD = "while :; do seq 1 40000; sleep 0.05; done"  # some megabytes a second


def measure() -> list[Row]:
    """The CPU of the server with a page and without, and that of `shelltie web` itself."""
    with own_environment(SHELLTIE_SESSIONS_MAX="500") as env, agent(env) as one:
        for _ in range(_SESSIONS - 1):
            one.start("sleep 900")
        one.start(_FLOOD)
        server = psutil.Process(one.process.pid)
        alone = _used(server)
        with web_page(env) as page:
            own = psutil.Process(page.process.pid)
            reader = threading.Thread(target=_read, args=(page,), daemon=True)
            reader.start()
            _used(own)  # it has asked everybody by now
            before, began = _cpu(server), time.monotonic()
            pages = _used(own)
            watched = (_cpu(server) - before) / (time.monotonic() - began) * 100
    what = f"{_SESSIONS} sessions, one floods"
    return [
        Row(f"{what}: CPU of the server with a page", "%", watched, alone, goal=Goal(Of.MORE, 15)),
        Row(f"{what}: CPU of shelltie web", "%", pages, goal=Goal(Of.OURS, 25)),
    ]


def _read(page: WebPage) -> None:
    """A page that follows the session that floods."""
    with suppress(OSError, ValueError), page.stream(page.steer) as stream:
        key, _ = stream.run("seq 1 40000")
        page.post("/api/follow", {"stream": stream.hello["stream"], "run": key}, page.steer)
        while True:
            stream.next()


def _used(process: psutil.Process) -> float:
    """Per cent of a core for a while."""
    before, began = _cpu(process), time.monotonic()
    time.sleep(_SPAN)
    return (_cpu(process) - before) / (time.monotonic() - began) * 100


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
