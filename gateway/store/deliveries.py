"""The last deliveries of each trigger, in the control partition: noted, listed newest first, looked up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import msgspec

from gateway.deliveries import Summary
from gateway.errors import NotFound, StoreError
from gateway.store.refusals import answered
from gateway.store.scripts import Arg
from gateway.store.store import Store

List = Literal["deliveries", "rejections"]
"""Rejections have what else is listed apart with them."""

KEPT_MS = 7 * 86_400_000
"""For how long a trigger's lists are kept after the last entry."""

BATCH = 20
MOST_REJECTIONS = 50

ENTRY_ID = re.compile(r"(r?)([0-9]{1,15}-[0-9]{1,10})\Z", re.ASCII)
"""A delivery's id; `r` before that of what is listed apart."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a list."""

    trigger: str
    list: List
    keep: int
    summary: bytes
    detail: bytes


async def record_deliveries(store: Store, entries: Sequence[Entry]) -> list[str]:
    """Notes them, and drops what is too old: their ids, in order. Raises StoreError."""
    ids: list[str] = []
    for first in range(0, len(entries), BATCH):
        args: list[Arg] = [KEPT_MS]
        for entry in entries[first : first + BATCH]:
            args += (entry.list, entry.trigger, entry.keep, entry.summary, entry.detail)
        batch = entries[first : first + BATCH]
        found = await store.run("delivery_record", store.control, args)
        ids += [_mark(entry.list) + each.decode() for entry, each in zip(batch, found, strict=True)]
    return ids


async def list_deliveries(
    store: Store, trigger: str, which: List, *, before: str = "", limit: int
) -> list[tuple[str, Summary]]:
    """Up to `limit` entries older than the id `before`, the newest first."""
    space = store.control
    key = space.deliveries(trigger) if which == "deliveries" else space.rejections(trigger)
    newest = f"({before}" if before else "+"
    found = await answered(store.client.xrevrange(key, max=newest, count=limit))
    return [(_mark(which) + each.decode(), _summary(fields)) for each, fields in cast("list[Any]", found)]


async def find_delivery(store: Store, trigger: str, delivery_id: str) -> tuple[Summary, bytes]:
    """The summary and the detail of one; raises NotFound."""
    parts = ENTRY_ID.match(delivery_id)
    if parts is not None:
        space, entry_id = store.control, parts[2]
        key = space.rejections(trigger) if parts[1] else space.deliveries(trigger)
        found = cast("list[Any]", await answered(store.client.xrange(key, min=entry_id, max=entry_id, count=1)))
        detail = cast("bytes | None", await answered(store.client.get(space.delivery(trigger, entry_id))))
        if found and detail is not None:
            return _summary(found[0][1]), detail
    raise NotFound(f"trigger {trigger!r} has no delivery {delivery_id[:64]!r} (any more)")


def _mark(which: str) -> str:
    return "r" if which == "rejections" else ""


def _summary(fields: dict[bytes, bytes]) -> Summary:
    try:
        return msgspec.json.decode(fields[b"s"], type=Summary)
    except (msgspec.MsgspecError, KeyError) as exc:
        raise StoreError("a delivery in Redis cannot be read: upgrade this process") from exc
