"""Submitting from the command line: one job, or a file of them with a progress bar."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import typer

from gateway.cli.printing import print_bytes, print_json, printable, progress
from gateway.cli.session import Session
from gateway.cli.waiting import ENDED_BADLY
from gateway.client import AsyncGateway
from gateway.client.answers import BatchResult
from gateway.client.bodies import JobBody, JobOptions
from gateway.client.calls import jobs as calls
from gateway.client.calls.jobs import MOST_IN_BATCH
from gateway.client.opening import RETRIES, keyed
from gateway.jobs import Status

_SHOWN = 10


def submit_one(
    session: Session, target: str, payload: msgspec.Raw | None, options: JobOptions, *, wait_s: float
) -> None:
    """Prints the job's id, or once it is over its status."""
    options = keyed(options, retries=RETRIES)
    if not wait_s:
        session.show(calls.submit(target, payload, options), lambda accepted: print(accepted.job_id))
        return
    record = session.run(lambda gateway: _ended(gateway, target, payload, options, wait_s))
    if session.as_json:
        print_bytes(record)
    facts = msgspec.json.decode(record, type=dict[str, Any])
    if not session.as_json:
        print(facts["job_id"], facts["status"], printable(facts.get("result", facts.get("error"))))
    if facts["status"] != Status.SUCCEEDED:
        raise typer.Exit(ENDED_BADLY)


def submit_all(session: Session, bodies: list[JobBody]) -> None:
    """Prints what became of the jobs; exits with 1 if one was not taken in."""
    results = session.run(lambda gateway: _submit(gateway, bodies))
    failed = [(at, each.error) for at, each in enumerate(results, 1) if each.error is not None]
    duplicates = sum(each.duplicate for each in results)
    if session.as_json:
        counts = {"accepted": len(results) - len(failed) - duplicates, "duplicates": duplicates, "failed": len(failed)}
        print_json({**counts, "results": results})
    else:
        print(f"{len(results) - len(failed)} jobs taken in, {duplicates} of them before; {len(failed)} refused")
        for at, error in failed[:_SHOWN]:
            more = "; ".join(f"{each.pointer}: {each.detail}" for each in error.errors if each.pointer)
            print(f"gateway: job {at}: {printable(more or error.detail)}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


async def _submit(gateway: AsyncGateway, bodies: list[JobBody]) -> list[BatchResult]:
    results: list[BatchResult] = []
    with progress("jobs") as bar:
        task = bar.add_task("", total=len(bodies))
        for at in range(0, len(bodies), MOST_IN_BATCH):
            results += await gateway.submit_many(bodies[at : at + MOST_IN_BATCH])
            bar.update(task, completed=len(results))
    return results


async def _ended(
    gateway: AsyncGateway, target: str, payload: msgspec.Raw | None, options: JobOptions, wait_s: float
) -> bytes:
    """The record as the gateway gave it."""
    record = await gateway.run(target, payload, timeout_s=wait_s, **options)
    return await gateway.call(calls.get(record.job_id).read_by(bytes))
