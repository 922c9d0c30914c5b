from contextlib import asynccontextmanager
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from driver import URL, Submits, main, ran

REDIS = RedisSettings.from_dsn(URL)


async def noop(ctx: dict[str, Any], number: int) -> None:
    ran(number)


class WorkerSettings:
    functions = (noop,)
    redis_settings = REDIS
    max_jobs = 100
    poll_delay = 0.005
    keep_result = 0


class Client:
    pool: Any


@asynccontextmanager
async def around():
    Client.pool = await create_pool(REDIS)
    yield
    await Client.pool.aclose()


if __name__ == "__main__":
    main(Submits(lambda number: Client.pool.enqueue_job("noop", number), around=around()))
