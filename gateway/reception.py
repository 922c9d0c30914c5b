"""How a trigger takes deliveries in, beside who verifies them and where they go."""

from __future__ import annotations

import ipaddress
from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.contents import ContentKind
from gateway.durations import Duration
from gateway.limits import Rate

MAX_BODY = 64 * 1024 * 1024
MAX_SYNC_S = 60.0
BODILESS = (204, 205)
"""What a delivery may be answered with that can have no body, as RFC 9110 has it."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class DeliveryLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many verified deliveries are taken in by each gateway process: `rate`, `burst` of them at once."""

    rate: Rate
    burst: Annotated[int, Meta(ge=1, le=1_000_000)] = 10


class CustomResponse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a delivery that was taken in is answered with, instead of its jobs: 200 without a body, if it says neither.

    With `sync` a content type alone is the result's, and says nothing of the answer where there is none in time.
    """

    status: Annotated[int, Meta(ge=200, le=299)] | None = None
    body: Annotated[str, Meta(max_length=65536)] | None = None
    content_type: str = "text/plain; charset=utf-8"

    def __post_init__(self) -> None:
        if not self.content_type.isascii() or not self.content_type.isprintable():
            raise ValueError("content_type is no media type; write such as text/xml")
        if self.body and self.status in BODILESS:
            raise ValueError(f"status {self.status} has no body; leave body out, or write status = 200")


class KeptDeliveries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many of the last deliveries are kept to be looked at, and whether with their bodies (to be replayed)."""

    keep: Annotated[int, Meta(ge=0, le=10_000)] = 100
    bodies: bool = True


class Reception(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`content` is how bodies are read, `body_limit` their bytes at most. `allow_from` are the networks that may send.

    With `sync` a delivery is answered with the result of its first job, if that is there within `sync_timeout`.
    """

    content: ContentKind | None = None
    body_limit: Annotated[int, Meta(ge=1, le=MAX_BODY)] | None = None
    allow_from: tuple[str, ...] = ()
    limit: DeliveryLimit | None = None
    response: CustomResponse | None = None
    sync: bool = False
    sync_timeout: Duration = Duration(10)
    deliveries: KeptDeliveries = KeptDeliveries()

    def __post_init__(self) -> None:
        try:
            parse_networks(self.allow_from)
        except ValueError as exc:
            raise ValueError(f"allow_from: {exc}") from exc
        if not 0.1 <= self.sync_timeout <= MAX_SYNC_S:
            raise ValueError(f"sync_timeout lies between 100ms and {MAX_SYNC_S:g}s")
        if self.sync and self.response is not None and self.response.status in BODILESS:
            raise ValueError(
                f"response: status {self.response.status} has no body, so that sync cannot answer with the result; "
                "write status = 200, or leave sync out"
            )


def parse_networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """The networks, `192.0.2.0/24` or a single address; ValueError names the one that is none."""
    found = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text, strict=True))
        except ValueError as exc:
            raise ValueError(f"{text!r} is no network: {exc}; write such as 192.0.2.0/24") from exc
    return tuple(found)
