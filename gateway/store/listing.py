"""Listings: pages over the indexes, merged over the partitions, with cursors that stay right while jobs move."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from gateway.errors import Fault, InvalidRequest
from gateway.jobs import Page, Record, Status
from gateway.store.scripts import Arg, run
from gateway.store.store import Store

WINDOW = 500
"""Entries that one call looks through for a filter without an index; a short page still carries a cursor."""


@dataclass(frozen=True, slots=True)
class Index:
    """A sorted set that listings walk: waiting ones by rank, the others newest first."""

    name: str
    order: str


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Just after which entry the next page starts."""

    index: int
    score: str
    job_id: str


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


def indexes_of(status: Status | None, lanes: Sequence[str]) -> list[Index]:
    """The indexes that hold the jobs of a status (None: of any), in the order in which a listing walks them."""
    waiting = [Index(f"{kind}:{lane}", "up") for lane in lanes for kind in ("suspect", "lane")]
    running, due = Index("leases", "down"), Index("due", "up")
    dead, done = Index("dead", "down"), Index("done", "down")
    if status is None:
        return [running, *waiting, due, dead, done]
    if status == Status.PENDING:
        return waiting
    if status in (Status.SCHEDULED, Status.RETRYING):
        return [due]
    return [{Status.RUNNING: running, Status.DEAD: dead}.get(status, done)]


async def list_jobs(
    store: Store,
    status: Status | None,
    *,
    limit: int,
    cursor: str | None = None,
    keep: Callable[[Record], bool] = lambda record: True,
) -> Page:
    """Up to `limit` records that `keep` accepts. Raises InvalidRequest on a foreign cursor.

    A job that moves between indexes while it is listed may be met twice or not at all; one that stays is met once.
    """
    indexes = indexes_of(status, store.lanes)
    at = parse_cursor(cursor)
    found: list[Record] = []
    looked = 0
    while at.index < len(indexes):
        entries = await _merged(store, indexes[at.index], at, most=min(limit * 2, WINDOW))
        if not entries:
            at = Cursor(at.index + 1, "", "")
            continue
        for record, entry in await _records(store, entries, at.index):
            at = entry
            looked += 1
            if record is not None and (status is None or record.status == status) and keep(record):
                found.append(record)
                if len(found) == limit:
                    return Page(tuple(found), _format_cursor(at))
        if looked >= WINDOW:
            return Page(tuple(found), _format_cursor(at))
    return Page(tuple(found), None)


async def _records(store: Store, entries: Sequence[tuple[str, str]], index: int) -> list[tuple[Record | None, Cursor]]:
    jobs = [job_id for job_id, _ in entries if job_id[0] not in "!~"]
    found = dict(zip(jobs, await store.find_many(jobs), strict=True)) if jobs else {}
    out: list[tuple[Record | None, Cursor]] = []
    for job_id, score in entries:
        hit = found.get(job_id)
        out.append((hit.record if hit else None, Cursor(index, score, job_id)))
    return out


async def _merged(store: Store, index: Index, after: Cursor, *, most: int) -> list[tuple[str, str]]:
    entries: list[tuple[str, str]] = []
    for keyspace in store.keyspaces:
        args: list[Arg] = [index.name, index.order, after.score, after.job_id, most]
        reply = await run(store.client, "list", keyspace.prefix, args)
        entries.extend((reply[i].decode(), reply[i + 1].decode()) for i in range(0, len(reply), 2))
    entries.sort(key=lambda entry: (float(entry[1]), entry[0]), reverse=index.order == "down")
    return entries[:most]
