"""Batches: a JSON array or NDJSON, cut into the bytes of each job."""

from __future__ import annotations

import msgspec

from gateway.errors import Fault, InvalidRequest
from gateway.submission.decoding import decode_json

MAX_BATCH = 1000


def split_array(text: bytes) -> list[bytes]:
    """The items of a JSON array; InvalidRequest if it is none, or has more than `MAX_BATCH`."""
    items: list[msgspec.Raw] = decode_json(text, list[msgspec.Raw])
    _check_count(len(items))
    return [bytes(item) for item in items]


def split_lines(text: bytes) -> list[bytes]:
    """The lines of NDJSON, empty ones left out; InvalidRequest if there are more than `MAX_BATCH`."""
    lines = [line for line in text.split(b"\n") if line.strip()]
    _check_count(len(lines))
    return lines


def _check_count(count: int) -> None:
    if count > MAX_BATCH:
        detail = f"{count} jobs in one batch; at most {MAX_BATCH} are allowed: send several batches"
        raise InvalidRequest(detail, faults=[Fault("", detail)])
