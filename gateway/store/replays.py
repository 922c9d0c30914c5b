"""Bulk replays: dead jobs that fit a filter go back to their lanes, at a rate; carried on by dispatchers, step by step.

All of it is in Redis: what is asked for in the control partition, how far it is in each. Partitions take turns, the
next one when the one before is done, so that limit and rate hold for the whole of it.
"""

from __future__ import annotations

import math
import re
import secrets
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import msgspec

from gateway.errors import NotFound, WrongState
from gateway.keys import Keyspace
from gateway.limits import Rate
from gateway.store.asking import each_of
from gateway.store.refusals import answered
from gateway.store.scripts import Arg
from gateway.store.store import Store

State = Literal["running", "done", "stopped"]

MOST = 16
"""Bulk replays under way at once."""

WINDOW = 200
"""Dead jobs that one step looks at: a fraction of a millisecond of the server."""

_BURST_S = 0.1
_NO_LIMIT = 2**52
_ID = re.compile(r"[0-9a-f]{16}\Z", re.ASCII)


class ReplayOrder(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a bulk replay is for, and how fast it goes; empty and None: any. Times in Unix ms, both included."""

    rate: str
    target: str = ""
    reason: str = ""
    dead_after_ms: int | None = None
    dead_before_ms: int | None = None
    limit: int | None = None
    max_attempts: int | None = None


@dataclass(frozen=True, slots=True)
class Replay:
    """A bulk replay and how far it is: dead jobs that `matched` so far, of them `replayed`, and `skipped` since they
    were dead no longer."""

    replay_id: str
    state: State
    order: ReplayOrder
    began_ms: int
    updated_ms: int
    matched: int
    replayed: int
    skipped: int


@dataclass(slots=True)
class ReplaySteps:
    """What one process remembers of the replays under way, so that it need not ask what is done: per replay the
    partition that is at it, and what those before sent back."""

    at: dict[str, tuple[int, int]] = field(default_factory=dict)
    orders: dict[str, ReplayOrder] = field(default_factory=dict)

    def keep(self, replay_ids: list[str]) -> None:
        """Forgets the others."""
        self.at = {each: self.at.get(each, (0, 0)) for each in replay_ids}
        self.orders = {each: order for each, order in self.orders.items() if each in self.at}


async def start_replay(store: Store, order: ReplayOrder) -> str:
    """Writes a bulk replay down: its id. Raises WrongState where `MOST` are under way, or StoreError."""
    replay_id = secrets.token_hex(8)
    args: list[Arg] = [replay_id, msgspec.json.encode(order), MOST]
    if await store.run("replay_start", store.control, args) == 0:
        raise WrongState(f"{MOST} replays are under way already; wait for one of them, or stop one")
    return replay_id


async def find_replay(store: Store, replay_id: str) -> Replay:
    """How far a bulk replay is; raises NotFound."""
    if _ID.match(replay_id) is None:
        raise NotFound(f"no replay with the id {replay_id[:64]!r}")
    facts = await each_of(store.keyspaces, lambda keyspace: _facts(store, keyspace, replay_id))
    if "order" not in facts[0]:
        raise NotFound(f"no replay with the id {replay_id!r}")

    def total(name: str) -> int:
        return sum(int(each.get(name, 0)) for each in facts)

    return Replay(
        replay_id,
        cast("State", facts[0].get("over", "running")),
        msgspec.json.decode(facts[0]["order"], type=ReplayOrder),
        began_ms=int(facts[0]["began"]),
        updated_ms=max(int(each.get("updated", 0)) for each in facts),
        matched=total("matched"),
        replayed=total("replayed"),
        skipped=total("skipped"),
    )


async def stop_replay(store: Store, replay_id: str) -> Replay:
    """Ends a bulk replay: once this returns it sends nothing more back.

    Raises NotFound, WrongState if it is done, or StoreError; then it may be going on, and this is to be repeated.
    """
    found = await find_replay(store, replay_id)
    if found.state != "done":
        await store.everywhere("replay_end", [replay_id, "stopped"])
        found = await find_replay(store, replay_id)
    if found.state == "done":
        raise WrongState(f"the replay {replay_id} is done already")
    return found


async def step_replays(store: Store, steps: ReplaySteps) -> float | None:
    """Carries every replay that is under way a little further: seconds until it pays to come again, None if there is
    none. Any number of processes may do so at once. Raises StoreError."""
    control = store.control
    ids = [each.decode() for each in await answered(cast("Any", store.client.zrange(control.replays, 0, MOST - 1)))]
    steps.keep(ids)
    waits = [await _step(store, steps, replay_id) for replay_id in ids]
    return min(waits, default=None)


async def _step(store: Store, steps: ReplaySteps, replay_id: str) -> float:
    if replay_id not in steps.orders:
        text = (await _facts(store, store.control, replay_id)).get("order")
        if text is None:  # ended since
            return 0.0
        steps.orders[replay_id] = msgspec.json.decode(text, type=ReplayOrder)
    order, (partition, before) = steps.orders[replay_id], steps.at[replay_id]
    while partition < store.partitions:
        args = _step_args(replay_id, order, before)
        state, _, replayed, _, wait_us = await store.run("replay_some", store.keyspaces[partition], args)
        if state == b"running":
            steps.at[replay_id] = partition, before
            return int(wait_us) / 1e6
        if state == b"stopped":  # the others are about to be, too
            return 0.0
        partition, before = partition + 1, before + int(replayed)
    await store.run("replay_end", store.control, [replay_id, "done"])
    return 0.0


def _step_args(replay_id: str, order: ReplayOrder, before: int) -> list[Arg]:
    """The arguments of lua/replay_some.lua, `before` jobs having been sent back by other partitions."""
    rate = Rate(order.rate)
    per_s = rate.number / rate.per_s
    since, till = order.dead_after_ms, order.dead_before_ms
    return [
        replay_id,
        order.target,
        order.reason,
        0 if since is None else since,
        _NO_LIMIT if till is None else till,
        _NO_LIMIT if order.limit is None else max(0, order.limit - before),
        max(1, round(1e6 / per_s)),
        max(1, math.ceil(per_s * _BURST_S)),
        order.max_attempts or 0,
        WINDOW,
    ]


async def _facts(store: Store, keyspace: Keyspace, replay_id: str) -> dict[str, str]:
    found = await answered(cast("Any", store.client.hgetall(keyspace.replay(replay_id))))
    return {name.decode(): value.decode() for name, value in found.items()}
