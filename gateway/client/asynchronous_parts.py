"""What an asynchronous client has beside jobs; the calls themselves are those of the blocking one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any, Protocol, TypeVar, Unpack

from gateway.apikeys import Scope
from gateway.client.answers import (
    Accepted,
    DeliveryAnswer,
    DeliveryShown,
    DeliverySummary,
    JobRecord,
    JobSummary,
    KeyFacts,
    LaneState,
    MadeKey,
    Probed,
    ReplayStarted,
    ReplayState,
    RotatedSecret,
    ScheduleRecord,
    ScheduleSummary,
    TargetShown,
    TriggerShown,
)
from gateway.client.bodies import CallbackOptions, DeadFilter, ScheduleBody, Span
from gateway.client.call import Call, Listing
from gateway.client.calls import dlq, installation, schedules, targets, triggers
from gateway.client.opening import PAGE

T = TypeVar("T")


class Perform(Protocol):
    """Carries a call out."""

    def __call__(self, call: Call[T], /) -> Awaitable[T]: ...


class Walk(Protocol):
    """Goes through a listing."""

    def __call__(self, listing: Listing[T], /) -> AsyncIterator[T]: ...


class AsyncDlq:
    """The dead-letter queue."""

    def __init__(self, perform: Perform, walk: Walk) -> None:
        self._perform, self._walk = perform, walk

    def all(
        self, *, target: str | None = None, reason: str | None = None, page_size: int = PAGE
    ) -> AsyncIterator[JobSummary]:
        """Every dead job that fits, the latest first."""
        return self._walk(dlq.list_dead(page_size, target, reason))

    async def get(self, job_id: str) -> JobRecord:
        """The record of a dead job; NotFound if it is not dead."""
        return await self._perform(dlq.get_dead(job_id))

    async def retry(self, job_id: str, *, max_attempts: int | None = None) -> JobRecord:
        """Sends it back to its lane; WrongState if it is not dead."""
        return await self._perform(dlq.retry(job_id, max_attempts))

    async def purge(self, job_id: str) -> None:
        """Takes it away for good; WrongState if it is not dead."""
        await self._perform(dlq.purge(job_id))

    async def purge_all(self, **wanted: Unpack[DeadFilter]) -> int:
        """Takes every dead job away that fits, all of them where nothing is said: how many those were."""
        purged, cursor = 0, None
        while True:
            some = await self._perform(dlq.purge_some(wanted, cursor))
            purged, cursor = purged + some.purged, some.next_cursor
            if cursor is None:
                return purged

    async def replay(
        self,
        *,
        rate: str | None = None,
        limit: int | None = None,
        max_attempts: int | None = None,
        **wanted: Unpack[DeadFilter],
    ) -> ReplayStarted:
        """Sends every dead job that fits back, at a rate such as `"50/s"`; all of them where nothing is said."""
        return await self._perform(dlq.start_replay(wanted, rate=rate, limit=limit, max_attempts=max_attempts))

    async def replay_state(self, replay_id: str) -> ReplayState:
        """How far a replay is."""
        return await self._perform(dlq.get_replay(replay_id))

    async def stop_replay(self, replay_id: str) -> ReplayState:
        """Ends a replay; WrongState if it is done."""
        return await self._perform(dlq.stop_replay(replay_id))


class AsyncTargets:
    """What runs jobs."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    async def all(self) -> list[TargetShown]:
        """Every target, by name."""
        return (await self._perform(targets.list_targets())).targets

    async def get(self, name: str) -> TargetShown:
        """One target, and how it stands."""
        return await self._perform(targets.get_target(name))

    async def pause(self, name: str) -> TargetShown:
        """Lets no job of it start."""
        return await self._perform(targets.pause_target(name))

    async def resume(self, name: str) -> TargetShown:
        """Lets its jobs go on."""
        return await self._perform(targets.resume_target(name))

    async def enable(self, name: str, *, replay: bool = False, rate: str | None = None) -> TargetShown:
        """Lets a disabled target's jobs go on, and closes its breaker; with `replay` what died meanwhile goes back."""
        return await self._perform(targets.enable_target(name, replay=replay, rate=rate))

    async def put(self, name: str, **table: Any) -> TargetShown:
        """Registers a target, or replaces it; the keys are those of `gateway.toml`."""
        return await self._perform(targets.put_target(name, table))

    async def delete(self, name: str, *, force: bool = False) -> None:
        """Forgets a registered target; WrongState while jobs wait for it, unless `force`."""
        await self._perform(targets.delete_target(name, force=force))

    async def test(self, name: str, payload: Any = None) -> Probed:
        """Sends it one signed request, without a job, and tells what came of it."""
        return await self._perform(targets.probe_target(name, payload))

    async def rotate(self, name: str, *, secret: str | None = None, overlap: Span | None = None) -> RotatedSecret:
        """Gives a registered target a new secret, made there if left out; the old one signs as well for `overlap`."""
        return await self._perform(targets.rotate_target(name, secret, overlap))


class AsyncTriggers:
    """Where webhooks come in."""

    def __init__(self, perform: Perform, walk: Walk) -> None:
        self._perform, self._walk = perform, walk

    async def all(self) -> list[TriggerShown]:
        """Every trigger, by name, without secrets."""
        return (await self._perform(triggers.list_triggers())).triggers

    async def get(self, name: str) -> TriggerShown:
        """One trigger, without its secrets."""
        return await self._perform(triggers.get_trigger(name))

    async def put(self, name: str, **table: Any) -> TriggerShown:
        """Registers a trigger, or replaces it; the keys are those of `gateway.toml`."""
        return await self._perform(triggers.put_trigger(name, table))

    async def delete(self, name: str) -> None:
        """Takes a registered trigger away."""
        await self._perform(triggers.delete_trigger(name))

    def deliveries(
        self, name: str, *, verdict: str | None = None, page_size: int = PAGE
    ) -> AsyncIterator[DeliverySummary]:
        """A trigger's last deliveries, the newest first."""
        return self._walk(triggers.list_deliveries(name, page_size, verdict))

    async def delivery(self, name: str, delivery_id: str) -> DeliveryShown:
        """One delivery with headers and body, as far as they were kept."""
        return await self._perform(triggers.get_delivery(name, delivery_id))

    async def replay(self, name: str, delivery_id: str) -> DeliveryAnswer:
        """Sends a delivery through the routes again."""
        return await self._perform(triggers.replay_delivery(name, delivery_id))


class AsyncSchedules:
    """What submits jobs by the clock."""

    def __init__(self, perform: Perform, walk: Walk) -> None:
        self._perform, self._walk = perform, walk

    def all(self, *, page_size: int = PAGE) -> AsyncIterator[ScheduleSummary]:
        """Every schedule, by name."""
        return self._walk(schedules.list_schedules(page_size))

    async def get(self, name: str) -> ScheduleRecord:
        """One schedule, when it fires next, and what came of it."""
        return await self._perform(schedules.get_schedule(name))

    async def put(self, name: str, **body: Unpack[ScheduleBody]) -> ScheduleRecord:
        """Makes a schedule, or replaces it; WrongState for one that the configuration file defines."""
        return await self._perform(schedules.put_schedule(name, body))

    async def delete(self, name: str) -> None:
        """Takes it away; its jobs stay."""
        await self._perform(schedules.delete_schedule(name))

    async def pause(self, name: str) -> ScheduleRecord:
        """Lets no slot of it fire."""
        return await self._perform(schedules.pause_schedule(name))

    async def resume(self, name: str) -> ScheduleRecord:
        """Lets it go on."""
        return await self._perform(schedules.resume_schedule(name))

    async def run(self, name: str) -> Accepted:
        """Makes a job of it now."""
        return await self._perform(schedules.run_schedule(name))


class AsyncLanes:
    """The priority classes."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    async def all(self) -> list[LaneState]:
        """Every lane, the most urgent first."""
        return (await self._perform(installation.list_lanes())).lanes

    async def pause(self, name: str) -> list[LaneState]:
        """Lets no job of it start."""
        return (await self._perform(installation.pause_lane(name))).lanes

    async def resume(self, name: str) -> list[LaneState]:
        """Lets its jobs go on."""
        return (await self._perform(installation.resume_lane(name))).lanes


class AsyncApiKeys:
    """Who may use the API; needs the scope `admin`."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    async def all(self) -> list[KeyFacts]:
        """Every key without its secret, the oldest first."""
        return (await self._perform(installation.list_keys())).apikeys

    async def create(self, name: str, scopes: Iterable[Scope], *, callback: CallbackOptions | None = None) -> MadeKey:
        """Makes a key, whose text comes back this once; `callback` is that of its jobs that name none."""
        return await self._perform(installation.create_key(name, scopes, callback))

    async def delete(self, key_id: str) -> None:
        """Takes a key away for good."""
        await self._perform(installation.delete_key(key_id))
