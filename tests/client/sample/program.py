"""A user's program, for the type checkers: what it does is not run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from gateway.client import (
    Accepted,
    AsyncGateway,
    BatchResult,
    Gateway,
    JobBody,
    JobRecord,
    JobSummary,
    Unavailable,
    WaitTimeout,
    verify_callback,
)
from gateway.client.answers import ScheduleRecord, TargetShown


def main() -> None:
    with Gateway("https://gateway.example", key="gwk_…") as gateway:
        job = gateway.submit(
            "resize",
            {"id": 7},
            lane="critical",
            delay=timedelta(minutes=10),
            retry={"policy": "fixed", "base": "1s"},
            callback={"url": "https://shop.example/callbacks", "events": ["job.succeeded"]},
            tags=["a"],
        )
        assert_type(job, Accepted)
        try:
            record = gateway.wait(job.job_id, timeout_s=30)
        except WaitTimeout as late:
            assert_type(late.job_id, str)
            return
        except Unavailable as away:
            assert_type(away.idempotency_key, str | None)
            return
        assert_type(record, JobRecord)
        assert_type(record.finished_at, datetime | None)
        bodies: list[JobBody] = [{"target": "resize", "payload": n, "run_at": datetime.now(UTC)} for n in range(10)]
        assert_type(gateway.submit_many(bodies), list[BatchResult])
        assert_type(gateway.jobs(status="dead", tag="a"), Iterator[JobSummary])
        assert_type(gateway.targets.pause("resize"), TargetShown)
        assert_type(gateway.schedules.put("nightly", cron="@daily", target="resize"), ScheduleRecord)
        assert_type(gateway.dlq.replay(reason="exhausted", rate="50/s").replay_id, str)


async def amain() -> None:
    async with AsyncGateway(key="gwk_…") as gateway:
        assert_type(await gateway.submit("resize"), Accepted)
        assert_type(await gateway.run("resize", timeout_s=5), JobRecord)
        async for dead in gateway.dlq.all(target="resize"):
            assert_type(dead, JobSummary)
            await gateway.retry(dead.job_id)


def receive(headers: dict[str, str], body: bytes) -> dict[str, Any]:
    return verify_callback(headers, body, "whsec_…")


if __name__ == "__main__":
    main()
    asyncio.run(amain())
