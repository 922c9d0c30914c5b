"""What a verifier is: the contract of the plugins that check a webhook delivery's signature."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Generic, TypeVar

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
    _pairs: Sequence[tuple[bytes, bytes]] = field(init=False, repr=False, compare=False)
    """The headers as they came, of a request that `arrived`."""
    _named: Mapping[bytes, bytes] | None = field(init=False, repr=False, compare=False)
    """The value of each of them; None where there are only the `headers`, or one is repeated."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pairs", ())
        object.__setattr__(self, "_named", None)

    @staticmethod
    def arrived(
        method: str,
        url: str,
        body: bytes,
        pairs: Sequence[tuple[bytes, bytes]],
        named: Mapping[bytes, bytes],
    ) -> WebhookRequest:
        """One whose headers are decoded when somebody looks at all of them; `named` has the last value of each."""
        request = _new(WebhookRequest)
        _set_method(request, method)
        _set_url(request, url)
        _set_body(request, body)
        _set_pairs(request, pairs)
        _set_named(request, named if len(named) == len(pairs) else None)
        return request

    def __getattr__(self, name: str) -> Any:
        if name != "headers":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        headers = _texts(self._pairs)
        object.__setattr__(self, "headers", headers)
        return headers

    def values(self, name: str) -> list[str]:
        """Every value of a header, in order; `name` in lower case."""
        return [value for each, value in self.headers if each == name] if self.has(name) else []

    def has(self, name: str) -> bool:
        """Whether a header is there; `name` in lower case."""
        if self._named is None:
            return any(each == name for each, _ in self.headers)
        return name.encode("latin-1", "replace") in self._named

    def one(self, name: str) -> str:
        """The only value of a header; Rejected if it is missing (`no_signature`) or repeated (`malformed`)."""
        found = self.optional(name)
        if found is None:
            raise Rejected("no_signature")
        return found

    def optional(self, name: str) -> str | None:
        """The only value of a header, None if it is missing; Rejected (`malformed`) if it is repeated."""
        named = self._named
        if named is None:
            values = [value for each, value in self.headers if each == name]
            if not values:
                return None
            if len(values) > 1 or len(values[0]) > _LONGEST:
                raise Rejected("malformed")
            return values[0]
        found = named.get(name.encode("latin-1", "replace"))
        if found is None:
            return None
        if len(found) > _LONGEST:
            raise Rejected("malformed")
        return found.decode("latin-1")


_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_FRAMING = frozenset({"connection", "content-length", "transfer-encoding"})
_LONGEST = 4096
"""Bytes of a header that a signature, a time or an id may have."""


def _setters(kind: type, *names: str) -> Iterator[Callable[[Any, Any], None]]:
    """What sets the fields of a frozen class in half of the time that its own `__init__` takes: of both such classes
    one is made for each delivery."""
    return (kind.__dict__[name].__set__ for name in names)


_new = object.__new__
_set_method, _set_url, _set_body, _set_pairs, _set_named = _setters(
    WebhookRequest, "method", "url", "body", "_pairs", "_named"
)


def _texts(pairs: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """Headers as Latin-1, which loses nothing; decoded as one text, since no line end can be in any."""
    if not pairs:
        return ()
    flat = b"\n".join(chain.from_iterable(pairs)).decode("latin-1").split("\n")
    return tuple(zip(flat[::2], flat[1::2], strict=True))


@dataclass(frozen=True, slots=True)
class HandshakeResponse:
    """A provider's handshake answered: sent as it is, and no job is made.

    Made of what cannot be sent, it is a ValueError: of a status that ends no exchange, a body that is no bytes, or a
    header that is none, or that is the server's own.
    """

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        if not isinstance(self.status, int) or not 200 <= self.status <= 599:
            raise ValueError(f"a handshake is answered with a status from 200 to 599, not with {self.status!r}")
        if not isinstance(self.body, bytes):
            raise ValueError(f"a handshake's answer is bytes, not {type(self.body).__name__}; encode it")
        for name, value in self.headers:
            if _FIELD_NAME.fullmatch(name) is None or name.lower() in _FRAMING:
                raise ValueError(f"a handshake cannot be answered with the header {name!r}")
            if _FIELD_VALUE.fullmatch(value) is None:
                raise ValueError(f"the value of the header {name!r} cannot be sent")


@dataclass(frozen=True, slots=True, init=False)
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

    def __init__(
        self,
        id: str | None,
        event: str = "",
        body: bytes | None = None,
        form: tuple[tuple[str, str], ...] | None = None,
        answer: HandshakeResponse | None = None,
        item_fields: tuple[str, ...] = (),
    ) -> None:
        _set_id(self, id)
        _set_event(self, event)
        _set_inner(self, body)
        _set_form(self, form)
        _set_answer(self, answer)
        _set_item_fields(self, item_fields)


_set_id, _set_event, _set_inner, _set_form, _set_answer, _set_item_fields = _setters(
    Delivery, "id", "event", "body", "form", "answer", "item_fields"
)

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
