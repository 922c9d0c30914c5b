"""What a submission is read against: the names it may use, and who sends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from gateway.backoff import RetryPolicy
from gateway.egress.addresses import EVERYWHERE, Allowed
from gateway.jobs import Callback, JobRequest


class TargetFacts(Protocol):
    """What a submission takes from its target."""

    @property
    def lane(self) -> str | None: ...

    @property
    def retry(self) -> RetryPolicy: ...

    @property
    def ordered(self) -> bool: ...

    @property
    def callback(self) -> Callback | None:
        """That of its jobs that name none. Raises RequestError where it cannot be known."""

    def check_request(self, request: JobRequest) -> None:
        """Raises ValueError (FieldFault: with the field) unless its jobs may set this."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """What a body may name, and what it does not say: targets, lanes, the window of idempotency keys, new ids.

    `new_id(now_ms, target=…, key=…, idempotency_key=…)` is `Store.new_id`; `url_target` is what jobs with a bare URL
    are of, None where there may be none; `allowed` what call-outs may reach beside the public internet.
    """

    targets: Mapping[str, TargetFacts]
    lanes: tuple[str, ...]
    default_lane: str
    window_ms: int
    new_id: Callable[..., str]
    url_target: TargetFacts | None = None
    allowed: Allowed = EVERYWHERE

    def lane_of(self, target: TargetFacts) -> str:
        """The lane of a job that names none."""
        return target.lane or self.default_lane


class Caller(msgspec.Struct, frozen=True):
    """What a request says beside its body; `name` (the API key's id) is the scope of its idempotency keys.

    `traceparent` is passed on if it is one (W3C Trace Context, version 00), and dropped silently if not. `may_url`: may
    its jobs name a URL instead of a target? `callback` is that of jobs that name none, before their target's.
    """

    name: str = "-"
    idempotency_key: str | None = None
    traceparent: str = ""
    may_url: bool = False
    callback: Callback | None = None

    def __repr__(self) -> str:
        return f"Caller({self.name!r})"  # the callback has a secret
