"""Replies of `claim` as jobs."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, overload

from gateway.jobs import Claimed

_NOW, _IDS, _MOVED, _HOLD, _HEAD = 2, 3, 4, 5, 6


class Arrivals(Sequence[Claimed]):
    """The jobs of one reply, read when they are first looked at.

    How many they are and whether there is a suspect is known before: all that the next request needs, which leaves
    meanwhile.
    """

    def __init__(self, reply: Sequence[Any], partition: int, nonce: str) -> None:
        self._reply = reply
        moved = reply[_MOVED]
        self._moved: dict[int, bytes] = dict(zip(moved[::2], moved[1::2], strict=True)) if moved else {}
        self.hold_us: int = reply[_HOLD]
        """For how long from the server's time they are not to start, since they are due only then; mostly 0."""
        self.due_s: float = reply[_NOW] / 1000
        """When that is over, in Unix seconds by the server's clock."""
        self._partition = partition
        self._nonce = nonce
        self._jobs: list[Claimed] | None = None

    @property
    def has_suspect(self) -> bool:
        """Whether one of them is a suspect; such a job has facts of its own."""
        return bool(self._moved) and any(b"s" in moved.split(b"|", 4)[3] for moved in self._moved.values())

    def among(self, ids: Container[str]) -> Arrivals:
        """Those of them that have one of these ids."""
        kept = [(number, job_id) for number, job_id in enumerate(self._ids(), 1) if job_id in ids]
        moved: list[Any] = []
        for place, (number, _) in enumerate(kept, 1):
            if number in self._moved:
                moved += (place, self._moved[number])
        joined = ",".join([job_id for _, job_id in kept]).encode()
        bodies = [self._reply[_HEAD + number - 1] for number, _ in kept]
        return Arrivals([*self._reply[:_IDS], joined, moved, self.hold_us, *bodies], self._partition, self._nonce)

    def __len__(self) -> int:
        return len(self._reply) - _HEAD

    @overload
    def __getitem__(self, at: int) -> Claimed: ...

    @overload
    def __getitem__(self, at: slice) -> list[Claimed]: ...

    def __getitem__(self, at: int | slice) -> Claimed | list[Claimed]:
        return self.jobs()[at]

    def __iter__(self) -> Iterator[Claimed]:
        return iter(self.jobs())

    def __eq__(self, other: object) -> bool:
        return list(other) == self.jobs() if isinstance(other, Sequence) else NotImplemented

    def __repr__(self) -> str:
        return repr(self.jobs())

    def jobs(self) -> list[Claimed]:
        """All of them, not to be changed."""
        if self._jobs is None:
            self._jobs = _read(self._reply, self._ids(), self._moved, self._partition, self._nonce)
        return self._jobs

    def _ids(self) -> list[str]:
        joined: str = self._reply[_IDS].decode()
        return joined.split(",")


NOTHING = Arrivals((-1, 0, 0, b"", (), 0), 0, "")


def parse_claim(reply: Sequence[Any], *, partition: int, nonce: str) -> tuple[int, bool, Arrivals]:
    """Microseconds until the next job is due (-1: none is known), is there more, and the jobs (lua/claim.lua)."""
    return reply[0], bool(reply[1]), Arrivals(reply, partition, nonce)


def parse_handed(told: bytes) -> tuple[str, Sequence[Any]]:
    """The nonce and the reply of a claim that a submit made (lua/handover.lua), from the message that tells of it."""
    head, _, rest = told.partition(b"\n")
    nonce, wake_us, more, now_ms, ids, sizes = head.split(b" ")
    bodies, at = [], 0
    for size in sizes.split(b","):
        after = at + int(size)
        bodies.append(rest[at:after])
        at = after
    return nonce.decode(), [int(wake_us), int(more), int(now_ms), ids, [], 0, *bodies]


def _read(
    reply: Sequence[Any], ids: Sequence[str], moved: Mapping[int, bytes], partition: int, nonce: str
) -> list[Claimed]:
    """The facts (lua/records.lua) of each are those at the head of its body, unless others hold by now. Jobs that come
    together mostly share what stands before the time of their creation, which then is read once."""
    now_ms, first_token = reply[_NOW], f"1:{nonce}"
    jobs: list[Claimed] = []
    shared: bytes | None = None
    shared_length = 0
    for at, job_id in enumerate(ids if len(reply) > _HEAD else ()):
        facts, _, rest = reply[_HEAD + at].partition(b"\n")
        attempt, previous_ms, ready_ms, token = 1, 0, 0, first_token
        if moved and (own := moved.get(at + 1)) is not None:
            number, previous, ready, facts = own.split(b"|", 3)
            attempt, previous_ms, ready_ms = int(number), int(previous or 0), int(ready or 0)
            token = f"{attempt}:{nonce}"
        if shared is not None and facts.startswith(shared):
            created, run_at, key_and_rank = facts[shared_length:].split(b"|", 2)
        else:
            *head, created, run_at, key_and_rank = facts.split(b"|", 8)
            shared = b"|".join((*head, b""))
            shared_length = len(shared)
            flags, target, lane, _, _, most_attempts = b"|".join(head).decode().split("|")
            most, suspect = int(most_attempts), "s" in flags
        created_ms = int(created)
        if run_at and not ready_ms:
            ready_ms = max(created_ms, int(run_at))
        key_ends = key_and_rank.rindex(b"|")
        waited_ms = now_ms - (ready_ms or created_ms)
        jobs.append(
            Claimed(
                job_id,
                attempt,
                most,
                target,
                lane,
                key_and_rank[:key_ends].decode() if key_ends else "",
                previous_ms,
                created_ms,
                waited_ms if waited_ms > 0 else 0,  # a server that took over may have a clock behind the other's
                suspect,
                rest,
                token,
                partition,
            )
        )
    return jobs


__all__ = ["NOTHING", "Arrivals", "parse_claim", "parse_handed"]
