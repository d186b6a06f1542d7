"""A sandbox whose network is a list of hosts: what is reached, what is refused, and by whom."""

import base64
import contextlib
import hashlib
import http.server
import os
import socket
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from shelltie import Terminal
from shelltie.frontends.reports.run_report import Result
from shelltie.keeper.link import Link
from shelltie.providers.proxy.server import NetworkProxy, open_proxy
from shelltie.running.run import Run
from shelltie.settings.layers import load
from shelltie.settings.network_list import AllowedHost
from tests.conftest import Open
from tests.sandboxes import become_nobody
from tests.tree import until

pytestmark = pytest.mark.needs("bwrap", "curl", "python3")

_PYTHON = "/usr/bin/python3"
_OUTSIDE = "host.shelltie.internal"


class _Answers(http.server.SimpleHTTPRequestHandler):
    """Serves files, and answers what is sent to it."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["Host"].encode() + b" " + body)

    def log_message(self, *_: object) -> None:
        """Nobody wants to read that."""


@contextlib.contextmanager
def web(place: Path) -> Iterator[int]:
    """A web server of this machine; its port."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(_Answers, directory=str(place))
    )
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def site() -> Iterator[Path]:
    """What the server of this machine has: a page, a package, a repository."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "page").write_text("from outside")
        _package(place / "simple" / "tiny")
        git = partial(subprocess.run, check=True, cwd=place, stdout=subprocess.DEVNULL)
        git(["git", "init", "-q", "--bare", "repo.git"])
        git(["git", "init", "-q", "made"])
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        git(["git", "-C", "made", *identity, "commit", "-q", "--allow-empty", "-m", "cloned"])
        git(["git", "-C", "made", "push", "-q", "../repo.git", "HEAD:refs/heads/main"])
        git(["git", "-C", "repo.git", "symbolic-ref", "HEAD", "refs/heads/main"])
        git(["git", "-C", "repo.git", "update-server-info"])
        yield place


def _package(place: Path) -> None:
    place.mkdir(parents=True)
    files = {
        "tiny.py": "SIZE = 'tiny'\n",
        "tiny-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n",
        "tiny-1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()},\n"
        for name, text in files.items()
    )
    with zipfile.ZipFile(place / "tiny-1-py3-none-any.whl", "w") as wheel:
        for name, text in {**files, "tiny-1.dist-info/RECORD": record}.items():
            wheel.writestr(name, text)
    link = "<a href='tiny-1-py3-none-any.whl'>tiny-1-py3-none-any.whl</a>"
    (place / "index.html").write_text(f"<html><body>{link}</body></html>")


@contextlib.asynccontextmanager
async def listed(
    open_terminal: Open, site: Path, *entries: str, **settings: object
) -> AsyncIterator[tuple[Terminal, str]]:
    """A terminal whose sandboxes reach our server, and the address of that."""
    with web(site) as port:
        allowed = [f"{_OUTSIDE}:{port}", *entries]
        given = {"sandbox_network": "allow", "sandbox_network_allow": allowed, **settings}
        async with open_terminal(**given) as terminal:
            yield terminal, f"http://{_OUTSIDE}:{port}"


async def run(terminal: Terminal, text: str) -> Result:
    return await terminal.run(text, isolation="sandbox", timeout=120, silence=120)


_URLLIB = (
    "import sys, urllib.request;"
    "print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())"
)


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("user", ["root", "nobody"])
async def test_listed_hosts_are_reached_and_others_told_by_name(
    open_terminal: Open,
    site: Path,
    public_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    user: str,
) -> None:
    if user == "nobody":
        become_nobody(public_path, monkeypatch)
    async with listed(open_terminal, site, "*.example.org") as (terminal, url):
        plain = await run(terminal, f"curl -sS {url}/page")
        sent = await run(terminal, f"curl -sS --data-binary @/etc/hostname {url}/x")
        tunnel = await run(terminal, f"curl -sSp {url}/page")
        socks = await run(terminal, f"curl -sS --socks5-hostname 127.0.0.1:23128 {url}/page")
        python = await run(terminal, f"{_PYTHON} -c '{_URLLIB}' {url}/page")
        cloned = await run(terminal, f"git clone -q {url}/repo.git r && git -C r log --format=%s")
        refused = await run(
            terminal, "curl -sS https://files.pythonhosted.org/ https://x.test:8443"
        )
        by_socks = await run(terminal, "curl -sS --socks5-hostname 127.0.0.1:23128 http://y.test")
        direct = await run(terminal, "curl -sS --noproxy '*' https://example.org")

    hostname = Path("/etc/hostname").read_text()
    assert [one.stdout for one in (plain, tunnel, socks)] == ["from outside"] * 3
    assert sent.stdout == f"{url.removeprefix('http://')} {hostname}"
    assert (python.stdout, cloned.stdout) == ("from outside\n", "cloned\n"), (python, cloned)
    assert [(one.host, one.entry) for one in refused.refused_hosts] == [
        ("files.pythonhosted.org:443", "pypi"),
        ("x.test:8443", "x.test:8443"),
    ]
    assert refused.blocked == ("hosts",)
    assert refused.exit_code != 0
    assert "`shelltie config add sandbox.network_allow pypi x.test:8443`" in str(refused.hint)
    assert [one.host for one in by_socks.refused_hosts] == ["y.test:80"]
    assert (direct.blocked, direct.refused_hosts) == (("hosts",), ())
    assert "HTTPS_PROXY" in str(direct.hint)
    assert plain.refused_hosts == ()


@pytest.mark.usefixtures("workspace")
async def test_pip_installs_from_a_listed_index(open_terminal: Open, site: Path) -> None:
    python = os.path.realpath(sys.executable)
    if not list(Path(sys.base_prefix).glob("lib/python3*/site-packages/pip")):
        pytest.skip("needs pip")
    pip = f"{python} -m pip --disable-pip-version-check install -q --target t"
    settings = {"sandbox_readable": (sys.base_prefix,), "safety_preset": "relaxed"}
    async with listed(open_terminal, site, **settings) as (terminal, url):
        host = url.removeprefix("http://")
        index = f"--index-url {url}/simple/ --trusted-host {host}"
        made = await run(terminal, f"{pip} {index} tiny && cat t/tiny.py")
        refused = await run(terminal, f"{pip} tiny")

    assert made.stdout == "SIZE = 'tiny'\n", made
    assert {one.entry for one in refused.refused_hosts} == {"pypi"}
    assert refused.exit_code != 0


async def test_nothing_else_is_reached(
    open_terminal: Open, site: Path, workspace: Path, tmp_path: Path
) -> None:
    """Neither this machine's services nor its Unix sockets, nor other sandboxes."""
    probe = (
        "import socket, sys\n"
        "def tried(address, family=socket.AF_INET):\n"
        "    with socket.socket(family) as s:\n"
        "        try: s.connect(address)\n"
        "        except OSError as error: return type(error).__name__\n"
        "    return 'CONNECTED'\n"
        "print(tried(('127.0.0.1', int(sys.argv[1]))), tried(('10.0.0.1', 80)))\n"
        "print(tried(('169.254.169.254', 80)), tried(sys.argv[2], socket.AF_UNIX))\n"
    )
    control = Path(os.environ["XDG_RUNTIME_DIR"]) / "shelltie.sock"
    other = tmp_path / "other"
    other.mkdir()
    with web(site) as secret, contextlib.closing(socket.socket(socket.AF_UNIX)) as unix:
        unix.bind(str(control))
        unix.listen()
        async with listed(open_terminal, site) as (terminal, _):
            (workspace / "probe.py").write_text(probe)
            direct = await run(terminal, f"{_PYTHON} probe.py {secret} {control}")
            refused = []
            for place in (
                *(f"http://127.0.0.1:{secret}", f"http://localhost:{secret}"),
                *(f"http://[::ffff:127.0.0.1]:{secret}", f"http://0.0.0.0:{secret}"),
                *(f"http://2130706433:{secret}", f"http://{_OUTSIDE}:{secret}"),
                *("http://169.254.169.254/latest", "http://[::1]:23128"),
            ):
                page = await run(terminal, f"curl -sS -g --noproxy '' -p {place}")
                refused.append((place, page.stdout, page.exit_code))
            # The loopback of a sandbox is its own: the proxy of one is not another's.
            server = await terminal.start(
                f"{_PYTHON} -u -m http.server 8765 --bind 127.0.0.1", isolation="sandbox"
            )
            await until(lambda: b"8765" in server.output.read(0, 999).data)
            beside = await terminal.run(
                "curl -sS http://127.0.0.1:8765/", isolation="sandbox", workspace=other, cwd=other
            )
            await server.kill("enough")

    assert direct.stdout.split() == [
        "ConnectionRefusedError",
        *("OSError", "OSError", "FileNotFoundError"),
    ]
    assert [one for one in refused if one[1] or not one[2]] == []
    assert "refused" in beside.stderr.lower() or "connect" in beside.stderr.lower()
    assert beside.exit_code != 0


async def test_each_command_is_told_of_its_own_refusals(
    open_terminal: Open, site: Path, workspace: Path
) -> None:
    wait = "until [ -e go ]; do sleep 0.05; done"
    async with listed(open_terminal, site, sandbox_writes="live") as (terminal, _):
        runs: list[Run] = [
            await terminal.start(
                f"{wait}; curl -sS https://{name}.test; echo done; {wait.replace('go', 'end')}",
                isolation="sandbox",
                timeout=120,
                silence=120,
            )
            for name in ("one", "two")
        ]
        (workspace / "go").touch()
        await until(lambda: all(b"done" in one.output.read(0, 999).data for one in runs))
        told = [[refused.host for refused in one.refused_hosts] for one in runs]  # while they run
        (workspace / "end").touch()
        for one in runs:
            await one.wait()

    assert told == [["one.test:443"], ["two.test:443"]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[NetworkProxy]:
    """The proxies that are opened from now on."""
    proxies: list[NetworkProxy] = []

    async def remembered(link: Link, allowed: tuple[AllowedHost, ...]) -> NetworkProxy:
        proxies.append(await open_proxy(link, allowed))
        return proxies[-1]

    monkeypatch.setattr("shelltie.providers.bubblewrap.provider.open_proxy", remembered)
    return proxies


async def test_a_proxy_that_dies_is_told_and_leaves_no_network(
    open_terminal: Open, site: Path, workspace: Path, opened: list[NetworkProxy]
) -> None:
    async with listed(open_terminal, site) as (terminal, url):
        waits = f"echo ready; until [ -e go ]; do sleep 0.05; done; curl -sS {url}/page"
        started = await terminal.start(waits, isolation="sandbox", timeout=120, silence=120)
        await until(lambda: b"ready" in started.output.read(0, 999).data)
        opened[0]._server.shutdown(socket.SHUT_RDWR)  # it cannot accept anybody any more
        await until(lambda: not opened[0].alive)
        (workspace / "go").touch()
        ended = await started.wait()
        after = await run(terminal, f"curl -sS {url}/page")

    assert any("the proxy of its sandbox has ended" in one for one in ended.warnings)
    assert ended.exit.code != 0
    assert b"from outside" not in started.output.read(0, 9999).data
    assert (after.stdout, len(opened)) == ("from outside", 2)


@pytest.mark.usefixtures("workspace")
async def test_the_proxy_ends_with_its_sandbox(
    open_terminal: Open, site: Path, opened: list[NetworkProxy]
) -> None:
    async with listed(open_terminal, site, sandbox_idle=0.01) as (terminal, url):
        await run(terminal, f"curl -sS {url}/page")
        await until(lambda: not opened[0].alive)

    assert len(opened) == 1


def test_an_untrusted_project_cannot_widen_it(workspace: Path) -> None:
    (workspace / ".shelltie.toml").write_text(
        '[sandbox]\nnetwork = "on"\nnetwork_allow = ["evil.example", "pypi"]\n'
    )
    own = Path(os.environ["XDG_CONFIG_HOME"]) / "shelltie" / "config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text('[sandbox]\nnetwork = "allow"\nnetwork_allow = ["pypi", "npm"]\n')

    config = load(workspace)

    assert (config.sandbox.network, config.sandbox.network_allow) == ("allow", ("pypi",))
    assert any("sandbox.network may only tighten" in one for one in config.ignored)
