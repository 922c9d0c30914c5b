"""Round-robin between a target's keys: while a key waits ready, no other one is served twice."""

from __future__ import annotations

from collections.abc import Iterable

from tests.model.jobs import Job
from tests.model.model import Broken, Model

Group = tuple[str, str, int]
"""Lane, target, class: the keys that take turns with each other."""


class Turns:
    """Remembers, for every key that waits ready in a group, which keys were served since it does."""

    def __init__(self) -> None:
        self._since: dict[Group, dict[str, set[str]]] = {}

    def take(self, job: Job, ready: Iterable[str]) -> None:
        """A key is served while those in `ready` could have been."""
        group = (job.lane, job.target, job.rank_class)
        waiting = self._since.setdefault(group, {})
        for key in ready:
            if key == job.key:
                continue
            served = waiting.setdefault(key, set())
            if job.key in served:
                raise Broken(f"key {job.key!r} served twice while {key!r} waits in {group}")
            served.add(job.key)
        for other, keys in self._since.items():
            if other[:2] == group[:2]:
                keys.pop(job.key, None)

    def refresh(self, model: Model) -> None:
        """Forgets keys that no longer wait ready in their group."""
        if not self._since:
            return
        best: dict[tuple[str, str, str], int] = {}
        for job in model.with_status("pending"):
            if job.target in model.targets and not job.plain:
                best[job.queue] = min(best.get(job.queue, job.rank_class), job.rank_class)
        ready: dict[Group, set[str]] = {}
        for (lane, name, key), rank_class in best.items():
            target = model.targets[name]
            if target.key_may_start(key, model.now_us) and not (key and target.key(key).timer):
                ready.setdefault((lane, name, rank_class), set()).add(key)
        for group, keys in self._since.items():
            still = ready.get(group, set())
            for key in [key for key in keys if key not in still]:
                del keys[key]
