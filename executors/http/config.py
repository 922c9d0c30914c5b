"""The part of a target that says where and how it is called."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from gateway import ConfigFile, Duration, FieldFault, Secret, check_headers, check_url, signing

from .auth import Auth
from .statuses import DEFAULT_RETRY, DEFAULT_SUCCESS, parse_statuses
from .tls import check_ca

T = TypeVar("T")

Method = Literal["POST", "PUT", "PATCH", "DELETE", "GET"]
BodyMode = Literal["raw", "envelope", "cloudevents-structured", "cloudevents-binary"]
JobMay = Literal["headers", "method", "path", "query"]

SECRET_BYTES = range(24, 65)
"""What Standard Webhooks wants of a secret."""

MAX_PREVIOUS = 8
CONNECT_TIMEOUT_S = (0.05, 60.0)
LONG_WORK_S = (1.0, 30 * 86400.0)
MAX_ATTRIBUTE = 256


class PreviousSecret(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An older secret that signs as well, until receivers have changed over: at `until`, or with the next change."""

    secret: Secret
    until: Annotated[datetime, Meta(tz=True)] | None = None


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where and how a target is called.

    With `secret` (`whsec_…`) requests are signed `v1`, by `previous_secrets` too; without, `v1a` by the
    installation's key, if it has one. `GET` sends no body. `job_may` names what a job may set of its request.
    """

    url: str
    method: Method = "POST"
    headers: dict[str, str] = {}
    body: BodyMode = "raw"
    event_type: str = "gateway.job"
    event_source: str | None = None
    secret: Secret | None = None
    previous_secrets: tuple[PreviousSecret, ...] = ()
    auth: Auth | None = None
    success_statuses: tuple[int | str, ...] = DEFAULT_SUCCESS
    retry_statuses: tuple[int | str, ...] = DEFAULT_RETRY
    fatal_statuses: tuple[int | str, ...] = ()
    connect_timeout: Duration = Duration(5.0)
    long_work: Duration = Duration(3600.0)
    ca: Secret | None = None
    client_cert: ConfigFile | None = None
    client_key: ConfigFile | None = None
    job_may: tuple[JobMay, ...] = ()

    def __post_init__(self) -> None:
        _check("headers", lambda: check_headers(self.headers))
        self._check_body()
        self._check_secrets()
        self._check_auth()
        self._check_statuses()
        _between("connect_timeout", self.connect_timeout, CONNECT_TIMEOUT_S)
        _between("long_work", self.long_work, LONG_WORK_S)
        if self.client_key is not None and self.client_cert is None:
            raise FieldFault("client_key", "goes with client_cert; give both, or the certificate's file with its key")
        if self.ca is not None:
            pem = self.ca.reveal()
            _check("ca", lambda: check_ca(pem))
        # last: a registration looks for further faults without the field that was wrong, and cannot without this one
        _check("url", lambda: check_url(self.url))

    def _check_body(self) -> None:
        if self.method == "GET" and self.body != "raw":
            raise FieldFault("body", "GET sends no body; leave this out, or use another method")
        for field, text in (("event_type", self.event_type), ("event_source", self.event_source)):
            visible = text is None or (0 < len(text) <= MAX_ATTRIBUTE and all("!" <= letter <= "~" for letter in text))
            if not visible:
                raise FieldFault(field, f"must be 1 to {MAX_ATTRIBUTE} visible ASCII characters, without spaces")
        if self.body == "cloudevents-binary":
            for name in self.headers:
                if name.lower().startswith("ce-"):
                    raise FieldFault("headers", f'header {name!r} is set by body = "cloudevents-binary"')

    def _check_secrets(self) -> None:
        if self.secret is not None:
            _check_secret("secret", self.secret)
        elif self.previous_secrets:
            raise FieldFault("previous_secrets", "goes with secret, the one that receivers change over to")
        if len(self.previous_secrets) > MAX_PREVIOUS:
            raise FieldFault("previous_secrets", f"takes at most {MAX_PREVIOUS}")
        for at, previous in enumerate(self.previous_secrets):
            _check_secret(f"previous_secrets[{at}].secret", previous.secret)

    def _check_auth(self) -> None:
        if self.auth is not None and self.auth.header_name in {name.lower() for name in self.headers}:
            raise FieldFault("headers", f"header {self.auth.header_name!r} is set by auth; leave out one of them")

    def _check_statuses(self) -> None:
        seen: dict[int, str] = {}
        given = (("fatal_statuses", self.fatal_statuses), ("success_statuses", self.success_statuses))
        for field, entries in given:
            statuses = _check(field, lambda entries=entries: parse_statuses(entries))  # type: ignore[misc]
            for status in sorted(statuses):
                if status in seen:
                    raise FieldFault(field, f"the status {status} is in {seen[status]} already")
                seen[status] = field
        _check("retry_statuses", lambda: parse_statuses(self.retry_statuses))
        if not self.success_statuses:
            raise FieldFault("success_statuses", "is empty: no attempt could succeed")

    def live_secrets(self, now_s: float) -> tuple[Secret, ...]:
        """The secrets to sign with at a Unix time, the present one first."""
        if self.secret is None:
            return ()
        older = (each.secret for each in self.previous_secrets if each.until is None or each.until.timestamp() > now_s)
        return (self.secret, *older)


def _check(field: str, check: Callable[[], T]) -> T:
    try:
        return check()
    except ValueError as exc:
        raise FieldFault(field, str(exc)) from exc


def _check_secret(field: str, secret: Secret) -> None:
    size = len(_check(field, lambda: signing.parse_secret(secret)))
    if size not in SECRET_BYTES:
        raise FieldFault(field, f'is a secret of {size} bytes; write "whsec_" and the base64 of 24 to 64 random bytes')


def _between(field: str, value: Duration, bounds: tuple[float, float]) -> None:
    if not bounds[0] <= value <= bounds[1]:
        raise FieldFault(field, f"must lie between {bounds[0]:g} and {bounds[1]:g} seconds")
