"""IP addresses that no name may lead to: private ranges, loopback, link-local, metadata. Pure."""

import ipaddress

from shelltie.settings.network_list import THIS_MACHINE, is_address

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# What `is_global` of one Python or another takes for the internet, though it leads elsewhere.
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            *("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15"),
            *("224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32"),  # the last is a cloud's metadata
            *("64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32"),
            *("2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10"),
            "ff00::/8",
        ),
    )
)
_INTERNET_6 = ipaddress.IPv6Network("2000::/3")
_HOME = tuple(
    map(
        ipaddress.ip_network,
        (
            *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "100.64.0.0/10"),
            *("fc00::/7", "::1/128"),
            # Nobody's on the internet: a proxy or a mirror of the user's own answers there.
            *("198.18.0.0/15", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),
        ),
    )
)


def _plain(text: str) -> _Address:
    """The address itself: one of IPv4 that is written as IPv6 is one of IPv4."""
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def is_private_host(host: str) -> bool:
    """Whether a host is an address, or a name for this machine, that is not public."""
    try:
        return host == THIS_MACHINE or (is_address(host) and not is_public(host))
    except ValueError:  # 127.1, which some take for an address
        return True


def is_public(text: str) -> bool:
    """Whether it is somebody's on the internet, and nothing else."""
    address = _plain(text)
    if isinstance(address, ipaddress.IPv6Address) and address not in _INTERNET_6:
        return False
    return address.is_global and not any(address in network for network in _SPECIAL)


def is_home(text: str) -> bool:
    """Whether it is this machine's or a local network's; never that of a cloud's metadata."""
    address = _plain(text)
    return any(address in network for network in _HOME)
