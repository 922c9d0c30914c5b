"""Job ids and every Redis key, made in this one module.

A job id is a UUIDv7 (RFC 9562) whose last byte names the partition that holds the job. A partition is one
hash-tagged keyspace: prefix `gw:{<namespace>:<partition>}:`. The scripts get that prefix as `KEYS[1]` and
append the same suffixes; `lua/prelude.lua` lists them.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass

from gateway.errors import NotFound

MAX_PARTITIONS = 256
PRIORITY_SPAN = 2**45
"""`rank = (100 - priority) * 2^45 + seq`: below 2^53, so a ZSET score holds it exactly."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}\Z", re.ASCII)
"""Targets, triggers, lanes, schedules: up to 64 characters, no separator, so that a key cannot be forged."""

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z", re.ASCII)

NOISE_DIGITS = 17
VARIANTS = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
"""What the variant's digit is, by a digit of noise."""


class JobIds:
    """Makes job ids; buffers the system's randomness, since one read per id would cost more than the id."""

    def __init__(self) -> None:
        self._pool = ""
        self._at = 0
        self._head = (-1, "")

    def new(self, now_ms: int, partition: int) -> str:
        """A fresh UUIDv7 for a job in `partition`, with `now_ms` (Unix milliseconds) as its time."""
        at = self._at
        if at + NOISE_DIGITS > len(self._pool):
            self._pool, at = os.urandom(NOISE_DIGITS * 256).hex(), 0
        self._at = at + NOISE_DIGITS
        noise = self._pool[at : at + NOISE_DIGITS]
        if self._head[0] != now_ms:
            self._head = (now_ms, format_id(now_ms, 0, 0)[:15])
        variant = VARIANTS[noise[0]]
        return f"{self._head[1]}{noise[1:4]}-{variant}{noise[4:7]}-{noise[7:]}{partition:02x}"


def format_id(now_ms: int, noise: int, partition: int) -> str:
    """The UUIDv7 text of 48 bits of time, 66 bits of noise and the partition byte."""
    time, rest = f"{now_ms & 0xFFFFFFFFFFFF:012x}", f"{noise & (2**66 - 1):017x}"
    variant = VARIANTS[rest[0]]
    return f"{time[:8]}-{time[8:]}-7{rest[1:4]}-{variant}{rest[4:7]}-{rest[7:17]}{partition:02x}"


def derived_id(cause: str, now_ms: int, partition: int) -> str:
    """A UUIDv7 that is always the same for the same cause and time: a repeat of the cause is a duplicate."""
    noise = int.from_bytes(hashlib.sha256(cause.encode()).digest()[:9], "big")
    return format_id(now_ms, noise, partition)


def partition_of(job_id: str, partitions: int) -> int:
    """The partition that holds a job; NotFound if the text is no job id, or names no partition of ours."""
    if _ID.match(job_id) is None or (partition := int(job_id[-2:], 16)) >= partitions:
        raise NotFound(f"no job with the id {job_id[:64]!r}")
    return partition


def hashed_partition(text: str, partitions: int) -> int:
    """A stable partition for a text (an idempotency key, a target)."""
    if partitions == 1:
        return 0
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % partitions


def idempotency_hash(scope: str, target: str, key: str) -> str:
    """What an idempotency key is stored under: 128 bits over (client or trigger, target, key)."""
    return hashlib.sha256(f"{scope}\x1f{target}\x1f{key}".encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Keyspace:
    """The keys of one partition. Only `prefix` travels to the scripts; the rest serve plain reads."""

    namespace: str
    partition: int

    @property
    def prefix(self) -> str:
        """`gw:{namespace:partition}:`, what every key of the partition starts with."""
        return f"gw:{{{self.namespace}:{self.partition}}}:"

    def dispatcher(self, dispatcher_id: str) -> str:
        return f"{self.prefix}dispatcher:{dispatcher_id}"

    def wake(self, dispatcher_id: str) -> str:
        """The channel that wakes one idle dispatcher."""
        return f"{self.prefix}wake:{dispatcher_id}"

    def ended(self, process: str) -> str:
        """The channel that tells a process of the ends of the jobs it waits for."""
        return f"{self.prefix}ended:{process}"

    def replay(self, replay_id: str) -> str:
        """A bulk replay: what is asked for, in the control partition (0), and how far each partition is."""
        return f"{self.prefix}replay:{replay_id}"

    @property
    def conf(self) -> str:
        """What is configured: schema, lanes, pauses."""
        return f"{self.prefix}conf"

    @property
    def done(self) -> str:
        """The ids of jobs that succeeded or were cancelled."""
        return f"{self.prefix}done"

    @property
    def events(self) -> str:
        """The stream of what happened to jobs while somebody followed."""
        return f"{self.prefix}events"

    @property
    def replays(self) -> str:
        """Bulk replays under way; in the control partition only."""
        return f"{self.prefix}replays"

    def deliveries(self, trigger: str) -> str:
        """The last deliveries of a trigger; in the control partition only, as all that follows."""
        return f"{self.prefix}deliveries:{trigger}"

    def rejections(self, trigger: str) -> str:
        """The last requests of a trigger that did not verify."""
        return f"{self.prefix}rejections:{trigger}"

    def delivery(self, trigger: str, entry_id: str) -> str:
        """A delivery's headers and body."""
        return f"{self.prefix}delivery:{trigger}:{entry_id}"

    @property
    def triggers(self) -> str:
        """Triggers that were registered over the API, by name."""
        return f"{self.prefix}triggers"

    @property
    def targets(self) -> str:
        """Targets registered at run time, by name; in the control partition only."""
        return f"{self.prefix}targets"

    def target_limits(self, target: str) -> str:
        """A target's limits, and how they stand."""
        return f"{self.prefix}ft:{target}"

    def target_breaker(self, target: str) -> str:
        """A target's breaker, and how it stands."""
        return f"{self.prefix}fb:{target}"

    @property
    def apikeys(self) -> str:
        """API keys by id; in the control partition (0) only."""
        return f"{self.prefix}apikeys"
