"""Following what happens: to one job until it is over, or to all jobs until Ctrl-C."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from gateway.cli.printing import print_json, printable, rfc3339
from gateway.cli.session import Session
from gateway.client import AsyncGateway
from gateway.client.answers import Event
from gateway.jobs import Status

_PAUSES_S = (0.05, 1.0)


def follow_job(session: Session, job_id: str) -> Status:
    """Prints what happened and what happens, until the job is over: the status that it ended with."""
    return session.run(lambda gateway: _follow_job(gateway, job_id, as_json=session.as_json))


def follow_all(session: Session, wanted: dict[str, str]) -> None:
    """Prints whatever happens from now on."""

    async def follow(gateway: AsyncGateway) -> None:
        async for event in gateway.follow(**wanted):
            facts = {name: value for name, value in msgspec.structs.asdict(event).items() if value not in (None, "", 0)}
            if session.as_json:
                print_json(facts | {"at": rfc3339(event.at)} if event.at else facts)
            else:
                head = [printable(facts.pop(name, "-")) for name in ("at", "type", "job_id", "target")]
                print(*head, *_rest(facts), flush=True)

    session.run(follow)


async def _follow_job(gateway: AsyncGateway, job_id: str, *, as_json: bool) -> Status:
    shown, pause_s = 0, _PAUSES_S[0]
    while True:
        status = (await gateway.status(job_id)).status  # before the timeline, so that this has the end too
        events = (await gateway.events(job_id)).events
        for event in events[shown:]:
            _show(event, as_json=as_json)
        if status.finished:
            return status
        pause_s = _PAUSES_S[0] if len(events) > shown else min(_PAUSES_S[1], pause_s * 1.5)
        shown = len(events)
        await asyncio.sleep(pause_s)


def _show(event: Event, *, as_json: bool) -> None:
    facts = event.facts | ({"attempt": event.attempt} if event.attempt else {})
    if as_json:
        print_json({"type": event.type, "at": rfc3339(event.at), **facts})
    else:
        print(printable(event.at), event.type, *_rest(facts), flush=True)


def _rest(facts: dict[str, Any]) -> list[str]:
    return [f"{name}={printable(value)}" for name, value in facts.items()]
