"""Sending dead jobs back, and purging them: one by one, or by filter with a progress bar."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import typer

from gateway.cli.printing import print_json, progress
from gateway.cli.session import Session
from gateway.client import AsyncGateway
from gateway.client.answers import ReplayStarted, ReplayState
from gateway.client.bodies import DeadFilter
from gateway.client.call import Call
from gateway.client.calls import dlq as calls
from gateway.errors import RequestError

_ASK_S = 0.3


def retry_each(session: Session, job_ids: list[str], max_attempts: int | None) -> None:
    """Sends the named jobs back; exits with 1 if one of them could not be."""
    _each(session, "retried", job_ids, lambda gateway, job_id: gateway.retry(job_id, max_attempts=max_attempts))


def purge_each(session: Session, job_ids: list[str]) -> None:
    """Purges the named jobs; exits with 1 if one of them could not be."""
    _each(session, "purged", job_ids, lambda gateway, job_id: gateway.dlq.purge(job_id))


def replay_all(session: Session, order: Call[ReplayStarted], *, wait: bool) -> None:
    """Starts a bulk replay; with `wait` it is seen to its end."""
    if not wait:
        session.show(order, lambda started: print(_under_way(started.replay_id)))
        return
    state = session.run(lambda gateway: _carried(gateway, order))
    counts = {"replay_id": state.replay_id, "state": state.state}
    counts |= {name: getattr(state, name) for name in ("matched", "replayed", "skipped")}
    session.done(counts, f"{state.replayed} of {state.matched} dead jobs sent back ({state.state})")


def _under_way(replay_id: str) -> str:
    return f"replay {replay_id} is under way; how far it is: gateway dlq replay {replay_id}"


def purge_all(session: Session, wanted: DeadFilter) -> None:
    """Purges every dead job that fits."""
    purged = session.run(lambda gateway: _purged(gateway, wanted))
    session.done({"purged": purged}, f"{purged} purged")


def _each(session: Session, done: str, job_ids: list[str], act: Callable[[AsyncGateway, str], Awaitable[Any]]) -> None:
    async def run(gateway: AsyncGateway) -> dict[str, str]:
        refused = {}
        for job_id in job_ids:
            try:
                await act(gateway, job_id)
            except RequestError as error:
                if error.status not in (404, 409):
                    raise
                refused[job_id] = str(error)
        return refused

    refused = session.run(run)
    if session.as_json:
        print_json({done: [each for each in job_ids if each not in refused], "refused": refused})
    else:
        print(f"{len(job_ids) - len(refused)} {done}")
        for detail in refused.values():
            print(f"gateway: {detail}", file=sys.stderr)
    if refused:
        raise typer.Exit(1)


async def _carried(gateway: AsyncGateway, order: Call[ReplayStarted]) -> ReplayState:
    started = await gateway.call(order)
    with progress("dead jobs") as bar:
        task = bar.add_task("", total=None)
        while True:
            state = await gateway.dlq.replay_state(started.replay_id)
            bar.update(task, completed=state.replayed + state.skipped)
            if state.state != "running":
                return state
            await asyncio.sleep(_ASK_S)


async def _purged(gateway: AsyncGateway, wanted: DeadFilter) -> int:
    purged, cursor = 0, None
    with progress("purged") as bar:
        task = bar.add_task("", total=(await gateway.stats()).dead)
        while True:
            some = await gateway.call(calls.purge_some(wanted, cursor))
            purged, cursor = purged + some.purged, some.next_cursor
            bar.update(task, completed=purged)
            if cursor is None:
                return purged
