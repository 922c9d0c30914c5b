"""What a schedule does now: which slots fire, which are given up, and which one comes next.

A slot is an instant of the cron expression; it fires up to `jitter` later, but never after the slot that follows it.
A slot that is late by no more than `GRACE_MS` is on time, and fires whatever `catch_up` says: dispatchers restart,
and clocks drift. Where an older one is found, `catch_up` decides over all that are due (docs/schedules.md).
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile

from gateway.schedules.cron import Cron, parse_cron
from gateway.schedules.definition import Schedule, catch_up_most

GRACE_MS = 10_000
FIRE_MOST = 100
"""Slots that one step fires; the rest are due in the next step."""

COUNT_MOST = 1000
"""Up to which number missed slots are counted: a year of seconds must not be walked."""

_MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class Slot:
    """An instant of a schedule, and when it fires (`at_ms`); Unix milliseconds."""

    slot_ms: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Plan:
    """`fire` in order, `missed` slots given up (counted up to COUNT_MOST), and the slot that comes `next`."""

    fire: tuple[int, ...]
    missed: int
    next: Slot


def first_slot(schedule: Schedule, now_ms: int) -> Slot:
    """The first slot after now; ValueError if the expression or zone cannot be read here."""
    slots = parse_cron(schedule.cron, schedule.timezone).since(now_ms // 1000 + 1)
    return _slot(schedule, next(slots), next(slots))


def plan(schedule: Schedule, slot_ms: int, now_ms: int) -> Plan:
    """What to do now that the slot at `slot_ms` was to come next; ValueError as `first_slot`."""
    cron, late_ms = parse_cron(schedule.cron, schedule.timezone), now_ms - GRACE_MS
    instants = cron.since(slot_ms // 1000)
    first = _slot(schedule, next(instants), next(instants))
    if first.at_ms > now_ms:
        return Plan((), 0, first)  # so only where a new tz database moved the slot
    on_time = first.at_ms >= late_ms
    most = 0 if on_time else catch_up_most(schedule.catch_up)
    slots = _latest(schedule, cron, first.slot_ms // 1000, now_ms // 1000, most=most or GRACE_MS // 1000 + 1)
    due = [slot for slot in slots if slot.at_ms <= now_ms]
    chosen = due[-most:] if most else [slot for slot in due if slot.at_ms >= late_ms]
    pending = next(slot for slot in slots if slot.at_ms > now_ms)
    kept = chosen[0] if chosen else pending
    missed = 0 if on_time else _count(cron, first.slot_ms // 1000, kept.slot_ms // 1000)
    rest = chosen[FIRE_MOST:]
    return Plan(tuple(slot.slot_ms for slot in chosen[:FIRE_MOST]), missed, rest[0] if rest else pending)


def _latest(schedule: Schedule, cron: Cron, low_s: int, high_s: int, *, most: int) -> list[Slot]:
    """The last `most` slots up to `high_s` and one more, or all from `low_s` on, and then the one after `high_s`.

    Looks back twice as far each time, since an expression can only be walked forward.
    """
    width_s = _MINUTE_S
    while True:
        start_s = max(low_s, high_s - width_s)
        found = deque(takewhile(lambda at_s: at_s <= high_s, cron.since(start_s)), maxlen=most + 1)
        if len(found) > most or start_s == low_s:
            break
        width_s *= 2
    instants = [*found, *islice(cron.since(high_s + 1), 2)]
    return [_slot(schedule, at_s, following_s) for at_s, following_s in pairwise(instants)]


def _count(cron: Cron, from_s: int, to_s: int) -> int:
    """The slots in [from_s, to_s), counted up to COUNT_MOST."""
    return sum(1 for _ in islice(takewhile(lambda at_s: at_s < to_s, cron.since(from_s)), COUNT_MOST))


def _slot(schedule: Schedule, at_s: int, following_s: int) -> Slot:
    """Its jitter is always the same for the same name and slot: every dispatcher, and every repeat, agrees."""
    slot_ms = at_s * 1000
    noise = hashlib.sha256(f"{schedule.name}:{slot_ms}".encode()).digest()[:6]
    width_ms = min(schedule.jitter_ms, following_s * 1000 - slot_ms)
    return Slot(slot_ms, slot_ms + int.from_bytes(noise, "big") * width_ms // 2**48)
