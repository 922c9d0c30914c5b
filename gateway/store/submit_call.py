"""A submit as the script takes it, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from gateway.jobs import Callback, Idempotency, Submission, Submitted, Verdict, pack_body, pack_long_body
from gateway.store.scripts import Arg

LONG_BYTES = 1024
"""Of a payload that is an argument of its own: one more costs less than the copies that are spared."""

_reply_decoder = msgspec.msgpack.Decoder(list[tuple[int, Verdict, str, str]])
_NOT_IDEMPOTENT = Idempotency("", "", 0)
_EVENT_CODES = {"job.succeeded": "s", "job.dead": "d", "job.cancelled": "c", "job.retrying": "r"}


def event_codes(callback: Callback | None) -> str:
    """The events that a callback is wanted for, and its attempts where it says them, as the scripts know them."""
    if callback is None:
        return ""
    most = "" if callback.retry is None else str(callback.retry.max_attempts or "")
    return "".join(_EVENT_CODES[event] for event in callback.events) + most


def submit_args(
    jobs: Sequence[Submission], place_of: Callable[[Callback], str] = lambda callback: "", *, durable: bool = False
) -> list[Arg]:
    """The jobs as the submit script takes them (lua/submit.lua): the values of each, the terms that they share, and
    long bodies as arguments of their own.

    `durable` ones go out by the library, which takes an argument in one piece.

    `place_of` says where the callback of a job belongs: `@<partition in hex>:<key>`, or nothing.
    """
    terms: dict[tuple[str | int, ...], int] = {}
    values: list[str | int] = []
    args: list[Arg] = [b"", b"", "durable" if durable else ""]
    for job in jobs:
        idem, callback = job.idempotency or _NOT_IDEMPOTENT, job.options.callback
        told = "" if callback is None else event_codes(callback) + place_of(callback)
        own = (job.lane, job.target, job.priority, job.delay_ms, job.expires_ms, job.max_attempts, told, idem.window_ms)
        number = terms.setdefault(own, len(terms) + 1)
        body: str | int
        if len(job.payload) < LONG_BYTES:
            body = pack_body(job.options, job.payload)
        else:
            long = pack_long_body(job.options, job.payload)
            args.append(b"".join(long) if durable else long)
            body = len(args)
        values += (job.job_id, job.key, idem.key_hash, idem.fingerprint, body, number)
    args[0] = msgspec.msgpack.encode(values)
    args[1] = msgspec.msgpack.encode([value for own in terms for value in own])
    return args


def read_submitted(jobs: Sequence[Submission], reply: bytes) -> list[Submitted]:
    """What became of each job, in order: the script tells only of those that were not simply taken in."""
    results = [Submitted("accepted", job.job_id, "scheduled" if job.delay_ms else "pending") for job in jobs]
    for number, verdict, job_id, status in _reply_decoder.decode(reply):
        results[number - 1] = Submitted(verdict, job_id, status)
    return results
