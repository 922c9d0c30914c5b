"""Who may do what: bearer keys by scope, and none needed on a loopback address while no key exists."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from gateway.api.believed import Believed
from gateway.api.headers import Headers
from gateway.api.problems import Refused
from gateway.apikeys import ApiKey, Scope, admin_key, is_right, parse_key
from gateway.jobs import Callback
from gateway.settings import GatewaySettings
from gateway.store import Store
from gateway.store.apikeys import any_key, find_key

T = TypeVar("T")

BELIEVED_S = 5.0

_CHALLENGE = ((b"www-authenticate", b"Bearer"),)
_ANY_KEY = "*"
_FORWARDED = frozenset(
    [b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"cf-connecting-ip"]
)
"""What proxies and tunnels add: a request with one of these is not from this machine."""


class InTime(Protocol):
    """Awaits work for as long as a request still may; StoreUnavailable after it."""

    async def __call__(self, work: Callable[[], Awaitable[T]], /) -> T: ...


@dataclass(frozen=True, slots=True)
class Client:
    """Whoever sent a request: the key's id, `-` where no key was needed; `may_url`: jobs with URLs of their own?
    `may_read`: payloads and results of others' jobs? `callback` is that of its jobs that name none."""

    name: str
    may_url: bool = False
    may_read: bool = False
    callback: Callback | None = field(default=None, repr=False)


ANYONE = Client("-", may_url=True, may_read=True)


class Authoriser:
    """Checks requests against the configured key and those in Redis; what Redis says is believed for 5 s."""

    def __init__(self, settings: GatewaySettings, store: Store) -> None:
        self._own = None if settings.api_key is None else admin_key(settings.api_key.reveal())
        self._keyless = is_loopback(settings.host) and self._own is None
        self._store = store
        self._keys = Believed[ApiKey | None](BELIEVED_S)
        self._existence = Believed[bool](BELIEVED_S)

    async def authorise(self, headers: Headers, needed: Scope, *, in_time: InTime) -> Client:
        """The client, if it may do what needs this scope; `in_time` bounds what is asked of Redis, if anything is.

        Raises Refused (401 without a right key, 403 without the scope), or StoreError where only Redis could tell.
        """
        client = self.known(headers, needed)
        if client is not None:
            return client
        presented = headers.one(b"authorization")
        if presented is None:
            if await in_time(lambda: self._existence.get(_ANY_KEY, lambda: any_key(self._store))):
                raise _no_key()
            _check_local(headers)
            return ANYONE
        key_id, secret = _parts(presented)
        key = await in_time(lambda: self._keys.get(key_id, lambda: find_key(self._store, key_id)))
        return _client(key, secret, needed)

    def known(self, headers: Headers, needed: Scope) -> Client | None:
        """As `authorise`, by what is known here; None if Redis has to be asked."""
        presented = headers.one(b"authorization")
        if presented is None:
            if not self._keyless:
                raise _no_key()
            if self._existence.known(_ANY_KEY) is not False:
                return None
            _check_local(headers)
            return ANYONE
        key_id, secret = _parts(presented)
        own = self._own
        key = own if own is not None and key_id == own.key_id else self._keys.known(key_id)
        return None if key is None else _client(key, secret, needed)

    def forget(self, key_id: str) -> None:
        """Drops what is remembered of a key that this process has just made or deleted."""
        self._keys.forget(key_id)
        self._existence.forget(_ANY_KEY)


def _no_key() -> Refused:
    return Refused(401, "this needs an API key: send Authorization: Bearer gwk_…", headers=_CHALLENGE)


def _wrong_key() -> Refused:
    return Refused(401, "the API key is not right; send Authorization: Bearer gwk_…", headers=_CHALLENGE)


def _parts(header: bytes) -> tuple[str, str]:
    """The id and the secret of a presented key; raises Refused (401)."""
    kind, _, text = header.decode("latin-1").partition(" ")
    parts = parse_key(text.strip()) if kind.lower() == "bearer" else None
    if parts is None:
        raise _wrong_key()
    return parts


def _client(key: ApiKey | None, secret: str, needed: Scope) -> Client:
    """Whose key it is; raises Refused (401, 403)."""
    if not is_right(key, secret) or key is None:
        raise _wrong_key()
    if not key.allows(needed):
        lacks = f"this API key lacks the scope {needed!r}, it has: {', '.join(key.scopes)}"
        raise Refused(403, f"{lacks}; make one by: gateway apikeys create NAME --scope {needed}")
    return Client(key.key_id, may_url=key.allows("url"), may_read=key.allows("read"), callback=key.callback)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_local(headers: Headers) -> None:
    """Keeps web pages and the outside world out while no key exists.

    A browser on this machine can be made to send requests here: a page of another origin shows in `Sec-Fetch-Site`
    or `Origin`, and a name that was rebound to this address in `Host`, since a name without a dot cannot belong to a
    stranger. A tunnel or proxy (which `public_url` is for) shows in `Host` too, or in what it adds to a request.
    """
    site = headers.one(b"sec-fetch-site")
    origin = headers.one(b"origin")
    if site not in (None, b"none", b"same-origin") or (origin is not None and site is None):
        raise Refused(403, "a web page of another origin may not call a gateway without an API key; make one first")
    if not headers.names.isdisjoint(_FORWARDED):
        raise Refused(403, "a request through a proxy or tunnel needs an API key: gateway apikeys create NAME")
    name = _stranger(headers.one(b"host") or b"localhost")
    if name is not None:
        raise Refused(
            403, f"requests to {name[:64]!r}, and not to this machine, need an API key: gateway apikeys create NAME"
        )


@lru_cache(maxsize=64)
def _stranger(host: bytes) -> str | None:
    """The name in a Host header if it may belong to another machine."""
    text = host.decode("latin-1")
    try:
        name = urlsplit(f"//{text}").hostname or ""
    except ValueError:
        return text
    own = ("." not in name and ":" not in name) or name.endswith(".localhost") or is_loopback(name)
    return None if own else name
