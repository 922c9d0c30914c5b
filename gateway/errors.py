"""The errors of the product, one tree.

GatewayError
├── ConfigError            a wrong key or value in the environment, gateway.toml or a registration
│   ├── SecretMissing      a secret whose variable is not set, or whose file cannot be read
│   └── PluginError        a plugin that cannot be loaded, or offers what cannot be used
├── RequestError           a request that cannot be honoured; `.status` is its HTTP status
│   ├── InvalidRequest     400 or 422, with every fault found
│   ├── NotAllowed         401 or 403: no right API key, or one without the scope
│   ├── NotFound           404: no such job, target, trigger
│   └── WrongState         409: the job is not in a state that allows this
├── StoreError             Redis could not do it
│   ├── StoreUnavailable   away, loading, read-only or failing over: nothing is known to be written
│   ├── StoreShort         written, but not as durably as was asked: to be sent again under the same key
│   ├── StoreFull          out of memory, or the lane is full: nothing was written
│   └── StoreMismatch      the data was laid out by another version, or for another partition count
├── Unavailable            the client: no gateway answers, or it said 503 to the last
├── BadAnswer              the client: what answered is not a gateway, or not one of this version
├── WaitTimeout            the client: a job was not over in time; it goes on
├── AttemptError           what an executor raises to say how an attempt ended
│   ├── Retry              try again, no sooner than `after` seconds
│   └── Fatal              never try again
├── EgressDenied           an outgoing connection to an address that is not allowed
├── HttpError              an outgoing request that got no answer; `.kind` is from a closed set
└── Rejected               a webhook delivery that does not verify; `.reason` is from a closed set
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class GatewayError(Exception):
    """Any error of this product."""


class ConfigError(GatewayError):
    """A configuration that cannot be used; says the place (`gateway.toml: targets.resize.timeout`) and the mend."""

    def __init__(self, place: str, detail: str) -> None:
        super().__init__(f"{place}: {detail}")
        self.place = place
        self.detail = detail


class SecretMissing(ConfigError):
    """A secret that the configuration names, and that this process does not have."""


class PluginError(ConfigError):
    """A plugin that cannot be used; `place` names the plugin."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a request: a JSON pointer (RFC 6901, `""` for the whole body) and what is wrong there."""

    pointer: str
    detail: str


class RequestError(GatewayError):
    """A request that cannot be honoured; the API turns it into an `application/problem+json` answer."""

    status = 400

    def __init__(self, detail: str, *, faults: Sequence[Fault] = (), status: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.faults = tuple(faults)
        if status is not None:
            self.status = status


class InvalidRequest(RequestError):
    """Not JSON, or not of the schema; carries every fault that was found."""

    status = 422


class NotAllowed(RequestError):
    """No right API key, or one that has not the scope."""

    status = 401


class NotFound(RequestError):
    """No job, target or trigger of that name or id."""

    status = 404


class WrongState(RequestError):
    """The job exists, and its state does not allow what was asked."""

    status = 409


class StoreError(GatewayError):
    """Redis could not do what was asked."""

    retry_after_s = 1.0


class StoreUnavailable(StoreError):
    """Redis is away, loading, read-only or failing over; whether a write took effect is not known.

    `refusal` is what it said itself, where it did, in words that anybody may read.
    """

    def __init__(self, detail: str, *, refusal: str = "") -> None:
        super().__init__(detail)
        self.refusal = refusal


class StoreShort(StoreError):
    """What was asked is written, and had not reached the disk or the replicas that were asked for in time."""


class StoreFull(StoreError):
    """Redis is at its memory limit, or the lane at its depth cap: nothing was written."""

    retry_after_s = 5.0


class StoreMismatch(StoreError):
    """The data was laid out by a newer version, or for another number of partitions; or there is no such database."""


class Unavailable(GatewayError):
    """No gateway answered, or it said to the last that it cannot now; whether the request took effect is not known.

    A submit may be repeated: with `idempotency_key`, which it had, it is queued once.
    """

    def __init__(self, detail: str, *, idempotency_key: str | None = None) -> None:
        super().__init__(detail)
        self.idempotency_key = idempotency_key


class BadAnswer(GatewayError):
    """What answered is not a gateway, or not one of this version."""


class WaitTimeout(GatewayError, TimeoutError):
    """A job was not over in time; it goes on, and may be waited for again."""

    def __init__(self, job_id: str, timeout_s: float) -> None:
        super().__init__(f"job {job_id} was not over within {timeout_s:g} s; it goes on")
        self.job_id = job_id


class AttemptError(GatewayError):
    """How an attempt ended, said by its executor; `details` goes into the record's `error` (JSON values only)."""

    def __init__(self, message: str = "", *, type: str | None = None, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.type = type or self.__class__.__name__.lower()
        self.details = details or {}


class Retry(AttemptError):
    """The attempt failed and may be repeated; `after` (seconds) is a floor for the delay, not the delay itself."""

    def __init__(
        self,
        message: str = "",
        *,
        after: float | None = None,
        type: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message, type=type, details=details)
        self.after = after


class Fatal(AttemptError):
    """The attempt failed and no repeat can help: the job is dead at once, whatever attempts were left.

    `gone`: nor can other jobs of the target succeed, so it is disabled, and they wait until it is enabled.
    """

    def __init__(
        self,
        message: str = "",
        *,
        gone: bool = False,
        type: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message, type=type, details=details)
        self.gone = gone


class EgressDenied(GatewayError):
    """An outgoing connection was refused because the address is not globally routable and not allow-listed."""


class HttpError(GatewayError):
    """An outgoing request that got no usable answer; all kinds may be retried.

    `kind` is one of `dns`, `connect`, `tls`, `timeout`, `reset`, `too_large`, `protocol`.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail


class Rejected(GatewayError):
    """A webhook delivery that does not verify; the sender always sees the same 401, metrics see `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
