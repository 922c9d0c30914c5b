"""Replies of `claim` as jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.jobs import Claimed

_HEAD = 3
_WIDTH = 3


def parse_claim(reply: Sequence[Any], *, partition: int, nonce: str) -> tuple[int, bool, list[Claimed]]:
    """Microseconds until the next job is due (-1: none is known), is there more, and the jobs (lua/claim.lua)."""
    wake_us, more, now_ms = reply[:_HEAD]
    jobs = [
        _claimed(reply[at], reply[at + 1], reply[at + 2], now_ms, partition, nonce)
        for at in range(_HEAD, len(reply), _WIDTH)
    ]
    return wake_us, bool(more), jobs


def _claimed(job_id: bytes, moved: bytes, body: bytes, now_ms: int, partition: int, nonce: str) -> Claimed:
    """The facts (lua/records.lua) are those at the head of the body, unless others hold by now."""
    facts, _, rest = body.partition(b"\n")
    attempt, previous_ms, ready_ms = 1, 0, 0
    if moved:
        first, previous, ready, facts = moved.split(b"|", 3)
        attempt, previous_ms, ready_ms = int(first), int(previous or 0), int(ready or 0)
    flags, target, lane, _, _, most, created, _, key_and_rank = facts.decode().split("|", 8)
    created_ms = int(created)
    return Claimed(
        job_id.decode(),
        attempt,
        int(most),
        target,
        lane,
        key_and_rank[: key_and_rank.rindex("|")],
        previous_ms,
        created_ms,
        max(0, now_ms - (ready_ms or created_ms)),  # a server that took over may have a clock behind the other's
        "s" in flags,
        rest,
        f"{attempt}:{nonce}",
        partition,
    )


__all__ = ["parse_claim"]
