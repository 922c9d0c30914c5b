"""Cancelling many jobs: those named, or whatever waits or runs and fits."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import typer

from gateway.cli.printing import progress
from gateway.cli.session import Session
from gateway.client import AsyncGateway
from gateway.client.calls.jobs import list_jobs
from gateway.errors import NotFound, WrongState
from gateway.jobs import Status

UNFINISHED = (Status.SCHEDULED, Status.RETRYING, Status.PENDING, Status.RUNNING)
"""What can be cancelled; running jobs last, since each that ends makes room for one that waits."""

_AT_ONCE = 20
_PAGE = 100


def cancel_each(session: Session, job_ids: list[str]) -> None:
    """Cancels the named jobs; exits with 1 if one of them could not be."""
    told = session.run(lambda gateway: _cancel(gateway, job_ids))
    refused = {job_id: verdict for job_id, verdict in told.items() if verdict not in _DONE}
    session.done({**_by_verdict(told), "refused": refused}, _text(told))
    if refused and not session.as_json:
        print("\n".join(f"gateway: {detail}" for detail in refused.values()), file=sys.stderr)
    if refused:
        raise typer.Exit(1)


def cancel_all(session: Session, wanted: Mapping[str, Any], statuses: Iterable[Status]) -> None:
    """Cancels every job of one of these statuses that fits; what ended meanwhile is left as it is."""
    told = session.run(lambda gateway: _cancel_all(gateway, wanted, statuses))
    session.done({name: len(ids) for name, ids in _by_verdict(told).items()}, _text(told))


_DONE = ("cancelled", "asked")


def _by_verdict(told: Mapping[str, str]) -> dict[str, list[str]]:
    return {name: [job_id for job_id, verdict in told.items() if verdict == name] for name in _DONE}


def _text(told: Mapping[str, str]) -> str:
    cancelled, asked = (len(ids) for ids in _by_verdict(told).values())
    return f"{cancelled} cancelled" + (f", {asked} run and were asked to stop" if asked else "")


async def _cancel_all(gateway: AsyncGateway, wanted: Mapping[str, Any], statuses: Iterable[Status]) -> dict[str, str]:
    told: dict[str, str] = {}
    with progress("jobs") as bar:
        task = bar.add_task("", total=None)
        for status in statuses:
            listing = list_jobs(_PAGE, **{**wanted, "status": status.value})
            cursor: str | None = None
            while True:
                items, cursor = listing.raw(await gateway.call(listing.at(cursor)))
                told |= await _cancel(gateway, [job.job_id for job in listing.typed(items)])
                bar.update(task, completed=len(told))
                if cursor is None:
                    break
    return told


async def _cancel(gateway: AsyncGateway, job_ids: Iterable[str]) -> dict[str, str]:
    """What became of each: `cancelled`, `asked`, or why it could not be."""
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(job_id: str) -> str:
        async with turn:
            try:
                answer = await gateway.cancel(job_id)
            except (NotFound, WrongState) as error:
                return str(error)
        return "cancelled" if answer.status == "cancelled" else "asked"

    ids = list(dict.fromkeys(job_ids))
    return dict(zip(ids, await asyncio.gather(*map(one, ids)), strict=True))
