import pytest

from shelltie.model import Bar, RefusedHost
from shelltie.running.hints import blocked, blocked_hint, not_configured

_ALL = frozenset(Bar) - {Bar.HOSTS}


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("touch: cannot touch '/etc/x': Read-only file system", [Bar.WRITE]),
        ("Error: EROFS: read-only file system, open '/usr/x'", [Bar.WRITE]),
        (
            "error: could not write config file .git/config: Device or resource busy",
            [Bar.WRITE],
        ),
        ("curl: (6) Could not resolve host: example.org", [Bar.NETWORK]),
        ("OSError: [Errno 101] Network is unreachable", [Bar.NETWORK]),
        ("npm error code EAI_AGAIN", [Bar.NETWORK]),
        ("cat: /there/file: No such file or directory", [Bar.FILES]),
        ("cat: /etc/no-such-file: No such file or directory", []),
        ("cat: /work/file: No such file or directory", []),
        ("cat: file: No such file or directory", []),
        ("fine so far\nCould not resolve host: x\nRead-only file system", [Bar.WRITE, Bar.NETWORK]),
        ("dial tcp: lookup proxy.golang.org: no such host", [Bar.NETWORK]),
        ("Temporary failure resolving 'deb.debian.org'", [Bar.NETWORK]),
        ("npm error code ENOTFOUND", [Bar.NETWORK]),
        ("error: gpg failed to sign the data", [Bar.FILES]),
        ("Cannot connect to the Docker daemon at unix:///x. Is it running?", [Bar.FILES]),
        ("Could not open a connection to your authentication agent.", [Bar.FILES]),
        ("[0101/1.2:FATAL] No usable sandbox! Update your kernel", [Bar.FILES]),
        ("make: *** [all] Error 2", []),
        ("", []),
    ],
)
def test_last_words_tell_what_was_in_the_way(said: str, found: list[Bar]) -> None:
    assert list(blocked(said, _ALL, "/work")) == found


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("npm install left-pad", True),
        ("cd web && npm ci", True),
        ("yarn", True),
        ("sudo apt-get -y install x", True),
        ("git -C x fetch", True),
        ("python3 -m pip install x", True),
        ("make; /usr/bin/curl -s https://x", True),
        ("curl -s http://127.0.0.1:8123/", False),
        ("npm test", False),
        ("grep curl file", False),
        ("cat ~/.ssh/config", False),
        ("git status", False),
        ("echo npm install", False),
    ],
)
def test_what_needs_a_network_ran_into_having_none(text: str, needs: bool) -> None:
    found = blocked("", _ALL, "/work", text)

    assert found == ((Bar.NETWORK,) if needs else ())
    assert blocked("", frozenset(), "/work", text) == ()


def test_what_a_place_does_not_bar_was_not_barred() -> None:
    said = "Network is unreachable\nRead-only file system\n/there/x: not found"

    assert blocked(said, frozenset(), "/work") == ()


def test_the_hint_names_the_place_and_the_setting() -> None:
    assert blocked_hint((), "bubblewrap") is None
    assert "sandbox.network" in str(blocked_hint((Bar.NETWORK,), "bubblewrap"))
    assert "(bubblewrap)" in str(blocked_hint((Bar.WRITE,), "bubblewrap"))


@pytest.mark.parametrize(
    ("text", "said", "entries"),
    [
        ("pip install six", "", "pypi"),
        ("cd web && npm ci", "", "npm"),
        ("cargo build", "error: could not resolve host: index.crates.io", "crates"),
        ("git clone https://github.com/a/b", "", "github"),
        ("curl -sS https://Example.org/x", "", "example.org"),
        ("make", "Could not resolve host: x", "HOST"),
    ],
)
def test_without_a_network_the_lines_that_allow_it_are_told(
    text: str, said: str, entries: str
) -> None:
    told = str(blocked_hint((Bar.NETWORK,), "bubblewrap", (), text, said))

    assert "`shelltie config set sandbox.network allow`" in told
    assert f"`shelltie config add sandbox.network_allow {entries}`" in told
    assert "container.network allow" in str(blocked_hint((Bar.NETWORK,), "container", (), text))


def test_what_is_not_there_is_named() -> None:
    told = str(blocked_hint((Bar.FILES,), "bubblewrap", (), "", "gpg failed to sign the data"))

    assert "--no-gpg-sign" in told
    assert "sandbox.readable" not in told
    assert not_configured(
        "warning: could not lock config file .git/config: Device or resource busy"
    )
    assert not not_configured("umount: /mnt: device or resource busy")


def test_where_the_network_is_a_list_refused_hosts_are_named_with_the_line_that_allows_them() -> (
    None
):
    listed = frozenset(Bar) - {Bar.NETWORK}
    refused = (RefusedHost("files.pythonhosted.org:443", "pypi"), RefusedHost("x.y:22", "x.y:22"))

    assert blocked("curl: (6) Could not resolve host: x", listed, "/", "curl x") == (Bar.HOSTS,)
    assert blocked("error: it failed", listed, "/", "pip install x") == ()
    told = str(blocked_hint((Bar.HOSTS,), "bubblewrap", refused))
    assert "does not allow files.pythonhosted.org:443, x.y:22;" in told
    assert "`shelltie config add sandbox.network_allow pypi x.y:22`" in told
    assert "HTTPS_PROXY" in str(blocked_hint((Bar.HOSTS,), "container"))


def test_no_private_address_is_offered() -> None:
    refused = (RefusedHost("169.254.169.254:80", ""), RefusedHost("x.y:22", "x.y:22"))

    told = str(blocked_hint((Bar.HOSTS,), "bubblewrap", refused))
    assert "does not allow 169.254.169.254:80, x.y:22;" in told
    assert "`shelltie config add sandbox.network_allow x.y:22`" in told
    assert "config add" not in str(blocked_hint((Bar.HOSTS,), "bubblewrap", refused[:1]))
    for host in ("169.254.169.254", "10.0.0.1", "0x7f.1", "host.shelltie.internal"):
        text = f"curl http://{host}/latest"
        told = str(blocked_hint((Bar.NETWORK,), "bubblewrap", (), text))
        assert "config add sandbox.network_allow HOST`" in told
