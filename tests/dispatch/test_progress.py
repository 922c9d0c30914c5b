"""Progress: what a running attempt says of itself shows in its record."""

from __future__ import annotations

from tests.dispatch.running import Dispatching
from tests.dispatch.tasks import Stage
from tests.waiting import until


async def test_latest_progress_shows_while_the_job_runs(running: Dispatching, namespace: str, stage: Stage) -> None:
    client = running.client
    job_id = await client.submit("advance", {"stage": namespace})

    async def shown() -> bool:
        return (await client.record(job_id)).progress == b'{"done":2,"of":3}'

    await until(shown)
    assert (await client.record(job_id)).status == "running"
    stage.go.set()
    assert (await client.ended(job_id)).result == b'"done"'


async def test_too_much_progress_fails_the_attempt(running: Dispatching, namespace: str, stage: Stage) -> None:
    job_id = await running.client.submit("advance", {"stage": namespace, "too_much": True}, max_attempts=1)
    record = await running.client.ended(job_id)
    assert record.status == "dead"
    assert b"1024 bytes" in record.error


async def test_progress_of_a_lost_job_is_not_taken(running: Dispatching, namespace: str, stage: Stage) -> None:
    job_id = await running.client.submit("hold", {"stage": namespace})
    await running.client.reached(job_id, "running")
    worker = running.client.worker(running.settings)
    await worker.progress([(job_id, "1:someone-else.1", '{"done":9}')])
    assert (await running.client.record(job_id)).progress == b""
    stage.go.set()
