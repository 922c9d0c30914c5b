"""Renewing leases and the dispatcher's heartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from gateway.store.client import Client
from gateway.store.scripts import Arg, run

CHUNK = 500
"""Leases in one script call: extending 25,000 at once would block the server for tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """What a renewal found, as (job id, token): what is no longer ours, and what is asked to be cancelled."""

    lost: tuple[tuple[str, str], ...]
    cancel_asked: tuple[tuple[str, str], ...]


async def extend(
    client: Client,
    prefix: str,
    dispatcher_id: str,
    held: Sequence[tuple[str, str]],
    *,
    lease_ms: int,
    heartbeat_ms: int,
) -> Renewed:
    """Renews the leases of `held` (job id, token) and the dispatcher's heartbeat; raises StoreError."""
    lost: list[tuple[str, str]] = []
    cancel_asked: list[tuple[str, str]] = []
    for first in range(0, max(1, len(held)), CHUNK):
        chunk = held[first : first + CHUNK]
        args: list[Arg] = [dispatcher_id, lease_ms, heartbeat_ms, msgspec.msgpack.encode(chunk)]
        verdicts: list[int] = await run(client, "extend", prefix, args)
        for it, verdict in zip(chunk, verdicts, strict=True):
            if verdict == 0:
                lost.append(it)
            elif verdict == 2:
                cancel_asked.append(it)
    return Renewed(tuple(lost), tuple(cancel_asked))
