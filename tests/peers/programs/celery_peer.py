from celery import Celery
from driver import URL, Submits, main, ran

app = Celery("celery_peer", broker=URL)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=500,
    worker_disable_rate_limits=True,
    task_serializer="json",
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(number: int) -> None:
    ran(number)


async def single(number: int) -> None:
    noop.delay(number)


if __name__ == "__main__":
    main(Submits(single, together=False))
