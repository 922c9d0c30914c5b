"""Listings: pages over the indexes, merged over the partitions, with cursors that stay right while jobs move.

A job that waits in a flow is in no index of its own kind: `flows:<lane>` names the queues that are not empty.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from gateway.errors import Fault, InvalidRequest
from gateway.jobs import Page, Record, Status
from gateway.store.refusals import answered
from gateway.store.store import Store

WINDOW = 500
"""Entries that one call looks through for a filter without an index; a short page still carries a cursor."""

Order = Literal["up", "down", "queues"]


@dataclass(frozen=True, slots=True)
class Index:
    """What a listing walks: a sorted set by rank or by time (`down`: newest first), or the flows' queues of a lane."""

    name: str
    order: Order


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Just after which entry the next page starts; `queue` is `<target>:<key>` where it waits in a flow."""

    index: int
    score: str
    job_id: str
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs a listing is of: `keep` is asked of each that the other fields let pass."""

    status: Status | None = None
    lane: str | None = None
    target: str | None = None
    keep: Callable[[Record], bool] = lambda record: True

    def accepts(self, record: Record) -> bool:
        return (
            (self.status is None or record.status == self.status)
            and (self.lane is None or record.lane == self.lane)
            and (self.target is None or record.target == self.target)
            and self.keep(record)
        )


def parse_cursor(text: str | None) -> Cursor:
    """The cursor of an earlier page, or the start; raises InvalidRequest if it is not one of ours."""
    if not text:
        return Cursor(0, "", "")
    try:
        cursor = msgspec.json.decode(base64.urlsafe_b64decode(text.encode()), type=Cursor)
        if cursor.index < 0 or not math.isfinite(float(cursor.score or 0)):
            raise ValueError("out of range")
        return cursor
    except (msgspec.DecodeError, binascii.Error, UnicodeError, ValueError) as error:
        raise InvalidRequest("bad query", faults=[Fault("cursor", "not a cursor that this API gave out")]) from error


def _format_cursor(cursor: Cursor) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()


def indexes_of(wanted: Wanted, lanes: Sequence[str]) -> list[Index]:
    """The indexes that hold such jobs, in the order in which a listing walks them."""
    waiting = [
        index
        for lane in lanes
        if wanted.lane in (None, lane)
        for index in (Index(f"suspect:{lane}", "up"), Index(f"lane:{lane}", "up"), Index(lane, "queues"))
    ]
    dead = Index("dead" if wanted.target is None else f"dead:{wanted.target}", "down")
    running, due, done = Index("leases", "down"), Index("due", "up"), Index("done", "down")
    if wanted.status is None:
        return [running, *waiting, due, dead, done]
    if wanted.status == Status.PENDING:
        return waiting
    if wanted.status in (Status.SCHEDULED, Status.RETRYING):
        return [due]
    return [{Status.RUNNING: running, Status.DEAD: dead}.get(wanted.status, done)]


async def list_jobs(
    store: Store,
    status: Status | None,
    *,
    limit: int,
    cursor: str | None = None,
    lane: str | None = None,
    target: str | None = None,
    keep: Callable[[Record], bool] = lambda record: True,
) -> Page:
    """Up to `limit` records, without payload and result. Raises InvalidRequest on a foreign cursor.

    Pending jobs come lane by lane, first the plain ones by rank, then those of targets with flows by target, key and
    rank. A job that moves between indexes meanwhile may be met twice or not at all; one that stays is met once.
    """
    wanted = Wanted(status, lane, target, keep)
    indexes = indexes_of(wanted, await _lanes(store))
    at = parse_cursor(cursor)
    found: list[Record] = []
    looked = 0
    while at.index < len(indexes):
        entries = await _merged(store, indexes[at.index], at, target=target or "", most=min(limit * 2, WINDOW))
        if not entries:
            at = Cursor(at.index + 1, "", "")
            continue
        for record, entry in await _records(store, entries):
            at = entry
            looked += 1
            if record is not None and wanted.accepts(record):
                found.append(record)
                if len(found) == limit:
                    return Page(tuple(found), _format_cursor(at))
        if looked >= WINDOW:
            return Page(tuple(found), _format_cursor(at))
    return Page(tuple(found), None)


async def _lanes(store: Store) -> list[str]:
    """The configured lanes, then those of earlier configurations, which drain last."""
    known = await answered(cast("Any", store.client.hget(store.control.conf, "lanes")))
    earlier = [lane for lane in (known or b"").decode().split(",") if lane]
    return list(dict.fromkeys([*store.lanes, *earlier]))


async def _records(store: Store, entries: Sequence[Cursor]) -> list[tuple[Record | None, Cursor]]:
    jobs = [entry.job_id for entry in entries if entry.job_id[0] not in "!~"]
    found = dict(zip(jobs, await store.find_many(jobs, short=True), strict=True)) if jobs else {}
    out: list[tuple[Record | None, Cursor]] = []
    for entry in entries:
        hit = found.get(entry.job_id)
        out.append((hit.record if hit else None, entry))
    return out


async def _merged(store: Store, index: Index, after: Cursor, *, target: str, most: int) -> list[Cursor]:
    """The next entries of an index over all partitions."""
    if index.order == "queues":
        pages = await store.everywhere(
            "list_queued", [index.name, after.queue, after.score, after.job_id, target, most]
        )
        entries = [
            Cursor(after.index, page[i + 1].decode(), page[i].decode(), page[i + 2].decode())
            for page in pages
            for i in range(0, len(page), 3)
        ]
    else:
        pages = await store.everywhere("list", [index.name, index.order, after.score, after.job_id, most])
        entries = [
            Cursor(after.index, page[i + 1].decode(), page[i].decode())
            for page in pages
            for i in range(0, len(page), 2)
        ]
    entries.sort(
        key=lambda entry: (entry.queue.encode(), float(entry.score), entry.job_id), reverse=index.order == "down"
    )
    return entries[:most]
