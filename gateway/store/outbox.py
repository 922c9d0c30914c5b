"""The outbox: jobs that one partition's scripts made for another one, handed over by whoever comes first.

Written in the same step as what caused them (the other routes of a delivery, the callback of a job that ended), they
cannot be lost; handed over under the id that they have had since then, they are made once, however often that is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import structlog

from gateway.errors import NotFound, StoreError
from gateway.keys import partition_of
from gateway.store.scripts import Arg
from gateway.store.store import Store

log = structlog.get_logger(__name__)

HIDDEN_MS = 2000
"""How long one that could not be handed over waits for the next try."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A submit that waits in an outbox: how long ago it was made, and what it says (lua/submit.lua, MessagePack)."""

    job_id: str
    lag_ms: int
    submit: bytes


async def take_posted(store: Store, partition: int, *, done: Sequence[str], most: int) -> tuple[list[Posted], bool]:
    """Confirms what was handed over, and gives up to `most` that are to be, hidden from others for a while, and whether
    there are more. Raises StoreError."""
    args: list[Arg] = [most, HIDDEN_MS, msgspec.msgpack.encode([[job_id] for job_id in done])]
    more, *flat = await store.run("outbox", store.keyspaces[partition], args)
    posted = [Posted(flat[i].decode(), flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)]
    return posted, bool(more)


async def forward(store: Store, posted: Sequence[Posted]) -> list[str]:
    """Hands submits over to the partitions that they are for: the ids of those that are there now.

    One partition that cannot take its own in keeps no other from it.
    """
    groups: dict[int, list[Posted]] = {}
    arrived: list[str] = []
    for each in posted:
        try:
            groups.setdefault(partition_of(each.job_id, store.partitions), []).append(each)
        except NotFound:
            log.error("a job of the outbox belongs to no partition", job_id=each.job_id)
    for partition, group in groups.items():
        args: list[Arg] = [value for each in group for value in (each.lag_ms, each.submit)]
        try:
            await store.run("forward", store.keyspaces[partition], args)
        except StoreError as error:
            log.warning("jobs wait in the outbox", partition=partition, jobs=len(group), error=str(error))
            continue
        arrived += [each.job_id for each in group]
    return arrived
