"""Network allow list: host names, wildcards, addresses, ports, and groups of them by ecosystem.

Pure but for the groups, which are read from a file beside it when one is named.
"""

import ipaddress
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from shelltie.basics.frozen import frozen
from shelltie.basics.lazy_regex import lazy

USUAL_PORTS = (80, 443)
# The loopback of this machine, by a name that means nothing else: localhost is the sandbox's own.
THIS_MACHINE = "host.shelltie.internal"
_GROUPS = Path(__file__).with_name("network_groups.toml")
_LABEL = lazy(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# Resolvers read such a name as an address: 127.1, 0x7f.1, 2130706433.
_NUMBER = lazy(r"(?:[0-9]+|0x[0-9a-f]*)")
_GROUP = lazy(r"[a-z][a-z0-9-]*")
_NAME_MAX = 253


def canonical_host(text: str) -> str:
    """A host as it is compared: ASCII, lower case, without the dot at the end; or an address.

    Raises: ValueError for what is neither a name nor an address.
    """
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    if len(bare) > _NAME_MAX + 2 or "%" in bare:
        raise ValueError(f"{text[:80]!r} is no host")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return _canonical_name(text)


def _canonical_name(text: str) -> str:
    try:
        # Python's own IDNA refuses a name with an empty label, and maps every dot to the usual one.
        name = text if text.isascii() else text.encode("idna").decode("ascii")
    except UnicodeError:
        raise ValueError(f"{text[:80]!r} is no host name") from None
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    fits = len(name) <= _NAME_MAX and all(map(_LABEL.fullmatch, labels))
    if not fits or _NUMBER.fullmatch(labels[-1]):
        raise ValueError(f"{text[:80]!r} is no host name")
    return name


@frozen
class AllowedHost:
    """An entry of the list. Without a `port` it is for those of the web."""

    host: str
    port: int | None = None
    subdomains: bool = False  # these, and not the name itself

    @classmethod
    def parse(cls, entry: str) -> "AllowedHost":
        """From `name`, `*.name`, an address, each with `:port` or without; IPv6 in brackets.

        Raises: ValueError.
        """
        host, port = split_port(entry)
        if not host.startswith("*"):
            return cls(canonical_host(host), port)
        parent = canonical_host(host.removeprefix("*.")) if host.startswith("*.") else ""
        if "." not in parent or is_address(parent):
            raise ValueError(f"{entry!r}: a star stands before a domain, as in *.example.org")
        return cls(parent, port, subdomains=True)

    @property
    def explicit(self) -> bool:
        """Whether it names one service, so that a private address is meant as well."""
        return not self.subdomains and (self.port is not None or is_address(self.host))

    def matches(self, host: str, port: int) -> bool:
        """Whether it is for that canonical host and port."""
        if port not in (USUAL_PORTS if self.port is None else (self.port,)):
            return False
        return host.endswith(f".{self.host}") if self.subdomains else host == self.host


def is_address(host: str) -> bool:
    """Whether a canonical host is an address and no name."""
    return ":" in host or host.rpartition(".")[2].isdecimal()


def split_port(text: str) -> tuple[str, int | None]:
    """`host:port` in two; the port may be missing, and an address of IPv6 bare without one.

    Raises: ValueError.
    """
    if text.count(":") > 1 and not text.startswith("["):
        return text, None
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        return text, None
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        raise ValueError(f"{text[:80]!r}: the port is a number from 1 to 65535")
    return host, int(port)


@cache
def host_groups() -> Mapping[str, tuple[AllowedHost, ...]]:
    """Every group by its name."""
    tree = tomllib.loads(_GROUPS.read_text(encoding="utf-8"))
    return {name: tuple(map(AllowedHost.parse, one["hosts"])) for name, one in tree.items()}


def expanded(entries: Iterable[str]) -> tuple[AllowedHost, ...]:
    """What the list says, groups replaced by their hosts.

    Raises: ValueError.
    """
    found: list[AllowedHost] = []
    for entry in entries:
        if not _GROUP.fullmatch(entry):
            found.append(AllowedHost.parse(entry))
        elif entry in host_groups():
            found += host_groups()[entry]
        else:
            raise ValueError(
                f"there is no group {entry!r}: there are {', '.join(host_groups())}; a host of"
                f" that name is written with its port, {entry}:443"
            )
    return tuple(found)


def entry_for(host: str) -> str:
    """What to add to the list for this `host:port`: a group that has it, or the host."""
    name, port = split_port(host)
    for group, hosts in host_groups().items():
        if any(one.matches(name, port or 0) for one in hosts):
            return group
    return name if port in USUAL_PORTS and "." in name else host
