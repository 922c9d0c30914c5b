"""`GET /events`: what happens to jobs, as it happens, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import structlog
from starlette.types import Receive, Scope, Send

from gateway.api.call import Call
from gateway.api.problems import Refused, problem_reply
from gateway.api.query import Query
from gateway.api.reply import Stream, send_reply
from gateway.api.scope import ABORT
from gateway.api.waiting import client_gone
from gateway.errors import StoreError
from gateway.store.events import EventFeed, Position, parse_position
from gateway.store.follower import KINDS, Follower, LiveEvent
from gateway.timestamps import timestamp

log = structlog.get_logger(__name__)

STREAMS_MOST = 200
"""Streams that one process serves at once."""

MESSAGES_MOST = 10_000
"""Messages that may wait for a reader, about 2.5 MB; one that has more waiting is dropped."""

KEEP_ALIVE_S = 15.0
LIFE_S = 3600.0
"""After this a stream ends, so that its key is looked at again; clients go on by themselves, and miss nothing."""

SEND_S = 10.0
_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"connection", b"close"),
)
_STILL_HERE = b": still here\n\n"
_HELLO = b"retry: 1000\n: events of jobs, as they happen\n\n"
_GAP = b'event: gap\ndata: {"detail":"events before this point were missed; GET /jobs shows how jobs stand"}\n\n'
_DROPPED = b'event: dropped\ndata: {"detail":"the reader did not keep up; connect again to go on where it was"}\n\n'


async def follow(call: Call) -> Stream:
    """A stream of events, after `Last-Event-ID` if one is given; 503 where too many follow."""
    feed = call.gateway.events
    query = Query(call.scope["query_string"], ("type", "target", "lane", "job_id"))
    wants = _filter(query)
    query.done()
    since = _position(call)
    if feed.followers >= STREAMS_MOST:
        raise Refused(503, f"{STREAMS_MOST} streams are open here; try again later", headers=((b"retry-after", b"5"),))
    await call.in_time(call.gateway.gate.require)
    follower = Follower(wants=wants, render=_render, gap=_GAP, most=MESSAGES_MOST)
    return Stream(_Streaming(feed, follower, since).run)


@dataclass(frozen=True, slots=True)
class _Streaming:
    """One stream on its way out."""

    feed: EventFeed
    follower: Follower
    since: Position | None

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends until the client is gone, does not keep up, or the stream's life is over."""
        head = {"type": "http.response.start", "status": 200, "headers": _HEADERS}
        if scope["method"] == "HEAD":
            await send(head)
            await send({"type": "http.response.body", "body": b""})
            return
        try:
            async with self.feed.follow(self.follower, self.since):
                await send(head)
                await self._send_all(scope, receive, send)
        except StoreError as error:
            await send_reply(problem_reply(error), send)
        except TimeoutError:
            log.info("events: a reader took nothing and was dropped")
            if (abort := scope.get(ABORT)) is not None:
                abort()

    async def _send_all(self, scope: Scope, receive: Receive, send: Send) -> None:
        clock = asyncio.get_running_loop().time
        over_s = clock() + LIFE_S
        gone = asyncio.ensure_future(client_gone(scope, receive))
        gone.add_done_callback(lambda _: self.follower.end("gone"))
        try:
            await _send_in_time(send, _HELLO)
            while self.follower.ended is None and clock() < over_s:
                messages = await self.follower.next(KEEP_ALIVE_S)
                if self.follower.ended != "gone":
                    await _send_in_time(send, b"".join(messages) or _STILL_HERE)
            if self.follower.ended == "slow":
                await _send_in_time(send, _DROPPED)
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)


async def _send_in_time(send: Send, body: bytes) -> None:
    """Raises TimeoutError if the client takes nothing for too long."""
    async with asyncio.timeout(SEND_S):
        await send({"type": "http.response.body", "body": body, "more_body": True})


def _position(call: Call) -> Position | None:
    text = call.headers.one(b"last-event-id")
    if not text:
        return None
    try:
        return parse_position(text.decode("latin-1"), call.gateway.store.partitions)
    except ValueError as exc:
        raise Refused(400, "Last-Event-ID is not one that this installation gave out; leave it out") from exc


def _render(event: LiveEvent) -> bytes:
    facts: dict[str, Any] = {
        "type": event.type,
        "at": timestamp(event.at_ms),
        "job_id": event.job_id,
        "target": event.target,
        "lane": event.lane,
    }
    if event.attempt:
        facts["attempt"] = event.attempt
    if event.note:
        facts |= {"delay_ms": int(event.note)} if event.type == "retrying" else {"reason": event.note}
    return b"id: %b\ndata: %b\n\n" % (event.position.encode(), orjson.dumps(facts))


def _filter(query: Query) -> Callable[[LiveEvent], bool]:
    kinds = query.some_of("type", KINDS)
    target, lane, job_id = query.text("target"), query.text("lane"), query.text("job_id")

    def wants(event: LiveEvent) -> bool:
        return (
            (not kinds or event.type in kinds)
            and (target is None or event.target == target)
            and (lane is None or event.lane == lane)
            and (job_id is None or event.job_id == job_id)
        )

    return wants
