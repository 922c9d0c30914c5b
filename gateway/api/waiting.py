"""Holding an answer until its job is over (`Prefer: wait=N`)."""

from __future__ import annotations

import asyncio

import structlog
from starlette.types import Receive, Scope

from gateway.api.bodies import ClientGone
from gateway.api.call import STORE_S, Call
from gateway.api.scope import EOF
from gateway.errors import NotFound, StoreError
from gateway.jobs import Record

log = structlog.get_logger(__name__)


async def await_record(call: Call, job_id: str, wait_s: float) -> Record | None:
    """The job's record as soon as it is over, else as it is after `wait_s`, when this process stops, or when the client
    has closed its way of the connection.

    None if it cannot be read: the job was taken in all the same. Raises ClientGone if nobody waits any more.
    """
    over = asyncio.ensure_future(call.gateway.waits.until_over(job_id, wait_s))
    gone = asyncio.ensure_future(client_gone(call.scope, call.receive))
    try:
        await asyncio.wait([over, gone], return_when=asyncio.FIRST_COMPLETED)
        if not over.done() and not call.scope.get(EOF):
            raise ClientGone
        if over.done():
            over.result()
    except StoreError as error:
        log.warning("a wait was cut short", job_id=job_id, error=str(error))
    finally:
        over.cancel()
        gone.cancel()
        await asyncio.gather(over, gone, return_exceptions=True)
    call.store_s = STORE_S
    try:
        return (await call.in_time(lambda: call.gateway.store.find(job_id))).record
    except (StoreError, NotFound) as error:
        log.warning("a job that was waited for cannot be read", job_id=job_id, error=str(error))
        return None


async def client_gone(scope: Scope, receive: Receive) -> None:
    """Returns once the client has closed its connection, or its way of it, which looks the same."""
    while not scope.get(EOF) and (await receive())["type"] != "http.disconnect":
        pass
