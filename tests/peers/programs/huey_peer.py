from importlib import import_module

from driver import URL, Submits, main, ran
from huey import RedisHuey

huey = RedisHuey("q", url=URL, results=False)


@huey.task()
def noop(number: int) -> None:
    ran(number)


async def single(number: int) -> None:
    noop(number)


if __name__ == "__main__":
    # under the name that the worker knows the task by
    main(Submits(import_module("huey_peer").single, together=False))
