"""Where a request comes from, as far as it can be believed."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache

from starlette.types import Scope

from gateway.reception import Network, parse_networks

_PLACE = re.compile(r"\[([0-9a-f:.]+)\](?::[0-9]{1,5})?|([0-9.]+):[0-9]{1,5}", re.ASCII | re.IGNORECASE)


def sender_of(scope: Scope, trusted: tuple[str, ...]) -> str:
    """The address that sent it: the peer's, or, where that is a trusted proxy, the last one in `X-Forwarded-For` that
    is not. Empty if there is none, as on a unix socket without a proxy."""
    client = scope.get("client")
    address = str(client[0]) if client else ""
    if not trusted or (address and not is_within(address, trusted)):
        return address
    named = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
    for text in reversed(b",".join(named).decode("latin-1").split(",")):
        text = _without_port(text.strip())
        if not _is_address(text):
            break
        address = text
        if not is_within(text, trusted):
            break
    return address


def is_within(address: str, networks: tuple[str, ...]) -> bool:
    """Whether an address lies in one of the networks; an IPv4 address that is written as IPv6 is the IPv4 one."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in network for network in _parsed(networks) if network.version == found.version)


@lru_cache(maxsize=1024)
def _parsed(networks: tuple[str, ...]) -> Sequence[Network]:
    return parse_networks(networks)


def _without_port(text: str) -> str:
    """The address of a place, as some proxies write it: `192.0.2.7:5123`, `[2001:db8::1]:5123`."""
    found = _PLACE.fullmatch(text)
    return text if found is None else found[1] or found[2]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
