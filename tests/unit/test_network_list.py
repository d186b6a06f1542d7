"""The list of hosts that a sandbox may reach: what an entry means, and what it never means."""

import pytest

from shelltie import Config
from shelltie.errors import ConfigWrong
from shelltie.settings import checks
from shelltie.settings.network_list import (
    AllowedHost,
    canonical_host,
    entry_for,
    expanded,
    host_groups,
)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER。example", "xn--bcher-kva.example"),
        ("under_score.example", "under_score.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
    ],
)
def test_a_host_has_one_spelling(text: str, host: str) -> None:
    assert canonical_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "a..b", "-a.example", "a-.example", "a b", "a/b", "a:b", "a@b", "a\0b", "a%2e"),
        *("fe80::1%eth0", "[example.org]", "x" * 64 + ".example", "a." * 130 + "example"),
        # A resolver would take these for addresses.
        *("127.1", "2130706433", "0x7f.1", "0x7f000001", "017700000001", "1.2.3.4."),
        *("example..", "*.example.org", "ex\nample.org", "\u2024example.org"),
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no host"):
        canonical_host(text)


@pytest.mark.parametrize(
    ("entry", "reached", "not_reached"),
    [
        ("example.org", ["example.org:443", "example.org:80"], ["www.example.org:443"]),
        ("example.org", [], ["example.org:22", "badexample.org:443", "example.org.evil.net:443"]),
        ("*.example.org", ["a.example.org:443", "a.b.example.org:80"], ["example.org:443"]),
        ("*.example.org", [], ["badexample.org:443", "a.example.org:8443"]),
        ("example.org:22", ["example.org:22"], ["example.org:443"]),
        ("*.example.org:8443", ["a.example.org:8443"], ["a.example.org:443"]),
        ("10.0.0.5", ["10.0.0.5:80"], ["10.0.0.50:80"]),
        ("[::1]:8080", ["::1:8080"], ["::1:80"]),
        ("EXAMPLE.org.", ["example.org:443"], []),
    ],
)
def test_an_entry_reaches_what_it_names(
    entry: str, reached: list[str], not_reached: list[str]
) -> None:
    parsed = AllowedHost.parse(entry)

    for expected, places in ((True, reached), (False, not_reached)):
        for place in places:
            host, _, port = place.rpartition(":")
            assert parsed.matches(host, int(port)) is expected, place


def test_only_an_entry_for_one_service_means_a_private_address_as_well() -> None:
    explicit = {
        entry: AllowedHost.parse(entry).explicit
        for entry in ("mirror.lan:8080", "10.0.0.5", "example.org", "*.example.org:8443")
    }

    assert explicit == {
        "mirror.lan:8080": True,
        "10.0.0.5": True,
        "example.org": False,
        "*.example.org:8443": False,
    }


@pytest.mark.parametrize(
    "entry", ["*", "*.org", "*.", "a.*.org", "*example.org", "*.1.2.3.4", "x.org:0", "x.org:99999"]
)
def test_an_entry_that_is_too_wide_or_no_host_is_refused(entry: str) -> None:
    with pytest.raises(ConfigWrong, match=r"sandbox\.network_allow"):
        Config.of(sandbox_network_allow=[entry])


def test_groups_stand_for_the_hosts_of_an_ecosystem() -> None:
    assert {"pypi", "npm", "crates", "debian", "github", "go", "maven"} <= host_groups().keys()
    hosts = expanded(("pypi", "example.org"))

    assert any(one.matches("files.pythonhosted.org", 443) for one in hosts)
    assert any(one.matches("example.org", 443) for one in hosts)
    assert not any(one.explicit for group in host_groups().values() for one in group)
    with pytest.raises(ConfigWrong, match="there is no group 'pipy': there are pypi, "):
        Config.of(sandbox_network_allow=["pipy"])


@pytest.mark.parametrize(
    ("host", "entry"),
    [
        ("files.pythonhosted.org:443", "pypi"),
        ("example.org:443", "example.org"),
        ("example.org:22", "example.org:22"),
        ("mirror:443", "mirror:443"),
        ("[2001:db8::1]:443", "[2001:db8::1]:443"),
    ],
)
def test_the_entry_that_would_allow_a_host_is_known(host: str, entry: str) -> None:
    assert entry_for(host) == entry
    name, _, port = host.rpartition(":")
    allowed = expanded((entry,))
    assert any(one.matches(canonical_host(name), int(port)) for one in allowed)


def test_an_untrusted_project_only_narrows_the_list() -> None:
    own = ("pypi", "example.org")

    assert checks.fewer(own, ("example.org", "evil.example")) == ("example.org",)
    assert checks.fewer((), ("evil.example",)) == ()
