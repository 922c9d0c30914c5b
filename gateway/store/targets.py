"""Targets as the store sees them: what waits and runs, what stops them, and pausing them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from gateway.keys import Keyspace
from gateway.store.asking import each_of
from gateway.store.refusals import answered
from gateway.store.store import Store


@dataclass(frozen=True, slots=True)
class TargetState:
    """A target over all partitions: `pending` by lane, where there are any; `running` None without flows, since nobody
    counts then; `blocked` why no job may start (disabled, paused, breaker, concurrency, quota, rate), empty if one may;
    `disabled_ms` since when its breaker is open or it is gone (Unix ms, 0: it is not)."""

    running: int | None
    paused: bool
    blocked: str
    pending: dict[str, int]
    disabled_ms: int = 0


async def inspect_targets(store: Store, targets: Sequence[str]) -> dict[str, TargetState]:
    """The state of each target; raises StoreError."""
    replies = [msgspec.msgpack.decode(reply) for reply in await store.everywhere("targets", list(targets))]
    return {target: _merge([reply[at] for reply in replies]) for at, target in enumerate(targets)}


async def pause_target(store: Store, target: str, *, paused: bool) -> None:
    """Stops a target's jobs from starting, or lets them go on; what runs goes on running. A target without flows gets
    them, for good. Raises StoreError; to be repeated then.

    In every partition, since jobs without limits lie anywhere.
    """
    await store.everywhere("flow_control", [target, "paused", int(paused)])


async def enable_target(store: Store, target: str) -> None:
    """Lets a target's jobs go on that is paused or disabled, and closes its breaker. Raises StoreError."""
    await store.everywhere("flow_control", [target, "paused", 0, "open_until", 0])


async def registered_limits(store: Store, target: str) -> list[dict[str, int]]:
    """What is registered of the limits of a target with flows (`gateway.limits.flow_fields`), by each partition that
    counts them; what else is kept there is left out, and what is not there too. Raises StoreError."""
    spaces = [store.keyspaces[partition] for partition in store.limit_partitions(target)]
    return await each_of(spaces, lambda space: _limits(store, space, target))


async def _limits(store: Store, space: Keyspace, target: str) -> dict[str, int]:
    found: dict[bytes, bytes] = {}
    for key in (space.target_limits(target), space.target_breaker(target)):
        found |= await answered(cast("Any", store.client.hgetall(key)))
    return {name.decode(): int(value) for name, value in found.items() if value.isdigit()}


def _merge(parts: Sequence[tuple[bool, int, bool, str, dict[str, int], int]]) -> TargetState:
    pending: dict[str, int] = {}
    for *_, waiting, _ in parts:
        for lane, count in dict(waiting).items():
            pending[lane] = pending.get(lane, 0) + count
    return TargetState(
        running=sum(part[1] for part in parts) if any(part[0] for part in parts) else None,
        paused=any(part[2] for part in parts),
        blocked=next((part[3] for part in parts if part[3]), ""),
        pending=pending,
        disabled_ms=min((part[5] for part in parts if part[5]), default=0),
    )
