"""Scripts that the server keeps as functions: what they define is made once, not at each call.

A library holds one function, and both are named by its hash: versions that run side by side have each their own, and
one that is loaded twice is there already. Libraries are part of the data (replicated, and on disk), so whoever loads
one removes the oldest of the same script. A server that takes no functions (it is full, or its user may not load any)
is left alone with them for a while, and runs the scripts.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import structlog
from redis.exceptions import MovedError, ResponseError

from gateway.store.client import MISLED, Client

log = structlog.get_logger(__name__)

KEPT = 8
"""Libraries of each script that stay: more versions than run side by side in an upgrade."""

REFUSED_S = 60.0
"""How long after a refusal the server is not asked again."""


def takes_functions(client: Client) -> bool:
    """Has the server not refused any lately?"""
    return monotonic() >= client.functions_from_s


async def load(client: Client, prefix: str, family: str, library: Callable[[int], str]) -> bool:
    """Loads a library into the server that holds the partition; False if that takes none.

    `library` makes its source, given its number among those of its `family`, which its name begins with.
    """
    server = await client.server_of(prefix)
    try:
        await _load(server, family, library)
    except ResponseError as error:
        if isinstance(error, (*MISLED, MovedError)):
            raise
        refused(client, error)
        return False
    return True


def refused(client: Client, error: Exception) -> None:
    """Told that the server takes no functions."""
    log.warning("Redis takes no functions; scripts are run in their place", error=str(error), for_s=REFUSED_S)
    client.functions_from_s = monotonic() + REFUSED_S


async def _load(server: Client, family: str, library: Callable[[int], str]) -> None:
    listed = await server.call("FUNCTION", "LIST", "LIBRARYNAME", f"{family}_*")
    ours = [(name, number) for each in listed if (number := _number(name := _name(each), family)) is not None]
    found, numbers = [name for name, _ in ours], [number for _, number in ours]
    number = max(numbers, default=0) + 1
    try:
        await server.call("FUNCTION", "LOAD", library(number))
    except ResponseError as error:
        if "already exists" not in str(error):
            raise
        return  # by another process, at the same time
    for old in [name for each, name in zip(numbers, found, strict=True) if each <= number - KEPT]:
        try:
            await server.call("FUNCTION", "DELETE", old)
        except ResponseError as error:
            if "not found" not in str(error):
                raise


def _number(name: str, family: str) -> int | None:
    """Which of its family a library is; None for another one whose name only begins so."""
    number = name[len(family) + 1 :].partition("_")[0]
    return int(number) if number.isascii() and number.isdigit() else None


def _name(listed: Any) -> str:
    facts = listed if isinstance(listed, dict) else dict(zip(listed[::2], listed[1::2], strict=True))
    name: bytes = facts[b"library_name"]
    return name.decode()
