"""Rows about groups of servers: primaries that die, are replaced, or hand their slots on."""

from __future__ import annotations

import time

from redis.crc import key_slot

from gateway.keys import Keyspace
from tests.faults.load import Load, mixed
from tests.faults.rows import CLUSTER, SENTINEL, Injected, row
from tests.faults.stage import Setup, Stage
from tests.groups import ClusterGroup, SentinelGroup
from tests.waiting import until_sync

SLOTS = 6
BOTH = 2 * SLOTS
LAG_S = (0.2, 0.4)
"""So long no replica gets anything before its primary dies: what is written meanwhile is lost with it."""

LAGGING = 120
"""Jobs that may be submitted, or end, within the longest lag."""

REPLICA = {"Prefer": "durability=replica"}


@row("8", "the primary dies, and Sentinels promote a replica that lags behind", on=SENTINEL)
def kill_primary(stage: Stage) -> Injected:
    """What durability memory costs then is counted: it is what was submitted while no replica got anything."""
    kills = 3
    with stage.load(mixed) as load:
        resumed = _kill_primaries(stage, load, kills)
    injected = Injected("kill -9 of the primary 0.2 to 0.4 s after its replicas were cut off, durability memory", kills)
    injected.lost_most = kills * LAGGING
    injected.in_flight = kills * (BOTH + LAGGING)
    injected.notes = f"taken in again {max(resumed):.1f} s after the promotion at the latest"
    injected.expect(max(resumed) < 2.0, f"20 jobs were taken in only {max(resumed):.1f} s after a promotion")
    return injected


@row("8e", "the same, each job acknowledged by a replica", on=SENTINEL)
def kill_primary_of_durable_jobs(stage: Stage) -> Injected:
    kills = 3
    with stage.load(mixed, headers=REPLICA) as load:
        resumed = _kill_primaries(stage, load, kills)
    injected = Injected(
        "kill -9 of the primary 0.2 to 0.4 s after its replicas were cut off, durability replica", kills
    )
    injected.in_flight, injected.forked = kills * (BOTH + LAGGING), True
    injected.notes = f"taken in again {max(resumed):.1f} s after the promotion at the latest"
    return injected


def _kill_primaries(stage: Stage, load: Load, kills: int) -> list[float]:
    """Kills one after the other: how long after each promotion until 20 jobs were taken in."""
    group, resumed = stage.place.sentinels, []
    for _ in range(kills):
        stage.await_acks(60)
        with stage.fault("failover"):
            group.detach_replicas()
            stage.pause(*LAG_S)
            group.fail_over()
        began_s = time.monotonic()
        stage.await_acks(20, timeout_s=40)
        resumed.append(time.monotonic() - began_s)
        group.bring_back()
    stage.await_acks(60)
    return resumed


@row("8b", "the primary falls silent, is replaced, and comes back believing", on=(*SENTINEL, *CLUSTER))
def silence_primary(stage: Stage) -> Injected:
    silences, group = 3, stage.place.group
    assert isinstance(group, SentinelGroup | ClusterGroup)
    with stage.load(mixed, headers=REPLICA):
        for _ in range(silences):
            stage.await_acks(60)
            with stage.fault("silent"):
                _silence(stage)
                stage.await_acks(20, timeout_s=60)
            group.bring_back()
        stage.await_acks(60)
    injected = Injected("SIGSTOP of the primary until another is promoted, durability replica", silences)
    injected.in_flight, injected.forked = silences * (BOTH + LAGGING), True
    injected.expect(not any(each.ended for each in stage.dispatchers), "a dispatcher ended")
    return injected


def _silence(stage: Stage) -> None:
    """Stops a primary until another has its place, and lets it go on."""
    if stage.place.topology == "sentinel":
        old = stage.place.sentinels.primary
        old.suspend()
        stage.place.sentinels.await_other_primary(old)
    else:
        group = stage.place.cluster
        old = stage.draw.choice(group.primaries())
        mine = group.id_of(old)
        old.suspend()
        group.await_taken_over(mine, besides=old)
    old.resume()


@row("8c", "each primary of a Cluster dies in turn", on=CLUSTER)
def kill_primaries(stage: Stage) -> Injected:
    """Until there is a new replica, a partition takes in nothing that a replica must acknowledge."""
    group = stage.place.cluster
    victims = group.primaries()
    with stage.load(mixed, headers=REPLICA):
        for victim in victims:
            stage.await_acks(60)
            with stage.fault("failover"):
                group.fail_over(victim)
                group.bring_back()
        stage.await_acks(60)
    injected = Injected("kill -9 of each primary, started again as a replica, durability replica", len(victims))
    injected.in_flight, injected.forked = len(victims) * (BOTH + LAGGING), True
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
    until_sync(stage.ready, timeout_s=60)
    return injected


def _slot(key: str) -> int:
    return key_slot(key.encode())
