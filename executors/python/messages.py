"""What a dispatcher and its worker processes say to each other."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from gateway import Job


class Begin(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """To a worker, first: the function that it is for, and the modules whose lifespans it enters as well."""

    place: str
    modules: tuple[str, ...]


class Call(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """To a worker: one attempt."""

    job: Job
    payload: bytes
    number: int
    remaining_s: float


class Ready(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a worker: it can be called."""


class Failed(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a worker: it never can; it ends."""

    message: str


class Returned(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a worker: the result as JSON, empty for None; `left` if the call left a process behind."""

    result: str
    left: bool


class Raised(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a worker: how the call failed; `details` is JSON."""

    kind: Literal["retry", "fatal"]
    type: str
    message: str
    details: str
    after: float | None
    left: bool


class Progress(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a worker: a value, as JSON, to show in the job's record."""

    value: str


class Beat(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a worker: a sign of life."""


class Logged(msgspec.Struct, frozen=True, tag=True, tag_field="is"):
    """From a worker: a line for the dispatcher's log; `fields` is JSON."""

    level: str
    event: str
    fields: str


ToWorker = Begin | Call
FromWorker = Ready | Failed | Returned | Raised | Progress | Beat | Logged

_to_worker: msgspec.msgpack.Decoder[ToWorker] = msgspec.msgpack.Decoder(ToWorker)
_from_worker: msgspec.msgpack.Decoder[FromWorker] = msgspec.msgpack.Decoder(FromWorker)


def encode(message: Any) -> bytes:
    return msgspec.msgpack.encode(message)


def to_worker(data: bytes) -> ToWorker:
    return _to_worker.decode(data)


def from_worker(data: bytes) -> FromWorker:
    return _from_worker.decode(data)
