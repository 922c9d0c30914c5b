"""In which partition a job lies: decided by its target's limits, its key or its idempotency key, and else drawn."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from gateway.jobs import CALLBACK_TARGET, Callback
from gateway.keys import JobIds, hashed_partition
from gateway.submission.request import host_key


class Places:
    """Where jobs belong among so many partitions, by the flows that are known here."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._ids = JobIds()
        self._flows: dict[str, dict[str, int]] = {}

    def expect(self, flows: Mapping[str, Mapping[str, int]]) -> None:
        """Which targets have flows, with what limits, in place of those that were known."""
        self._flows = {target: dict(fields) for target, fields in flows.items()}

    def learn(self, target: str, fields: Mapping[str, int]) -> None:
        """A target has these limits, beside those that are known of it."""
        self._flows[target] = {**self._flows.get(target, {}), **fields}

    def flows(self) -> list[tuple[str, Mapping[str, int]]]:
        """Every target with flows, and its limits."""
        return list(self._flows.items())

    def has_flow(self, target: str, fields: Mapping[str, int]) -> bool:
        """Whether just these limits were learnt of a target last."""
        known = self._flows.get(target)
        return known is not None and all(known.get(name) == value for name, value in fields.items())

    def of_flow(self, target: str) -> Sequence[int]:
        """The partitions that count the limits of a target with flows."""
        if _only_keys(self._flows[target]):
            return range(self._partitions)
        return [hashed_partition(target, self._partitions)]

    def pinned(self, target: str, key: str = "") -> int | None:
        """The one partition of a target's jobs with that key; None if they may lie in any."""
        fields = self._flows.get(target)
        if fields is None:
            return None
        return hashed_partition(f"{target}:{key}" if key and _only_keys(fields) else target, self._partitions)

    def of_callback(self, callback: Callback) -> str:
        """Where the callback of a job belongs: `@<partition in hex>:<key>`, or nothing where that may be anywhere.

        Its key is the host, since hosts have limits of their own.
        """
        try:
            key = host_key(callback.url)
        except ValueError:
            return ""
        partition = self.pinned(CALLBACK_TARGET, key)
        return "" if partition is None else f"@{partition:02x}:{key}"

    def new_id(self, now_ms: int, *, target: str = "", key: str = "", idempotency_key: str = "") -> str:
        """A fresh job id, in the partition where the job belongs.

        A target with flows has one partition (one per key, where only keys have limits); the other jobs that share an
        idempotency key share one, and else it is drawn.
        """
        if self._partitions == 1:
            return self._ids.new(now_ms, 0)
        pinned = self.pinned(target, key)
        if pinned is not None:
            return self._ids.new(now_ms, pinned)
        if idempotency_key:
            return self._ids.new(now_ms, hashed_partition(idempotency_key, self._partitions))
        return self._ids.new(now_ms, random.randrange(self._partitions))  # noqa: S311 (spread, not secrecy)


def _only_keys(fields: Mapping[str, int]) -> bool:
    """Are there limits for keys, and none for the target as a whole?"""
    whole = any(fields.get(name) for name in ("concurrency", "interval", "quota"))
    return not whole and any(value for name, value in fields.items() if name.startswith("key_") or name == "ordered")
