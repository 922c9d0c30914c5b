"""What an acknowledged submit has reached: the server's memory, its disk, or replicas.

WAIT and WAITAOF speak for the connection that wrote, so they go out with the script, in one write on one connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from redis.exceptions import MovedError, NoScriptError

from gateway.errors import StoreShort
from gateway.store.client import Client
from gateway.store.refusals import store_error
from gateway.store.scripts import Arg, script, send

Durability = Literal["memory", "fsync", "replica"]
DURABILITIES: tuple[Durability, ...] = get_args(Durability)

WAIT_MS = 1200
"""How long disk or replicas may take; with `appendfsync everysec` a write is on disk within a second. Less than a reply
may take in all, so that the connection outlives it."""

_TRIES = 3


async def run_durably(
    client: Client, name: str, prefix: str, args: Sequence[Arg], *, durability: Durability, replicas: int
) -> Any:
    """Calls a script that writes, and returns once what it wrote has reached the disk, or so many replicas.

    The script must write something whenever it is called, also when it only finds that it was called before: waiting
    for nothing passes at once. Raises StoreShort where that takes too long, and whatever `run` raises.
    """
    it = script(name)
    call: tuple[Arg, ...] = ("EVALSHA", it.sha, 1, prefix, *args)
    for _ in range(_TRIES):
        generation = client.generation
        reply, reached = await send(client, prefix, [call, _wait(durability, replicas)])
        if isinstance(reply, NoScriptError):  # nothing was written, so the wait meant nothing
            call = ("EVAL", it.source, 1, prefix, *args)
        elif isinstance(reply, MovedError):
            client.moved(reply)
        elif isinstance(reply, Exception):
            raise store_error(reply) from reply
        elif isinstance(reached, Exception):
            raise store_error(reached) from reached
        else:
            _check(durability, replicas, reached)
            if durability == "replica" and not await client.still(generation):
                raise StoreShort(
                    "it is written and replicated, but by a server that may have been replaced meanwhile; "
                    "send it again, with the same idempotency key"
                )
            return reply
    raise StoreShort("the server was another one each time; it may be written, send it again")


def _wait(durability: Durability, replicas: int) -> tuple[Arg, ...]:
    return ("WAITAOF", 1, 0, WAIT_MS) if durability == "fsync" else ("WAIT", replicas, WAIT_MS)


def _check(durability: Durability, replicas: int, reached: Any) -> None:
    if durability == "fsync":
        if int(reached[0]) < 1:
            raise StoreShort("it is written, and not on disk yet; send it again, with the same idempotency key")
    elif int(reached) < replicas:
        raise StoreShort(
            f"it is written, and on {reached} of {replicas} replicas so far; "
            "send it again, with the same idempotency key"
        )
