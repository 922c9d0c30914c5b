"""Renewing leases, from a thread: a blocked event loop must not lose them, so nothing here is asynchronous."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import redis
from redis.exceptions import NoScriptError, RedisError

from gateway.store.connection import store_error
from gateway.store.scripts import Arg, script

CHUNK = 500
"""Leases in one script call: extending 25,000 at once would block the server for tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """What a renewal found, as (job id, token): what is no longer ours, and what is asked to be cancelled."""

    lost: tuple[tuple[str, str], ...]
    cancel_asked: tuple[tuple[str, str], ...]


def extend(
    client: redis.Redis,
    prefix: str,
    dispatcher_id: str,
    held: Sequence[tuple[str, str]],
    *,
    lease_ms: int,
    heartbeat_ms: int,
) -> Renewed:
    """Renews the leases of `held` (job id, token) and the dispatcher's heartbeat; raises StoreError."""
    lost: list[tuple[str, str]] = []
    cancel_asked: list[tuple[str, str]] = []
    for first in range(0, max(1, len(held)), CHUNK):
        chunk = held[first : first + CHUNK]
        args: list[Arg] = [dispatcher_id, lease_ms, heartbeat_ms, msgspec.msgpack.encode(chunk)]
        for it, verdict in zip(chunk, _run(client, prefix, args), strict=True):
            if verdict == 0:
                lost.append(it)
            elif verdict == 2:
                cancel_asked.append(it)
    return Renewed(tuple(lost), tuple(cancel_asked))


def _run(client: redis.Redis, prefix: str, args: Sequence[Arg]) -> list[int]:
    it = script("extend")
    try:
        try:
            reply: list[int] = client.execute_command("EVALSHA", it.sha, 1, prefix, *args)
        except NoScriptError:
            reply = client.execute_command("EVAL", it.source, 1, prefix, *args)
    except (RedisError, OSError) as error:
        raise store_error(error) from error
    return reply
