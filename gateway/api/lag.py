"""How late the event loop is: the one figure that tells a blocked gateway from a slow Redis."""

from __future__ import annotations

import asyncio

EVERY_S = 0.25


class LoopLag:
    """Measures while `run` runs; `seconds` is how late the last wake-up was."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            due_s = clock() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self.seconds = max(0.0, clock() - due_s)
