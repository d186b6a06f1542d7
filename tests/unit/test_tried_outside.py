import pytest

from shelltie.model import Bar, RefusedHost
from shelltie.running.tried_outside import tried_outside


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("touch: cannot touch '/etc/x y': Read-only file system", "/etc/x y"),
        ("/bin/bash: line 1: /etc/x: Read-only file system", "/etc/x"),
        ("sh: 1: cannot create /etc/x: Read-only file system", "/etc/x"),
        ("sh: 1: cannot create ../x: Permission denied", "/x"),
        ("OSError: [Errno 30] Read-only file system: '/etc/x'", "/etc/x"),
        ("Error: EROFS: read-only file system, open '/usr/x'", "/usr/x"),
        ("npm error EACCES: permission denied, mkdir '/usr/lib/n'", "/usr/lib/n"),
        ("open /opt/x: read-only file system", "/opt/x"),
        ("mv: cannot move 'a' to '/etc/a': Read-only file system", "/etc/a"),
        ("rm: cannot remove ‘/etc/x’: Device or resource busy", "/etc/x"),  # noqa: RUF001
        ("sed: couldn't open temporary file ./sedAb: Read-only file system", "/work/sedAb"),
        (
            "error: could not write config file .git/config: Device or resource busy",
            "/work/.git/config",
        ),
    ],
)
def test_a_blocked_write_is_named_as_the_program_names_it(said: str, path: str) -> None:
    tried = tried_outside(f"before\n{said}\nafter", (Bar.WRITE,), (), "/work")

    assert tried is not None
    assert (tried.writes, tried.hosts) == ((path,), ())
    assert tried.told.startswith(f"It tried to write {path} (known by what it printed")


@pytest.mark.parametrize(
    ("said", "host"),
    [
        ("curl: (6) Could not resolve host: example.org", "example.org"),
        ("fatal: unable to access 'https://x/': Could not resolve host: github.com", "github.com"),
        ("wget: unable to resolve host address ‘example.org’", "example.org"),  # noqa: RUF001
        ("ssh: Could not resolve hostname git.example.org: Name or service", "git.example.org"),
        ("npm error request failed, getaddrinfo ENOTFOUND registry.test", "registry.test"),
        ("HTTPSConnectionPool(host='pypi.test', port=443): Max retries", "pypi.test"),
        ("dial tcp: lookup proxy.golang.test: no such host", "proxy.golang.test"),
        ("  Temporary failure resolving 'deb.debian.org'", "deb.debian.org"),
        ("ping: example.org: Temporary failure in name resolution", "example.org"),
        ("java.net.UnknownHostException: repo.test", "repo.test"),
        ("ssh: connect to host 192.0.2.7 port 22: Network is unreachable", "192.0.2.7"),
        ("connect ENETUNREACH 192.0.2.7:80 - Local (0.0.0.0:0)", "192.0.2.7"),
    ],
)
def test_without_a_network_hosts_are_known_if_a_program_names_them(said: str, host: str) -> None:
    tried = tried_outside(said, (Bar.NETWORK,), (), "/work")

    assert tried is not None
    assert tried.hosts == (host,)
    assert "it had no network, so of the hosts that it wanted only those are known" in tried.told


def test_what_is_not_known_is_said() -> None:
    silent = tried_outside("it failed", (Bar.NETWORK,), (), "/work")

    assert silent is not None
    assert silent.told == (
        "It had no network, so of the hosts that it wanted only those are known that it named."
    )
    own = tried_outside("Failed to connect to 127.0.0.1 port 80", (Bar.NETWORK,), (), "/")
    assert own is not None
    assert own.hosts == ()
    for harmless in ("cat: /etc/shadow: Permission denied", "Could not resolve host: x.test", ""):
        assert tried_outside(harmless, (), (), "/work") is None


def test_refused_hosts_are_what_the_proxy_refused() -> None:
    refused = (RefusedHost("a.test:443", "a.test"), RefusedHost("a.test:443", "a.test"))

    tried = tried_outside("", (Bar.HOSTS,), refused, "/work")

    assert tried is not None
    assert tried.told == "It tried to reach a.test:443 (the proxy refused it)."


def test_of_many_writes_some_are_named() -> None:
    said = "\n".join(f"touch: cannot touch '/etc/{n}': Read-only file system" for n in range(99))

    tried = tried_outside(said, (), (), "/work")

    assert tried is not None
    assert len(tried.writes) == 10
