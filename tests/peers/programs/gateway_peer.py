import time
from contextlib import asynccontextmanager

from driver import URL, Submits, main, ran

from gateway.jobs import LANES, Submission
from gateway.store import Store


async def noop(number: int) -> None:
    ran(number)


class Client:
    store: Store


@asynccontextmanager
async def around():
    Client.store = await Store.open(URL, lanes=LANES)
    yield
    await Client.store.aclose()


async def bulk(numbers: range) -> None:
    store, now_ms = Client.store, time.time_ns() // 1_000_000
    await store.submit([Submission(store.new_id(now_ms), "noop", b"%d" % number) for number in numbers])


async def single(number: int) -> None:
    await bulk(range(number, number + 1))


if __name__ == "__main__":
    main(Submits(single, bulk, around=around()))
