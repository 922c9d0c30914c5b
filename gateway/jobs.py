"""Jobs as values: what is submitted, what a dispatcher claims, what a record shows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import msgspec

from gateway.backoff import RetryOverride, RetryPolicy

LANES = ("critical", "default", "low")
BUILT_IN = "gateway."
"""What the names of built-in targets begin with; no configured target may."""

CALLBACK_TARGET = f"{BUILT_IN}callback"
"""The built-in target that delivers callbacks."""

URL_TARGET = f"{BUILT_IN}url"
"""The built-in target of jobs that name a URL instead of a target."""


class Status(StrEnum):
    """Where a job stands (docs: the state machine)."""

    SCHEDULED = "scheduled"
    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def finished(self) -> bool:
        return self in (Status.SUCCEEDED, Status.DEAD, Status.CANCELLED)


class Reason(StrEnum):
    """Why a job is dead."""

    EXHAUSTED = "exhausted"
    FATAL = "fatal"
    EXPIRED = "expired"
    STALLED = "stalled"
    NO_TARGET = "no_target"


GONE = "gone"

CallbackEvent = Literal["job.succeeded", "job.dead", "job.cancelled", "job.retrying"]


ENDINGS: tuple[CallbackEvent, ...] = ("job.succeeded", "job.dead", "job.cancelled")
"""What a callback tells of that does not say it."""

NULL = msgspec.Raw(b"null")
"""A payload, or a result, of which nothing was said."""


class Callback(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where and of what a client wants to be told; no `secret` means an Ed25519 (`v1a`) signature, no `retry` the
    policy of all callbacks."""

    url: str
    events: tuple[CallbackEvent, ...] = ENDINGS
    secret: str | None = None
    retry: RetryOverride | None = None


class JobRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a job sets of the request that its target makes of it; `url` only where the target is `gateway.url`."""

    headers: dict[str, str] = {}
    method: str | None = None
    path: str | None = None
    query: dict[str, str] = {}
    url: str | None = None


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a callback job tells of: written by the script that ended the first job, rendered at each attempt."""

    job_id: str
    target: str
    status: str
    attempts: int
    at_ms: int
    reason: str = ""
    error: msgspec.Raw = msgspec.Raw()
    delay_ms: int | None = None


class Options(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a job that only Python reads; stored as one JSON line before the payload's bytes."""

    timeout: float | None = None
    retry: RetryPolicy | None = None
    callback: Callback | None = None
    tags: tuple[str, ...] = ()
    traceparent: str = ""
    cause: Cause | None = None
    parent: Options | None = None
    request: JobRequest | None = None


class Idempotency(msgspec.Struct, frozen=True):
    """A repeat with the same `key_hash` is the first job again, if `fingerprint` agrees, for `window_ms`."""

    key_hash: str
    fingerprint: str
    window_ms: int


NO_OPTIONS = Options()


class Submission(msgspec.Struct, frozen=True):
    """A job on its way in: parsed, checked, its id made; durations count from the server's clock."""

    job_id: str
    target: str
    payload: bytes
    lane: str = "default"
    priority: int = 0
    key: str = ""
    delay_ms: int = 0
    expires_ms: int = 0
    max_attempts: int = 5
    idempotency: Idempotency | None = None
    options: Options = NO_OPTIONS


Verdict = Literal["accepted", "duplicate", "conflict", "full"]


class Submitted(msgspec.Struct, frozen=True, array_like=True):
    """What became of a submission: `job_id` and `status` are the first job's where it was a duplicate.

    `status` is `gone` where the key is remembered and the record is not.
    """

    verdict: Verdict
    job_id: str
    status: str


class Claimed(msgspec.Struct, gc=False):
    """A job that this process holds under a lease, until it settles with `token` or the lease is lost.

    `waited_ms` is how long it was ready before it was claimed; `body` as `pack_body` made it; `token` (`attempt:nonce`)
    is the fencing token; `traced` once its attempt has a span.
    """

    job_id: str
    attempt: int
    max_attempts: int
    target: str
    lane: str
    key: str
    previous_delay_ms: int
    created_ms: int
    waited_ms: int
    suspect: bool
    body: bytes
    token: str
    partition: int = 0
    traced: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """All that is known of a job. Times are Unix milliseconds, None where absent; `payload`, `result`, `error` and
    `progress` are JSON texts (empty: absent) to be handed on verbatim; `attempts` counts those started; `waiting_on` is
    the limit that holds a pending job back (empty: none does)."""

    job_id: str
    target: str
    status: Status
    lane: str
    priority: int
    key: str
    attempts: int
    max_attempts: int
    stalls: int
    created_ms: int
    updated_ms: int
    run_at_ms: int | None
    started_ms: int | None
    finished_ms: int | None
    next_attempt_ms: int | None
    cancel_asked: bool
    reason: str
    dispatcher: str
    payload: bytes
    result: bytes
    error: bytes
    progress: bytes
    options: Options
    callback_job_id: str
    callback_status: str
    waiting_on: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing; `next_cursor` is opaque, None at the end."""

    records: tuple[Record, ...]
    next_cursor: str | None


Outcome = Literal["succeeded", "retry", "dead", "released", "cancelled", "parked"]


class Settlement(msgspec.Struct, frozen=True, array_like=True):
    """An attempt's outcome on its way back, in the script's order; `result` and `error` are JSON, '' for none.

    The reason `gone` is `fatal`, and disables the target. `parked`: the work goes on elsewhere for `delay_ms`, and
    `reason` is the delay of a retry, in ms, should it not come to an end. The reason of a `retry` is empty, or for how
    long, in ms, a job whose target nobody knows is given back with its attempt unspent, before it is `no_target`.
    """

    job_id: str
    token: str
    outcome: Outcome
    delay_ms: int = 0
    reason: str = ""
    result: str = ""
    error: str = ""

    @property
    def attempt(self) -> int:
        """The attempt's number, from 1."""
        return int(self.token.partition(":")[0])

    @property
    def shown_reason(self) -> str:
        """The reason as records have it."""
        if self.outcome == "retry" and self.reason:
            return Reason.NO_TARGET
        return Reason.FATAL if self.reason == GONE else self.reason


_options_decoder = msgspec.json.Decoder(Options, dec_hook=lambda kind, value: kind(value))
_options_encoder = msgspec.json.Encoder(enc_hook=float)


def pack_body(options: Options, payload: bytes) -> str:
    """The stored form: the options as one JSON line (empty for none), then the payload verbatim.

    Raises UnicodeDecodeError if the payload is not UTF-8, which JSON always is.
    """
    if options is NO_OPTIONS or options == NO_OPTIONS:
        return "\n" + payload.decode()
    return f"{_options_encoder.encode(options).decode()}\n{payload.decode()}"


def pack_long_body(options: Options, payload: bytes) -> tuple[bytes, bytes]:
    """The same in two pieces, so that the payload is not copied."""
    if not payload.isascii():
        payload.decode()
    line = b"" if options is NO_OPTIONS or options == NO_OPTIONS else _options_encoder.encode(options)
    return line + b"\n", payload


def unpack_body(body: bytes) -> tuple[Options, bytes]:
    """The options and the payload's bytes, as they were packed."""
    line, _, payload = body.partition(b"\n")
    return _options_decoder.decode(line) if line else NO_OPTIONS, payload
