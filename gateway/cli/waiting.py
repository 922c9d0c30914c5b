"""Waiting for jobs, many at once, with a progress bar."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from gateway.cli.printing import progress
from gateway.cli.session import Session
from gateway.client import AsyncGateway
from gateway.client.calls import jobs as calls

ENDED_BADLY = 3
"""What a command exits with when a job that it waited for did not succeed."""

_AT_ONCE = 20


def wait_for(session: Session, job_ids: list[str], timeout_s: float) -> list[dict[str, Any]]:
    """The records, in order, once all of these jobs are over. Raises WaitTimeout or NotFound."""
    return session.run(lambda gateway: _wait(gateway, job_ids, timeout_s))


async def _wait(gateway: AsyncGateway, job_ids: list[str], timeout_s: float) -> list[dict[str, Any]]:
    turn = asyncio.Semaphore(_AT_ONCE)
    until_s = asyncio.get_running_loop().time() + timeout_s
    with progress("jobs") as bar:
        task = bar.add_task("", total=len(job_ids))

        async def one(job_id: str) -> dict[str, Any]:
            async with turn:
                left_s = max(0.0, until_s - asyncio.get_running_loop().time())
                await gateway.wait(job_id, timeout_s=left_s)
                record = await gateway.call(calls.get(job_id).read_by(_fields))
            bar.advance(task)
            return record

        try:
            async with asyncio.TaskGroup() as group:
                waits = [group.create_task(one(job_id)) for job_id in job_ids]
        except* Exception as errors:
            raise errors.exceptions[0] from None
    return [wait.result() for wait in waits]


def _fields(body: bytes) -> dict[str, Any]:
    """The record's fields as they came."""
    return msgspec.json.decode(body, type=dict[str, Any]) | {
        name: raw
        for name, raw in msgspec.json.decode(body, type=dict[str, msgspec.Raw]).items()
        if name in ("payload", "result")
    }
