import dramatiq
from dramatiq.brokers.redis import RedisBroker
from driver import URL, Submits, main, ran

dramatiq.set_broker(RedisBroker(url=URL))


@dramatiq.actor
def noop(number: int) -> None:
    ran(number)


async def single(number: int) -> None:
    noop.send(number)


if __name__ == "__main__":
    main(Submits(single, together=False))
