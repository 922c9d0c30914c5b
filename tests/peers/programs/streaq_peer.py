from driver import URL, Submits, main, ran
from streaq import Worker

worker = Worker(redis_url=URL, concurrency=100, prefetch=200)


@worker.task(ttl=0)
async def noop(number: int) -> None:
    ran(number)


async def single(number: int) -> None:
    await noop.enqueue(number)


async def bulk(numbers: range) -> None:
    await worker.enqueue_many([noop.enqueue(number) for number in numbers])


if __name__ == "__main__":
    main(Submits(single, bulk, around=worker))
