"""Bulk replays of dead jobs: start one, see how far it is, stop it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gateway.api.call import Call
from gateway.api.json_bodies import whole_body
from gateway.api.reply import Reply, json_reply
from gateway.jobs import Reason
from gateway.keys import NAME
from gateway.limits import Rate
from gateway.store.replays import Replay, ReplayOrder, find_replay, start_replay, stop_replay
from gateway.submission.body import Attempts, Instant
from gateway.submission.faults import Faults
from gateway.submission.instants import read_instant
from gateway.timestamps import timestamp

DEFAULT_RATE = "100/s"


class ReplayFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which dead jobs: what is left out does not matter; times are of their death, both included."""

    target: str | None = None
    reason: Reason | None = None
    dead_after: Instant | None = None
    dead_before: Instant | None = None


class ReplayOverrides(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the jobs have instead of what they had."""

    max_attempts: Attempts | None = None


class RetryBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one dead job is sent back."""

    overrides: ReplayOverrides | None = None


class ReplayBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bulk replay: of all dead jobs where the filter, which must be there, is empty; 100 a second without a rate."""

    filter: ReplayFilter | None = None
    limit: Annotated[int, Meta(ge=1, le=100_000_000)] | None = None
    rate: Rate | None = None
    overrides: ReplayOverrides | None = None


async def start(call: Call) -> Reply:
    """202 with the replay's id; dispatchers carry it on."""
    body, faults = await whole_body(call, ReplayBody)
    order = _order(body, faults)
    replay_id = await call.in_time(lambda: start_replay(call.gateway.store, order))
    call.gateway.transitions.one("replay started", replay_id=replay_id, target=order.target, rate=order.rate)
    return json_reply({"replay_id": replay_id, "state": "running"}, 202)


async def show(call: Call) -> Reply:
    """How far it is."""
    replay_id = call.path_value("replay_id")
    return json_reply(_render(await call.in_time(lambda: find_replay(call.gateway.store, replay_id))))


async def stop(call: Call) -> Reply:
    """How far it came; it sends nothing more back."""
    replay_id = call.path_value("replay_id")
    return json_reply(_render(await call.in_time(lambda: stop_replay(call.gateway.store, replay_id))))


def read_filter(given: ReplayFilter | None, faults: Faults) -> tuple[ReplayFilter, int | None, int | None]:
    """The filter, and its instants in Unix ms; what is wrong with it goes into `faults`."""
    wanted = given or ReplayFilter()
    if given is None and not faults.touch("/filter"):
        faults.add("/filter", "is missing; say which dead jobs, or write {} for all of them")
    after_ms = _instant(wanted.dead_after, "/filter/dead_after", faults)
    before_ms = _instant(wanted.dead_before, "/filter/dead_before", faults)
    if wanted.target is not None and NAME.match(wanted.target) is None:
        faults.add("/filter/target", f"{wanted.target[:64]!r} is no name of a target")
    if after_ms is not None and before_ms is not None and after_ms > before_ms:
        faults.add("/filter/dead_before", "lies before dead_after; nothing could match")
    return wanted, after_ms, before_ms


def _order(body: ReplayBody, faults: Faults) -> ReplayOrder:
    wanted, after_ms, before_ms = read_filter(body.filter, faults)
    faults.raise_any()
    overrides = body.overrides or ReplayOverrides()
    return ReplayOrder(
        rate=str(body.rate or DEFAULT_RATE),
        target=wanted.target or "",
        reason=wanted.reason.value if wanted.reason else "",
        dead_after_ms=after_ms,
        dead_before_ms=before_ms,
        limit=body.limit,
        max_attempts=overrides.max_attempts,
    )


def _instant(at: datetime | float | None, pointer: str, faults: Faults) -> int | None:
    if at is None:
        return None
    at_s = read_instant(at, pointer, faults)
    return None if at_s is None else round(at_s * 1000)


def _render(replay: Replay) -> dict[str, Any]:
    order = replay.order
    wanted: dict[str, Any] = {
        name: value for name, value in (("target", order.target), ("reason", order.reason)) if value
    }
    for name, at_ms in (("dead_after", order.dead_after_ms), ("dead_before", order.dead_before_ms)):
        if at_ms is not None:
            wanted[name] = timestamp(at_ms)
    out: dict[str, Any] = {
        "replay_id": replay.replay_id,
        "state": replay.state,
        "matched": replay.matched,
        "replayed": replay.replayed,
        "skipped": replay.skipped,
        "filter": wanted,
        "rate": order.rate,
        "created_at": timestamp(replay.began_ms),
        "updated_at": timestamp(replay.updated_ms),
    }
    if order.limit is not None:
        out["limit"] = order.limit
    if order.max_attempts is not None:
        out["overrides"] = {"max_attempts": order.max_attempts}
    return out
