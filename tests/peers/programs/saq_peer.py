from contextlib import asynccontextmanager
from typing import Any

from driver import URL, Submits, main, ran
from saq import Queue

queue = Queue.from_url(URL)


async def noop(ctx: dict[str, Any], *, number: int) -> None:
    ran(number)


settings = {"queue": queue, "functions": [noop], "concurrency": 100}


@asynccontextmanager
async def around():
    await queue.connect()
    yield
    await queue.disconnect()


if __name__ == "__main__":
    main(Submits(lambda number: queue.enqueue("noop", number=number, ttl=-1), around=around()))
