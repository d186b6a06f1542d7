"""What a safe command needs beyond reading files it gets in its view, and nothing else."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from shelltie import CommandDenied
from shelltie.providers.bubblewrap.docker_socket import is_elsewhere
from shelltie.providers.loopback_forward import only_reads
from tests.conftest import Open
from tests.containers import IMAGE, OwnEngine

_HERE = Path("/proc/self/ns/net").readlink()
_RULE = (
    '[[rule]]\ncommand = "{}"\nverdict = "safe"\nneeds = "{}"\nflags = "any"\nmatch = ["{} x"]\n'
)


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"served\n")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _serving() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a user's own rules."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    rules = tmp_path / "config" / "shelltie" / "rules"
    rules.mkdir(parents=True)
    return rules


@pytest.mark.needs("bwrap", "curl")
async def test_a_rule_that_needs_a_port_of_this_machine_gets_that_port_alone(
    config: Path, open_terminal: Open, tmp_path: Path
) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "socket"))
    listening.listen()
    with _serving() as port, _serving() as other, listening:
        (config / "own.toml").write_text(_RULE.format("curl", f"network:loopback:{port}", "curl"))
        ask = "curl -sS --max-time 20"
        async with open_terminal(safety_profiles_run_unknown="deny") as terminal:
            there = await terminal.run(
                f"{ask} http://127.0.0.1:{port}/; readlink /proc/self/ns/net"
            )
            denied = list[str]()
            for rest in (
                f"http://127.0.0.1:{other}/",
                f"--unix-socket {tmp_path}/socket http://x/",
                "http://192.0.2.1/",
            ):
                with pytest.raises(CommandDenied) as refused:
                    await terminal.run(f"{ask} {rest}")
                denied.append(str(refused.value))
            await terminal.run(f"{ask} -o {tmp_path}/made http://127.0.0.1:{port}/")
    async with open_terminal() as terminal:  # nothing listens there now: it runs as without a view
        gone = await terminal.run(f"{ask} http://127.0.0.1:{port}/; readlink /proc/self/ns/net")

    assert there.stdout.splitlines()[0] == "served"
    assert there.stdout.splitlines()[1] != str(_HERE)
    assert (there.verdict, there.isolation) == ("safe", "none")
    assert all("from which the read-only view kept it" in one for one in denied), denied
    assert not (tmp_path / "made").exists()
    assert gone.stdout.splitlines() == [str(_HERE)]


@pytest.mark.needs("bwrap", "docker")
async def test_docker_reads_its_engine_in_the_view_and_cannot_change_it(
    config: Path, open_terminal: Open, engine: OwnEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{engine.address}")
    (config / "own.toml").write_text(_RULE.format("docker rmi", "socket:docker", "docker rmi"))
    # `docker images` alone tells ages, which change between two calls.
    texts = ("docker ps -a", "docker images -q", f"docker inspect {IMAGE}", "docker network ls")
    async with open_terminal() as terminal, open_terminal(safety_enforce="off") as plain:
        for text in texts:
            inside = await terminal.run(f"{text}; readlink /proc/self/ns/net")
            outside = await plain.run(text)
            shown, _, namespace = inside.stdout.rstrip("\n").rpartition("\n")
            assert f"{shown}\n" == outside.stdout, inside
            assert namespace != str(_HERE)
            assert inside.verdict == "safe"
        steered = await terminal.run(
            "docker ps; readlink /proc/self/ns/net", env={"DOCKER_TLS": ""}
        )
    async with open_terminal(safety_profiles_run_unknown="deny") as terminal:
        with pytest.raises(CommandDenied, match="wanted to write a file"):
            await terminal.run(f"docker rmi {IMAGE}")
        left = await terminal.run("docker images -q")

    assert left.stdout.strip()
    assert steered.stdout.splitlines()[-1] == str(_HERE)


@pytest.mark.parametrize(
    ("head", "reads"),
    [
        ("GET /v1.41/containers/json?all=1 HTTP/1.1\r\nHost: x\r\n\r\n", True),
        ("HEAD /_ping HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", True),
        ("POST /containers/create HTTP/1.1\r\nHost: x\r\n\r\n", False),
        ("DELETE /images/x HTTP/1.1\r\nHost: x\r\n\r\n", False),
        ("get /x HTTP/1.1\r\n\r\n", False),
        ("GET /x HTTP/1.0\r\n\r\n", False),
        ("GET /x HTTP/1.1\r\nContent-Length: 05\r\n\r\n", False),
        ("GET /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", False),
        ("GET /x HTTP/1.1\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n", False),
        ("GET /x HTTP/1.1\r\nA: b\r\n Content-Length: 5\r\n\r\n", False),
        ("GET /x HTTP/1.1\r\nA: b\nPOST /x HTTP/1.1\r\n\r\n", False),
        ("GET /containers/x/attach/ws HTTP/1.1\r\nHost: x\r\n\r\n", False),
        ("GET /x\tPOST HTTP/1.1\r\n\r\n", False),
        ("\r\nGET /x HTTP/1.1\r\n\r\n", False),
    ],
)
def test_only_what_asks_reaches_a_container_engine(head: str, reads: bool) -> None:
    assert only_reads(head.encode()) is reads


@pytest.mark.parametrize("text", ["[]", "{", '{"currentContext": "far"}', '{"psFormat": "x"}'])
def test_a_configuration_that_steers_docker_or_is_garbage_leads_elsewhere(
    tmp_path: Path, text: str
) -> None:
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(text, encoding="utf-8")

    assert is_elsewhere("/run/docker.sock", tmp_path)
