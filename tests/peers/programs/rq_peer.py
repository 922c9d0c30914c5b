from driver import URL, Submits, main, ran
from redis import Redis
from rq import Queue

queue = Queue("q", connection=Redis.from_url(URL))


def noop(number: int) -> None:
    ran(number)


async def single(number: int) -> None:
    queue.enqueue("rq_peer.noop", number, result_ttl=0)


async def bulk(numbers: range) -> None:
    queue.enqueue_many([Queue.prepare_data("rq_peer.noop", (number,), result_ttl=0) for number in numbers])


if __name__ == "__main__":
    main(Submits(single, bulk, together=False))
