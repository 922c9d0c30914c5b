"""Limits as plain arithmetic: when a target or a key may start a job, written apart from the scripts' way of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.model.breaker import Breaker

LOOK_AGAIN_US = 10_000_000
"""A timer looks again at least this often, so a limit changed behind its back is seen by then."""


KEY_LIMITS = ("key_concurrency", "key_interval", "key_quota", "ordered")


@dataclass(frozen=True, slots=True)
class Pace:
    """One node's limits; 0: none. Interval and window in us."""

    concurrency: int
    interval: int
    burst: int
    quota: int
    window: int


@dataclass(slots=True)
class Node:
    """What a target or a key has used up; `timer` is the armed one as the server told it (us, 0: none)."""

    running: int = 0
    tat: int = 0
    used: int = 0
    window_at: int = 0
    timer: int = 0
    held: str = ""

    def spend(self, pace: Pace, now_us: int) -> None:
        """A job starts."""
        self.running += 1
        if pace.quota:
            self.roll(pace, now_us)
            self.used += 1
        if pace.interval:
            self.tat = max(self.tat, now_us) + pace.interval

    def roll(self, pace: Pace, now_us: int) -> None:
        """A new window starts from nothing."""
        window_at = now_us // pace.window * pace.window
        if self.window_at != window_at:
            self.window_at, self.used = window_at, 0

    def free_at(self, pace: Pace, now_us: int) -> int:
        """When rate and quota let the next job go, 0 if they do now. GCRA (ITU-T I.371), and a fixed window."""
        at = 0
        if pace.interval:
            allowed = self.tat - (pace.burst - 1) * pace.interval
            at = allowed if allowed > now_us else 0
        if pace.quota:
            window_at = now_us // pace.window * pace.window
            if self.window_at == window_at and self.used >= pace.quota:
                at = max(at, window_at + pace.window)
        return at


@dataclass(slots=True)
class Target:
    """A target with flows: its limits, itself as a node, and its keys' nodes."""

    name: str
    fields: dict[str, int]
    node: Node = field(default_factory=Node)
    keys: dict[str, Node] = field(default_factory=dict)
    breaker: Breaker = field(default_factory=Breaker)
    keys_changed_us: int | None = None
    """When limits of its keys were last changed: keys see it within LOOK_AGAIN_US."""
    bare: int = 0
    """1: its keys never had limits, and have no records; 2: nor did they when it came to have flows."""

    def pace(self, prefix: str = "") -> Pace:
        get = self.fields.get
        names = ("concurrency", "interval", "burst", "quota", "window")
        return Pace(*(get(prefix + name, 0) for name in names))

    def key(self, key: str) -> Node:
        node = self.keys.get(key)
        if node is None:
            node = self.keys[key] = Node()
        return node

    @property
    def ordered(self) -> bool:
        return self.fields.get("ordered", 0) == 1

    @property
    def paused(self) -> bool:
        return self.fields.get("paused", 0) > 0

    @property
    def key_concurrency(self) -> int:
        return 1 if self.ordered else self.fields.get("key_concurrency", 0)

    def free_at(self, now_us: int) -> int:
        """When rate, quota and breaker let the target's next job go; 0: now."""
        open_until = self.fields.get("open_until", 0)
        return max(self.node.free_at(self.pace(), now_us), open_until if open_until > now_us else 0)

    @property
    def trying(self) -> bool:
        """Is its breaker open, or half open? Then one job may run, once the pause is over."""
        return self.fields.get("breaker", 0) > 0 and self.fields.get("open_until", 0) > 0

    def judge(self, job_id: str, now_us: int, *, failed: bool) -> bool:
        """An attempt has ended: is its failure not to be spent?"""
        fields, breaker = self.fields, self.breaker
        if not fields.get("breaker"):
            return False
        open_until = fields.get("open_until", 0)
        if open_until > now_us or (open_until and breaker.probe != job_id):
            return failed
        if open_until and not failed:
            fields["open_until"], self.breaker = 0, Breaker()
        elif open_until or breaker.count(fields, now_us, failed=failed):
            fields["open_until"] = breaker.trip(fields, now_us)
        return False

    def full(self) -> bool:
        concurrency = 1 if self.trying else self.fields.get("concurrency", 0)
        return 0 < concurrency <= self.node.running

    def key_full(self, key: str) -> bool:
        return key != "" and 0 < self.key_concurrency <= self.key(key).running

    def may_start(self, now_us: int) -> bool:
        """Do the target's own limits let a job go?"""
        return not self.paused and not self.full() and self.free_at(now_us) == 0

    def key_may_start(self, key: str, now_us: int) -> bool:
        """Do the key's limits let a job go?"""
        if key == "":
            return True
        node = self.key(key)
        return not node.held and not self.key_full(key) and node.free_at(self.pace("key_"), now_us) == 0

    def spend(self, key: str, now_us: int) -> None:
        """A job of that key starts."""
        self.node.spend(self.pace(), now_us)
        if key:
            self.key(key).spend(self.pace("key_"), now_us)

    def unspend(self, key: str, hold: str = "") -> None:
        """A job of that key no longer runs; `hold`: the key waits for its retry."""
        self.node.running -= 1
        if key:
            node = self.key(key)
            node.running -= 1
            node.held = hold or node.held

    def unhold(self, key: str, job_id: str) -> None:
        """The retry that a key waited for has come, or will not come."""
        if key and self.key(key).held == job_id:
            self.key(key).held = ""
