"""What a blocking client has beside jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

    def __call__(self, call: Call[T], /) -> T: ...


class Walk(Protocol):
    """Goes through a listing."""

    def __call__(self, listing: Listing[T], /) -> Iterator[T]: ...


class Dlq:
    """The dead-letter queue."""

    def __init__(self, perform: Perform, walk: Walk) -> None:
        self._perform, self._walk = perform, walk

    def all(
        self, *, target: str | None = None, reason: str | None = None, page_size: int = PAGE
    ) -> Iterator[JobSummary]:
        """Every dead job that fits, the latest first."""
        return self._walk(dlq.list_dead(page_size, target, reason))

    def get(self, job_id: str) -> JobRecord:
        """The record of a dead job; NotFound if it is not dead."""
        return self._perform(dlq.get_dead(job_id))

    def retry(self, job_id: str, *, max_attempts: int | None = None) -> JobRecord:
        """Sends it back to its lane; WrongState if it is not dead."""
        return self._perform(dlq.retry(job_id, max_attempts))

    def purge(self, job_id: str) -> None:
        """Takes it away for good; WrongState if it is not dead."""
        self._perform(dlq.purge(job_id))

    def purge_all(self, **wanted: Unpack[DeadFilter]) -> int:
        """Takes every dead job away that fits, all of them where nothing is said: how many those were."""
        purged, cursor = 0, None
        while True:
            some = self._perform(dlq.purge_some(wanted, cursor))
            purged, cursor = purged + some.purged, some.next_cursor
            if cursor is None:
                return purged

    def replay(
        self,
        *,
        rate: str | None = None,
        limit: int | None = None,
        max_attempts: int | None = None,
        **wanted: Unpack[DeadFilter],
    ) -> ReplayStarted:
        """Sends every dead job that fits back, at a rate such as `"50/s"`; all of them where nothing is said."""
        return self._perform(dlq.start_replay(wanted, rate=rate, limit=limit, max_attempts=max_attempts))

    def replay_state(self, replay_id: str) -> ReplayState:
        """How far a replay is."""
        return self._perform(dlq.get_replay(replay_id))

    def stop_replay(self, replay_id: str) -> ReplayState:
        """Ends a replay; WrongState if it is done."""
        return self._perform(dlq.stop_replay(replay_id))


class Targets:
    """What runs jobs."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def all(self) -> list[TargetShown]:
        """Every target, by name."""
        return self._perform(targets.list_targets()).targets

    def get(self, name: str) -> TargetShown:
        """One target, and how it stands."""
        return self._perform(targets.get_target(name))

    def pause(self, name: str) -> TargetShown:
        """Lets no job of it start."""
        return self._perform(targets.pause_target(name))

    def resume(self, name: str) -> TargetShown:
        """Lets its jobs go on."""
        return self._perform(targets.resume_target(name))

    def enable(self, name: str, *, replay: bool = False, rate: str | None = None) -> TargetShown:
        """Lets a disabled target's jobs go on, and closes its breaker; with `replay` what died meanwhile goes back."""
        return self._perform(targets.enable_target(name, replay=replay, rate=rate))

    def put(self, name: str, **table: Any) -> TargetShown:
        """Registers a target, or replaces it; the keys are those of `gateway.toml`."""
        return self._perform(targets.put_target(name, table))

    def delete(self, name: str, *, force: bool = False) -> None:
        """Forgets a registered target; WrongState while jobs wait for it, unless `force`."""
        self._perform(targets.delete_target(name, force=force))

    def test(self, name: str, payload: Any = None) -> Probed:
        """Sends it one signed request, without a job, and tells what came of it."""
        return self._perform(targets.probe_target(name, payload))

    def rotate(self, name: str, *, secret: str | None = None, overlap: Span | None = None) -> RotatedSecret:
        """Gives a registered target a new secret, made there if left out; the old one signs as well for `overlap`."""
        return self._perform(targets.rotate_target(name, secret, overlap))


class Triggers:
    """Where webhooks come in."""

    def __init__(self, perform: Perform, walk: Walk) -> None:
        self._perform, self._walk = perform, walk

    def all(self) -> list[TriggerShown]:
        """Every trigger, by name, without secrets."""
        return self._perform(triggers.list_triggers()).triggers

    def get(self, name: str) -> TriggerShown:
        """One trigger, without its secrets."""
        return self._perform(triggers.get_trigger(name))

    def put(self, name: str, **table: Any) -> TriggerShown:
        """Registers a trigger, or replaces it; the keys are those of `gateway.toml`."""
        return self._perform(triggers.put_trigger(name, table))

    def delete(self, name: str) -> None:
        """Takes a registered trigger away."""
        self._perform(triggers.delete_trigger(name))

    def deliveries(self, name: str, *, verdict: str | None = None, page_size: int = PAGE) -> Iterator[DeliverySummary]:
        """A trigger's last deliveries, the newest first."""
        return self._walk(triggers.list_deliveries(name, page_size, verdict))

    def delivery(self, name: str, delivery_id: str) -> DeliveryShown:
        """One delivery with headers and body, as far as they were kept."""
        return self._perform(triggers.get_delivery(name, delivery_id))

    def replay(self, name: str, delivery_id: str) -> DeliveryAnswer:
        """Sends a delivery through the routes again."""
        return self._perform(triggers.replay_delivery(name, delivery_id))


class Schedules:
    """What submits jobs by the clock."""

    def __init__(self, perform: Perform, walk: Walk) -> None:
        self._perform, self._walk = perform, walk

    def all(self, *, page_size: int = PAGE) -> Iterator[ScheduleSummary]:
        """Every schedule, by name."""
        return self._walk(schedules.list_schedules(page_size))

    def get(self, name: str) -> ScheduleRecord:
        """One schedule, when it fires next, and what came of it."""
        return self._perform(schedules.get_schedule(name))

    def put(self, name: str, **body: Unpack[ScheduleBody]) -> ScheduleRecord:
        """Makes a schedule, or replaces it; WrongState for one that the configuration file defines."""
        return self._perform(schedules.put_schedule(name, body))

    def delete(self, name: str) -> None:
        """Takes it away; its jobs stay."""
        self._perform(schedules.delete_schedule(name))

    def pause(self, name: str) -> ScheduleRecord:
        """Lets no slot of it fire."""
        return self._perform(schedules.pause_schedule(name))

    def resume(self, name: str) -> ScheduleRecord:
        """Lets it go on."""
        return self._perform(schedules.resume_schedule(name))

    def run(self, name: str) -> Accepted:
        """Makes a job of it now."""
        return self._perform(schedules.run_schedule(name))


class Lanes:
    """The priority classes."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def all(self) -> list[LaneState]:
        """Every lane, the most urgent first."""
        return self._perform(installation.list_lanes()).lanes

    def pause(self, name: str) -> list[LaneState]:
        """Lets no job of it start."""
        return self._perform(installation.pause_lane(name)).lanes

    def resume(self, name: str) -> list[LaneState]:
        """Lets its jobs go on."""
        return self._perform(installation.resume_lane(name)).lanes


class ApiKeys:
    """Who may use the API; needs the scope `admin`."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def all(self) -> list[KeyFacts]:
        """Every key without its secret, the oldest first."""
        return self._perform(installation.list_keys()).apikeys

    def create(self, name: str, scopes: Iterable[Scope], *, callback: CallbackOptions | None = None) -> MadeKey:
        """Makes a key, whose text comes back this once; `callback` is that of its jobs that name none."""
        return self._perform(installation.create_key(name, scopes, callback))

    def delete(self, key_id: str) -> None:
        """Takes a key away for good."""
        self._perform(installation.delete_key(key_id))
