"""Rows about groups of servers: primaries that die, are replaced, or hand their slots on."""

from __future__ import annotations

import time

from redis.crc import key_slot

from gateway.keys import Keyspace
from tests.faults.load import Load, mixed
from tests.faults.rows import CLUSTER, SENTINEL, Injected, row
from tests.faults.stage import Setup, Stage
from tests.waiting import until_sync

SLOTS = 6
BOTH = 2 * SLOTS
LOST_WITH_MEMORY = 100
"""What `durability = "memory"` may lose at a failover is what the replica had not got yet: a moment's jobs, or a
moment's outcomes, whose jobs run again. Counted."""


def resumed_s(load: Load, stage: Stage, count: int = 20) -> float:
    """Seconds until so many more jobs are acknowledged."""
    began_s = time.monotonic()
    stage.await_acks(count, timeout_s=40)
    return time.monotonic() - began_s


@row("8", "the primary dies, and Sentinels promote a replica", on=SENTINEL)
def kill_primary(stage: Stage) -> Injected:
    kills, resumed = 3, []
    with stage.load(mixed) as load:
        for _ in range(kills):
            stage.await_acks(60)
            with stage.fault("failover"):
                stage.place.sentinels.fail_over()
            resumed.append(resumed_s(load, stage))
            stage.place.sentinels.bring_back()
        stage.await_acks(60)
    injected = Injected(
        "kill -9 of the primary, durability memory", kills, kills * BOTH + LOST_WITH_MEMORY, lost_most=LOST_WITH_MEMORY
    )
    injected.notes = f"taken in again {max(resumed):.1f} s after the promotion at the latest"
    injected.expect(max(resumed) < 2.0, f"20 jobs were taken in only {max(resumed):.1f} s after a promotion")
    return injected


@row("8b", "the primary falls silent, is replaced, and comes back believing", on=SENTINEL)
def silence_primary(stage: Stage) -> Injected:
    group = stage.place.sentinels
    with stage.load(mixed):
        stage.await_acks(60)
        old = group.primary
        with stage.fault("silent"):
            old.suspend()
            group.await_other_primary(old)
            old.resume()
        stage.await_acks(60)
        group.bring_back()
        stage.await_acks(60)
    return Injected(
        "SIGSTOP of the primary until another is promoted", 1, BOTH + LOST_WITH_MEMORY, lost_most=LOST_WITH_MEMORY
    )


@row("8c", "each primary of a Cluster dies in turn", on=CLUSTER)
def kill_primaries(stage: Stage) -> Injected:
    group = stage.place.cluster
    victims = group.primaries()
    with stage.load(mixed):
        for victim in victims:
            stage.await_acks(60)
            with stage.fault("failover"):
                group.fail_over(victim)
            stage.await_acks(40, timeout_s=40)
            group.bring_back()
        stage.await_acks(60)
    injected = Injected(
        "kill -9 of each primary, durability memory",
        len(victims),
        len(victims) * BOTH + LOST_WITH_MEMORY,
        lost_most=LOST_WITH_MEMORY,
    )
    injected.expect(not any(each.ended for each in stage.dispatchers), "a dispatcher ended")
    return injected


@row("8d", "the slots of every partition move to other primaries", on=CLUSTER, setup=Setup())
def move_slots(stage: Stage) -> Injected:
    group = stage.place.cluster
    keys = [Keyspace("default", partition).prefix for partition in range(stage.place.partitions)]
    moves = 0
    with stage.load(mixed):
        for key in keys:
            stage.await_acks(30)
            owner = group.owner(key)
            to = next(each for each in group.primaries() if each is not owner)
            with stage.fault("move"):
                group.move_slot(_slot(key), to)
            moves += 1
        stage.await_acks(60)
    injected = Injected("CLUSTER MIGRATESLOTS of each partition's slot, under load", moves, BOTH)
    injected.expect(not any(each.ended for each in stage.dispatchers), "a dispatcher ended")
    until_sync(stage.ready, timeout_s=10)
    return injected


def _slot(key: str) -> int:
    return key_slot(key.encode())
