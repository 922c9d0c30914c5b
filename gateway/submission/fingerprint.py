"""Idempotency: what a key is stored under, and what tells a repeat from another job under the same key."""

from __future__ import annotations

import hashlib

import msgspec

from gateway.jobs import NULL, Idempotency
from gateway.keys import idempotency_hash
from gateway.submission.body import SubmitBody

_encoder = msgspec.json.Encoder(enc_hook=float)


def idempotency(body: SubmitBody, key: str, scope: str, *, window_ms: int) -> Idempotency:
    """The idempotency of a job whose body has its older names folded."""
    return Idempotency(idempotency_hash(scope, body.target or "", key), fingerprint(body), window_ms)


def fingerprint(body: SubmitBody) -> str:
    """128 bits over the fields as they were given and the payload's bytes; what was left out does not count, so that
    neither a changed default nor a new field of a later version makes a repeat look like another job."""
    fields = _encoder.encode(msgspec.structs.replace(body, payload=NULL))
    return hashlib.sha256(fields + b"\n" + bytes(body.payload)).hexdigest()[:32]
