"""Connections to Redis, and its errors by name.

Every retry of the client library is off: it repeats commands by itself, and a command whose reply was lost may
have taken effect. What is repeated here is decided script by script.
"""

from __future__ import annotations

import asyncio
from typing import Any

import redis
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.retry import Retry as SyncRetry

from gateway.errors import StoreError, StoreFull, StoreMismatch, StoreUnavailable

CONNECT_TIMEOUT_S = 1.0
REPLY_TIMEOUT_S = 1.5
"""Above what any script of ours takes; a gateway answers 503 within 2 s of Redis going silent."""

_UNAVAILABLE: dict[str, str] = {
    "LOADING": "is loading its data",
    "READONLY": "is a read-only replica",
    "MASTERDOWN": "is a replica without its primary",
    "CLUSTERDOWN": "says that the cluster is down",
    "TRYAGAIN": "is moving the slot",
    "MOVED": "no longer holds the slot",
    "ASK": "is moving the slot",
    "BUSY": "is busy with a foreign script",
    "MISCONF": "cannot write to its disk",
    "NOREPLICAS": "has too few replicas to accept writes",
    "UNBLOCKED": "was failed over",
    "NOAUTH": "wants a password, or refused it",
    "NOPERM": "does not let this user run the scripts",
}

_WORDS: dict[type[Exception], str] = {
    redis.exceptions.OutOfMemoryError: "OOM",
    redis.exceptions.BusyLoadingError: "LOADING",
    redis.exceptions.ReadOnlyError: "READONLY",
    redis.exceptions.MasterDownError: "MASTERDOWN",
    redis.exceptions.ClusterDownError: "CLUSTERDOWN",
    redis.exceptions.TryAgainError: "TRYAGAIN",
    redis.exceptions.MovedError: "MOVED",
    redis.exceptions.AskError: "ASK",
    redis.exceptions.NoPermissionError: "NOPERM",
    redis.exceptions.AuthenticationError: "NOAUTH",
}
"""The client library takes the word off an error's text where it has a class for it."""


def connect(url: str, *, reply_timeout_s: float = REPLY_TIMEOUT_S) -> Redis:
    """An asyncio client with a pool of its own; connects on first use."""
    client = Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),
        retry_on_error=[],
        socket_timeout=reply_timeout_s,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
    )
    pool: Any = client.connection_pool
    pool.connection_class = type("Connection", (_HeedsCancel, pool.connection_class), {})
    return client


class _HeedsCancel:
    """Mixed into a connection class, so that a cancellation while it sends is not lost.

    The library sends through `asyncio.wait_for`, which before Python 3.12 drops a cancellation that comes when the
    sending is done: loops that are cancelled once would run on for ever.
    """

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        connection: Any = super()
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        await connection.send_packed_command(*args, **options)
        if task and task.cancelling() > before:
            await connection.disconnect(nowait=True)  # nobody will read the reply
            raise asyncio.CancelledError


def connect_sync(url: str, *, reply_timeout_s: float = REPLY_TIMEOUT_S) -> redis.Redis:
    """A blocking client, for the lease thread."""
    return redis.Redis.from_url(
        url,
        retry=SyncRetry(NoBackoff(), 0),
        retry_on_error=[],
        socket_timeout=reply_timeout_s,
        socket_connect_timeout=CONNECT_TIMEOUT_S,
    )


def store_error(error: Exception) -> StoreError:
    """Redis's or the client library's error as one of ours."""
    text = str(error)
    word = _word(error, text)
    if word == "OOM" or "OOM command not allowed" in text:
        return StoreFull("Redis is at its memory limit; new work is accepted again when there is room")
    if "GWSCHEMA" in text:
        return StoreMismatch("the data in Redis needs a newer version of event-gateway; upgrade this process")
    if word in _UNAVAILABLE:
        return StoreUnavailable(f"Redis {_UNAVAILABLE[word]} ({word})")
    if isinstance(error, (redis.ConnectionError, redis.TimeoutError, OSError)):
        return StoreUnavailable(f"Redis cannot be reached: {text or type(error).__name__}")
    return StoreError(f"Redis refused a script: {text}")


def _word(error: Exception, text: str) -> str:
    for kind, word in _WORDS.items():
        if isinstance(error, kind):
            return word
    first = text.split(" ", 1)[0].removeprefix("-").rstrip(":")
    if first in _UNAVAILABLE or first == "OOM":
        return first
    # inside a script the word comes later in the text
    return next((word for word in _UNAVAILABLE if f"{word} " in text), "")


__all__ = ["connect", "connect_sync", "store_error"]
