"""Redis's errors by name, and what each means here."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import redis

from gateway.errors import StoreError, StoreFull, StoreMismatch, StoreUnavailable

T = TypeVar("T")

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
    "NOPERM": "does not let this user do what is needed",
}

_MENDS: dict[str, str] = {
    "MISCONF": "free or mend its disk; its log says what it could not write",
    "NOREPLICAS": "attach replicas, or lower its min-replicas-to-write",
    "NOAUTH": "mend user and password in GATEWAY_REDIS_URL",
    "NOPERM": "give its user the rights that the documentation's page Redis lists",
}
"""Where waiting does not help."""

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


KINDS = (
    *(word.lower() for word in _UNAVAILABLE),
    *("oom", "schema", "empty", "timeout", "connection", "cancelled", "script"),
)
"""The closed set of what can be wrong."""


def is_unknown(error: object) -> bool:
    """Has the server not carried out a call since it does not know the script, or the function?"""
    return isinstance(error, redis.exceptions.NoScriptError) or (
        isinstance(error, redis.exceptions.ResponseError) and str(error) == "Function not found"
    )


def takes_none(error: object) -> bool:
    """Has it not since it has no functions, or not for this user?"""
    return isinstance(error, redis.exceptions.NoPermissionError) or (
        isinstance(error, redis.exceptions.ResponseError) and str(error).lower().startswith("unknown command")
    )


def kind_of(error: Exception) -> str:
    """Which of KINDS Redis's or the client library's error is."""
    text = str(error)
    word = _word(error, text)
    if word:
        return word.lower()
    if "GWSCHEMA" in text:
        return "schema"
    if "GWEMPTY" in text:
        return "empty"
    if isinstance(error, (redis.TimeoutError, TimeoutError)):
        return "timeout"
    return "connection" if isinstance(error, (redis.ConnectionError, OSError)) else "script"


def store_error(error: Exception) -> StoreError:
    """Redis's or the client library's error as one of ours."""
    text = str(error)
    word = _word(error, text)
    if word == "OOM" or "OOM command not allowed" in text:
        return StoreFull("Redis is at its memory limit; new work is accepted again when there is room")
    if "GWSCHEMA" in text:
        return StoreMismatch("the data in Redis needs a newer version of event-gateway; upgrade this process")
    if "GWEMPTY" in text:
        return StoreUnavailable("Redis has lost its data: no job is run until limits are registered there again")
    if "DB index is out of range" in text:
        return StoreMismatch(
            "Redis has no database of the number at the end of its URL; take a lower one (0 is always there)"
        )
    if word in _UNAVAILABLE:
        # which command it was, or that it was a key; not who the user is, since /readyz tells anybody
        said = f": {text.partition(' has ')[2] or text}" if word == "NOPERM" else ""
        refusal = f"Redis {_UNAVAILABLE[word]} ({word}{said})"
        mend = f"; {_MENDS[word]}" if word in _MENDS else ""
        return StoreUnavailable(f"{refusal}{mend}", refusal=refusal)
    if isinstance(error, (redis.ConnectionError, redis.TimeoutError, OSError)):
        return StoreUnavailable(f"Redis cannot be reached: {text or type(error).__name__}")
    return StoreError(f"Redis refused a script: {text}")


async def answered(command: Awaitable[T]) -> T:
    """What a plain command brings; raises StoreError, never the client library's error."""
    try:
        return await command
    except (redis.RedisError, OSError) as error:
        raise store_error(error) from error


def _word(error: Exception, text: str) -> str:
    for kind, word in _WORDS.items():
        if isinstance(error, kind):
            return word
    first = text.split(" ", 1)[0].removeprefix("-").rstrip(":")
    if first in _UNAVAILABLE or first == "OOM":
        return first
    # inside a script the word comes later in the text
    return next((word for word in _UNAVAILABLE if f"{word} " in text), "")
