"""Which addresses a call-out may reach: the public internet, and beside it only what the operator allows.

The tables follow the IANA special-purpose registries and add the addresses on which clouds serve their metadata.
`ipaddress.is_global` is no policy: it differs between Python versions, and calls NAT64 and multicast global.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from yarl import URL

from gateway.egress.rules import check_url
from gateway.errors import EgressDenied

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

DENIED_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
PUBLIC_V6 = IPv6Network("2000::/3")
DENIED_V6 = tuple(
    IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20")
)
_MAPPED = IPv6Network("::ffff:0:0/96")


class AddressDenied(EgressDenied, OSError):
    """EgressDenied as the socket layer must see it: an OSError ends a connect attempt, anything else breaks it."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is open beside the public internet: networks, and names (lower case) wherever they resolve to."""

    networks: tuple[Network, ...] = ()
    names: frozenset[str] = frozenset()


EVERYWHERE = Allowed((IPv4Network("0.0.0.0/0"), IPv6Network("::/0")))


def parse_allow(entries: Sequence[str]) -> Allowed:
    """The `[egress] allow` list: CIDRs, addresses or host names; ValueError says which entry and how to write it."""
    networks: list[Network] = []
    names: set[str] = set()
    for entry in entries:
        if network := _network(entry):
            networks.append(network)
        else:
            names.add(_name(entry))
    return Allowed(tuple(networks), frozenset(names))


def _network(entry: str) -> Network | None:
    try:
        network = ip_network(entry, strict=False)
    except ValueError:
        return None
    if "/" in entry and ip_address(entry.partition("/")[0]) != network.network_address:
        raise ValueError(f'{entry!r} has bits set behind its prefix: write "{network}"')
    if isinstance(network, IPv6Network) and network.overlaps(_MAPPED) and network.prefixlen >= _MAPPED.prefixlen:
        raise ValueError(f"{entry!r} is an IPv4 network written as IPv6: write it as IPv4")
    return network


def _name(entry: str) -> str:
    mend = f'not a network or a host name: {entry!r}; write "10.1.0.0/16", "10.1.2.3/32" or "billing.internal"'
    if "/" in entry or ":" in entry:
        raise ValueError(mend)
    try:
        host = check_url(f"http://{entry}/").raw_host
    except ValueError as exc:
        raise ValueError(mend) from exc
    return (host or "").removesuffix(".")


def check_address(text: str, allowed: Allowed, *, name: str = "") -> None:
    """Raises AddressDenied unless the address is public or allowed; `name` is what resolved to it, if anything."""
    address = _unmapped(ip_address(text))
    if any(address in network for network in allowed.networks) or is_public(address):
        return
    who = f"{name} resolves to {address}, which" if name else f"{address}"
    raise AddressDenied(
        f'{who} is not a public address; to reach it, add "{address}/{address.max_prefixlen}" to [egress] allow'
    )


def check_literal(url: URL, allowed: Allowed) -> None:
    """Raises AddressDenied where a URL's host is an address that may not be reached; what a name resolves to is looked
    at when it is called."""
    try:
        ip_address(url.raw_host or "")
    except ValueError:
        return
    check_address(url.raw_host or "", allowed)


def is_public(address: Address) -> bool:
    """Whether the public internet routes it, by the tables above."""
    address = _unmapped(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in DENIED_V4)
    return address in PUBLIC_V6 and not any(address in network for network in DENIED_V6)


def _unmapped(address: Address) -> Address:
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address
