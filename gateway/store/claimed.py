"""Replies of `claim` as jobs."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any, overload

from gateway.jobs import Claimed

_HEAD = 3
_WIDTH = 3


class Arrivals(Sequence[Claimed]):
    """The jobs of one reply, read when they are first looked at.

    How many they are and whether there is a suspect is known before: all that the next request needs, which leaves
    meanwhile.
    """

    def __init__(self, reply: Sequence[Any], partition: int, nonce: str) -> None:
        self._reply = reply
        self._partition = partition
        self._nonce = nonce
        self._jobs: list[Claimed] | None = None

    @property
    def has_suspect(self) -> bool:
        """Whether one of them is a suspect; such a job has facts of its own."""
        return any(b"s" in moved.split(b"|", 4)[3] for moved in self._reply[_HEAD + 1 :: _WIDTH] if moved)

    def among(self, ids: Container[str]) -> Arrivals:
        """Those of them that have one of these ids."""
        reply = list(self._reply[:_HEAD])
        for at in range(_HEAD, len(self._reply), _WIDTH):
            if self._reply[at].decode() in ids:
                reply += self._reply[at : at + _WIDTH]
        return Arrivals(reply, self._partition, self._nonce)

    def __len__(self) -> int:
        return (len(self._reply) - _HEAD) // _WIDTH

    @overload
    def __getitem__(self, at: int) -> Claimed: ...

    @overload
    def __getitem__(self, at: slice) -> list[Claimed]: ...

    def __getitem__(self, at: int | slice) -> Claimed | list[Claimed]:
        return self._read()[at]

    def __iter__(self) -> Iterator[Claimed]:
        return iter(self._read())

    def __eq__(self, other: object) -> bool:
        return list(other) == self._read() if isinstance(other, Sequence) else NotImplemented

    def __repr__(self) -> str:
        return repr(self._read())

    def _read(self) -> list[Claimed]:
        if self._jobs is None:
            reply, partition, nonce = self._reply, self._partition, self._nonce
            now_ms = reply[_HEAD - 1]
            self._jobs = [
                _claimed(reply[at], reply[at + 1], reply[at + 2], now_ms, partition, nonce)
                for at in range(_HEAD, len(reply), _WIDTH)
            ]
        return self._jobs


def nothing() -> Arrivals:
    """No jobs."""
    return Arrivals((-1, 0, 0), 0, "")


def parse_claim(reply: Sequence[Any], *, partition: int, nonce: str) -> tuple[int, bool, Arrivals]:
    """Microseconds until the next job is due (-1: none is known), is there more, and the jobs (lua/claim.lua)."""
    return reply[0], bool(reply[1]), Arrivals(reply, partition, nonce)


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


__all__ = ["Arrivals", "nothing", "parse_claim"]
