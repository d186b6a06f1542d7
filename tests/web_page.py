"""`shelltie web` at a terminal of its own, and agents beside it that are served over MCP."""

import http.client
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.asking import ROOT, SHELLTIE
from tests.conformance.raw_mcp import INITIALIZED, SERVER, hello, request, server_environment
from tests.served import ALLOWED

PATIENCE = 50.0
_LINKS = re.compile(rb"#view=([\w-]+)\s.*?(http://127\.0\.0\.1:(\d+)/)#steer=([\w-]+)", re.DOTALL)


@contextmanager
def own_environment(**settings: str) -> Iterator[dict[str, str]]:
    """Directories of their own for a page and its agents. Not below tmp_path: sockets have 107
    bytes for their path at most.
    """
    with tempfile.TemporaryDirectory(prefix="page-", ignore_cleanup_errors=True) as name:
        place = Path(name)
        own = {f"XDG_{kind}_HOME": str(place / kind) for kind in ("CONFIG", "STATE")}
        (place / "run").mkdir(mode=0o700)
        (place / "work").mkdir()
        yield {
            **server_environment(),
            **ALLOWED,
            "SHELLTIE_SAFETY_PROFILES_RUN_DANGEROUS": "ask",
            "SHELLTIE_RUNTIME_DIR": str(place / "run"),
            "WORK": str(place / "work"),
            **own,
            **settings,
        }


@dataclass
class Agent:
    """A client with a server of its own."""

    process: subprocess.Popen[bytes]
    _numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 10_000)))

    def send(self, tool: str, **arguments: object) -> None:
        """Call a tool, and do not wait."""
        call = request(next(self._numbers), "tools/call", name=tool, arguments=arguments)
        self._write(call)

    def answer(self) -> dict[str, Any]:
        """What the tool that was called says."""
        while "result" not in (said := self._read()):
            assert "method" in said, said  # something it tells meanwhile
        return dict(said["result"]["structuredContent"])

    def start(self, command: str, **arguments: object) -> dict[str, Any]:
        """Start a session."""
        self.send("terminal_start", command=command, **{"maxWait": 0, **arguments})
        return self.answer()

    def greet(self, name: str) -> None:
        message = hello()
        message["params"]["clientInfo"]["name"] = name
        self._write(message)
        self._read()
        self._write(INITIALIZED)

    def _write(self, message: Mapping[str, object]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return dict(json.loads(self.process.stdout.readline()))


@contextmanager
def agent(env: Mapping[str, str], name: str = "claude-code") -> Iterator[Agent]:
    """A server that has been greeted by a client of this name."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        SERVER, env=env, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=env["WORK"]
    ) as process:
        one = Agent(process)
        try:
            one.greet(name)
            yield one
        finally:
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


@dataclass
class WebPage:
    """A page that is served: where, and with which tokens."""

    process: subprocess.Popen[bytes]
    port: int
    view: str
    steer: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def get(self, path: str, token: str | None = None, **headers: str) -> tuple[int, bytes]:
        """The status and the body."""
        return self._request("GET", path, None, token, headers)

    def post(
        self, path: str, body: object, token: str | None = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """As the page does it: JSON, with its origin. The status and the answer."""
        own = {"origin": self.url.rstrip("/"), "content-type": "application/json", **headers}
        status, said = self._request("POST", path, json.dumps(body), token, own)
        return status, json.loads(said)

    def _request(
        self,
        method: str,
        path: str,
        body: str | None,
        token: str | None,
        headers: Mapping[str, str],
    ) -> tuple[int, bytes]:
        named = {name.replace("_", "-"): value for name, value in headers.items() if value}
        own = {} if token is None else {"authorization": f"Bearer {token}"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, {**own, **named})
            answer = connection.getresponse()
            self.headers = dict(answer.getheaders())
            return answer.status, answer.read()
        finally:
            connection.close()

    @contextmanager
    def stream(self, token: str) -> Iterator["EventStream"]:
        """Everything that a page of this token is told."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", "/api/events", headers={"authorization": f"Bearer {token}"})
        try:
            yield EventStream(connection.getresponse())
        finally:
            connection.close()


class EventStream:
    """The rows as they are by now."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.answer = answer
        self.rows: dict[str, dict[str, Any]] = {}
        self.hello = self.next()
        self.output = b""

    def next(self) -> dict[str, Any]:
        """The next message, with what it changes."""
        message: dict[str, Any] = json.loads(self.answer.readline())
        if message["type"] == "rows":
            self.rows |= message["put"]
            for key in message.get("drop", ()):
                self.rows.pop(key, None)
        return message

    def until(self, found: Callable[[dict[str, dict[str, Any]]], Any]) -> Any:  # noqa: ANN401
        """Wait until the rows have something, and give that."""
        deadline = time.monotonic() + PATIENCE
        while not (seen := found(self.rows)):
            assert time.monotonic() < deadline, self.rows
            self.next()
        return seen

    def question(self, text: str) -> tuple[str, dict[str, Any]]:
        """The one about a command with this in it, once it is asked."""
        return self._row("question/", text)

    def run(self, text: str) -> tuple[str, dict[str, Any]]:
        """The run of a command with this in it, once it is there."""
        return self._row("run/", text)

    def _row(self, kind: str, text: str) -> tuple[str, dict[str, Any]]:
        def look(rows: dict[str, dict[str, Any]]) -> tuple[str, dict[str, Any]] | None:
            for key, row in rows.items():
                if key.startswith(kind) and text in "\n".join(row.get("command") or ()):
                    return key, row
                if key.startswith(kind) and text in str(row.get("command")):
                    return key, row
            return None

        found: tuple[str, dict[str, Any]] = self.until(look)
        return found


@contextmanager
def web_page(env: Mapping[str, str], *options: str, opens: bool = False) -> Iterator[WebPage]:
    """A person types `shelltie web` at a terminal, and copies the links."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "tests.programs.at_terminal"]
    argv = [*command, *SHELLTIE, "web", "--color", "never", *options]
    argv += [] if opens else ["--no-open"]
    process = subprocess.Popen(
        argv, env=env, stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True
    )
    os.close(slave)
    try:
        shown = b""
        while (found := _LINKS.search(shown)) is None or b"leave with" not in shown:
            shown += os.read(master, 4096)
        yield WebPage(process, int(found[3]), found[1].decode(), found[4].decode())
    finally:
        process.terminate()
        try:
            assert process.wait(30) == 0
        finally:
            process.kill()
            os.close(master)
