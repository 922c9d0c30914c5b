from contextlib import asynccontextmanager

from driver import URL, Submits, main, ran
from taskiq_redis import RedisStreamBroker

broker = RedisStreamBroker(url=URL)


@broker.task
async def noop(number: int) -> None:
    ran(number)


@asynccontextmanager
async def around():
    await broker.startup()
    yield
    await broker.shutdown()


if __name__ == "__main__":
    main(Submits(lambda number: noop.kiq(number), around=around()))
