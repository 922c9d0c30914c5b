"""What is mixed into the library's connections: none is used that may be stale, and no cancellation is lost."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from redis.exceptions import ConnectionError


class Doubting(Protocol):
    """A client whose connections of an earlier generation are stale."""

    generation: int


class KnowsStale:
    """Mixed into a connection class: one that was made before its client had doubts is closed, not used."""

    client: Doubting
    _made_in = 0

    async def connect(self) -> None:
        connection: Any = super()
        own: Any = self
        if own.is_connected and self._made_in != self.client.generation:
            await own.disconnect(nowait=True)
        if not own.is_connected:
            self._made_in = self.client.generation
        await connection.connect()


class HeedsCancel:
    """Mixed into a connection class, so that a cancellation while it sends is not lost, nor a loss taken for a fault.

    The library sends through `asyncio.wait_for`, which before Python 3.12 drops a cancellation that comes when the
    sending is done: loops that are cancelled once would run on for ever.
    """

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        connection: Any = super()
        task = asyncio.current_task()
        before = task.cancelling() if task else 0
        try:
            await connection.send_packed_command(*args, **options)
        except RuntimeError as error:
            # what uvloop says of a connection that was reset since it was last used
            await connection.disconnect(nowait=True)
            raise ConnectionError(f"the connection was lost: {error}") from error
        if task and task.cancelling() > before:
            await connection.disconnect(nowait=True)  # nobody will read the reply
            raise asyncio.CancelledError
