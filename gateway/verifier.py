"""What a verifier is: the contract of the plugins that check a webhook delivery's signature."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

import msgspec

from gateway.errors import Rejected

C = TypeVar("C", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A delivery as it came: `headers` in order, names in lower case, values decoded as Latin-1 (lossless).

    `url` is the public one (`public_url` + path and query), never made from the Host header.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    _named: dict[str, str] = field(init=False, repr=False, compare=False)
    """The last value of each header."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_named", dict(self.headers))

    def values(self, name: str) -> list[str]:
        """Every value of a header, in order; `name` in lower case."""
        return [value for each, value in self.headers if each == name] if name in self._named else []

    def has(self, name: str) -> bool:
        """Whether a header is there; `name` in lower case."""
        return name in self._named

    def one(self, name: str) -> str:
        """The only value of a header; Rejected if it is missing (`no_signature`) or repeated (`malformed`)."""
        found = self.optional(name)
        if found is None:
            raise Rejected("no_signature")
        return found

    def optional(self, name: str) -> str | None:
        """The only value of a header, None if it is missing; Rejected (`malformed`) if it is repeated."""
        found = self._named.get(name)
        if found is not None and (
            len(found) > 4096 or (len(self._named) < len(self.headers) and len(self.values(name)) > 1)
        ):
            raise Rejected("malformed")
        return found


@dataclass(frozen=True, slots=True)
class HandshakeResponse:
    """A provider's handshake answered: sent as it is, and no job is made."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A verified delivery: `id` is what it is deduplicated by (None: not at all), `event` its type if it says one.

    `body` is what routes see where the verifier had to unwrap it (a form field's JSON); None: the request's own.
    `form` are the fields of a form body, in order. `answer` is sent instead of making jobs: a handshake that had to be
    verified first. `item_fields` (`a.b`) together name an item of an array body, for routes that take them one by one.
    """

    id: str | None
    event: str = ""
    body: bytes | None = None
    form: tuple[tuple[str, str], ...] | None = None
    answer: HandshakeResponse | None = None
    item_fields: tuple[str, ...] = ()


REASONS = ("no_signature", "malformed", "mismatch", "timestamp", "body", "address")
"""The closed set of `Rejected.reason`: metrics count by it."""


class Verifier(ABC, Generic[C]):
    """Checks the deliveries of one trigger; made once per trigger with its validated config.

    `verify` never raises anything but `Rejected`, whatever bytes it gets, and compares in constant time.
    """

    name: ClassVar[str]
    Config: ClassVar[type[msgspec.Struct]]
    body_limit: ClassVar[int | None] = None
    """The most bytes that the provider says it sends; None: it says nothing, and the gateway's own limit holds."""
    content: ClassVar[str] = "json"
    """How routes see a body, unless the trigger or a delivery says it: `json`, `form` or `cloudevents`."""

    def __init__(self, config: C) -> None:
        self.config = config

    @property
    def needs_public_url(self) -> bool:
        """Whether nothing verifies unless `public_url` of the gateway is set: what is signed holds the URL that the
        sender was given, and the trigger does not say which."""
        return False

    @abstractmethod
    def verify(self, request: WebhookRequest, now: float) -> Delivery:
        """The delivery, if its signature is right at `now` (Unix seconds); raises Rejected otherwise."""

    def handshake(self, request: WebhookRequest) -> HandshakeResponse | None:
        """The answer to a provider's handshake, or None if this request is an ordinary delivery."""
        return None

    def sign(self, request: WebhookRequest, now: float, *, event: str = "") -> WebhookRequest | None:
        """The request as the provider would send it at `now`, for a delivery to oneself; None if only the provider can
        sign. What `event` becomes is the provider's way of telling it."""
        return None
