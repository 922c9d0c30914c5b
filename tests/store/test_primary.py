"""Where the primary is, while the Sentinels keep silent: nothing is left under way at the end."""

from __future__ import annotations

import asyncio
import random
import socket

from gateway.store.client import Client
from gateway.store.sentinel import Primary
from tests.waiting import until


async def test_no_question_is_left_under_way_when_it_is_closed_while_they_are_asked_to_confirm() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        sentinel = Client.to(f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        primary = Primary("main", [sentinel], rng=random.Random(1))
        before = asyncio.all_tasks()
        confirming = asyncio.ensure_future(primary.confirm())

        async def asked() -> bool:
            return bool(sentinel.connection_pool._in_use_connections)

        await until(asked)
        confirming.cancel()
        await asyncio.wait([confirming])
        async with asyncio.timeout(5):
            await primary.aclose()
        assert asyncio.all_tasks() == before
