"""Do a gateway and the dispatchers of one machine keep out of each other's way?"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.errors import ConfigError
from gateway.settings import GatewaySettings

EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 (what is compared with, not listened on)


def check_ports_apart(own: GatewaySettings, came: Mapping[tuple[str, str], str], *, processes: int = 1) -> None:
    """Raises ConfigError where a dispatcher's port is the gateway's, which whoever starts second would not get; `came`
    says where each setting comes from."""
    port, first = own.port, own.dispatcher_port
    if not first <= port < first + processes or 0 in (port, first) or not _meet(own.host, own.dispatcher_host):
        return
    ports = f"{first}" if processes == 1 else f"{first} to {first + processes - 1}"
    raise ConfigError(
        f"gateway.dispatcher_port ({came['gateway', 'dispatcher_port']})",
        f"{ports} is the gateway's too: gateway.port ({came['gateway', 'port']}) is {port}; give one of them another",
    )


def _meet(host: str, other: str) -> bool:
    return host == other or host in EVERYWHERE or other in EVERYWHERE
