"""Every route there is: its method, path, scope and handler. What is not here does not exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from gateway.api import (
    completion,
    dlq,
    events,
    health,
    hooks,
    installation,
    jobs,
    keys,
    models,
    probe,
    purges,
    replays,
    schedules,
    scrape,
    stats,
    targets,
    triggers,
)
from gateway.api.begun import Begin
from gateway.api.call import Call
from gateway.api.registering import TargetBody
from gateway.api.reply import Reply, Stream
from gateway.apikeys import Scope
from gateway.schedules import ScheduleBody
from gateway.store.follower import KINDS
from gateway.submission import SubmitBody

Handler = Callable[[Call], Awaitable[Reply | Stream]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `scope` None: nobody is asked who they are; `store`: nothing works without Redis.

    `answers` maps statuses to models (None: no JSON; a tuple: one of them), `query` parameters and `headers` to their
    descriptions.
    """

    method: str
    path: str
    handler: Handler
    scope: Scope | None
    summary: str
    answers: dict[int, Any]
    body: Any = None
    body_required: bool = True
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    store: bool = True
    begin: Begin | None = None
    """The same as `handler`, without a task, for those that change the store."""


ANY_METHOD = "*"
DELIVERY_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""What `ANY_METHOD` stands for, HEAD besides: TRACE would show a sender what proxies add."""

_PAGE = {"limit": "how many, 1 to 100 (default 50)", "cursor": "next_cursor of the page before"}
_JOBS_QUERY = {
    "status": "of this status only",
    "target": "of this target only",
    "lane": "of this lane only",
    "tag": "with this tag only",
    **_PAGE,
}
_DLQ_QUERY = {"target": "of this target only", "reason": "dead for this reason only", **_PAGE}
_EVENTS_QUERY = {
    "type": "of these types only, with commas: " + ", ".join(KINDS),
    "target": "of this target only",
    "lane": "of this lane only",
    "job_id": "of this job only",
}
_TOKEN = {"gateway-token": "the token that came with the attempt, instead of token in the body"}
_SUBMITTED = {202: models.Accepted, 200: (models.Accepted, models.JobRecord)}
_SUBMIT_HEADERS = {
    "Idempotency-Key": "instead of idempotency_key in the body",
    "Prefer": "wait=N: hold the answer up to N seconds, and answer 200 with the record if the job is over by then",
    "traceparent": "W3C Trace Context, kept with the job",
}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST", "/jobs", jobs.submit, "submit", "Submit a job", _SUBMITTED, SubmitBody, headers=_SUBMIT_HEADERS,
        begin=jobs.begin,
    ),
    Operation(
        "*", "/hooks/{trigger}", hooks.receive, None, "Deliver a webhook", {202: models.DeliveryAnswer},
        begin=hooks.begin,
    ),
    Operation(
        "POST", "/jobs/batch", jobs.submit_batch, "submit", "Submit up to 1000 jobs, as an array or NDJSON",
        {200: models.BatchAnswer}, list[SubmitBody], begin=jobs.begin_batch,
    ),
    Operation("GET", "/jobs", jobs.list_all, "read", "List jobs", {200: models.JobPage}, query=_JOBS_QUERY),
    Operation(
        "GET", "/jobs/{job_id}", jobs.show, "read", "A job's record", {200: models.JobRecord},
        headers={"Prefer": "wait=N: hold the answer until the job is over, up to N seconds"},
    ),
    Operation(
        "DELETE", "/jobs/{job_id}", jobs.cancel, "submit", "Cancel a job",
        {200: models.CancelAnswer, 202: models.CancelAnswer},
    ),
    Operation(
        "POST", "/jobs/{job_id}/complete", completion.complete, None, "End work that went on elsewhere, by its token",
        {200: models.Ended}, completion.CompleteBody, body_required=False, headers=_TOKEN,
    ),
    Operation(
        "POST", "/jobs/{job_id}/fail", completion.fail, None, "Say that work elsewhere has failed, by its token",
        {200: models.Ended}, completion.FailBody, body_required=False, headers=_TOKEN,
    ),
    Operation(
        "POST", "/jobs/{job_id}/heartbeat", completion.beat, None, "Begin its deadline anew, by its token",
        {200: models.Beaten}, completion.HeartbeatBody, body_required=False, headers=_TOKEN,
    ),
    Operation("GET", "/jobs/{job_id}/status", jobs.show_status, "read", "A job's state", {200: models.JobStatus}),
    Operation("GET", "/jobs/{job_id}/events", jobs.show_events, "read", "A job's timeline", {200: models.Timeline}),
    Operation(
        "POST", "/enqueue", jobs.submit, "submit", "Submit a job (older path)", _SUBMITTED, SubmitBody,
        headers=_SUBMIT_HEADERS,
    ),
    Operation("GET", "/dlq", dlq.list_dead, "read", "List dead jobs", {200: models.JobPage}, query=_DLQ_QUERY),
    Operation(  # before /dlq/{job_id}, which would take it
        "POST", "/dlq/retry", replays.start, "submit", "Send dead jobs back by filter, at a rate",
        {202: models.ReplayStarted}, replays.ReplayBody,
    ),
    Operation(
        "POST", "/dlq/purge", purges.purge_many, "admin", "Take dead jobs away for good, by filter, 500 at a time",
        {200: models.Purged}, purges.PurgeBody,
    ),
    Operation(
        "GET", "/replays/{replay_id}", replays.show, "read", "How far a bulk replay is", {200: models.ReplayState}
    ),
    Operation(
        "DELETE", "/replays/{replay_id}", replays.stop, "submit", "Stop a bulk replay", {200: models.ReplayState}
    ),
    Operation("GET", "/dlq/{job_id}", dlq.show_dead, "read", "A dead job's record", {200: models.JobRecord}),
    Operation("DELETE", "/dlq/{job_id}", purges.purge_one, "admin", "Take a dead job away for good", {204: None}),
    Operation(
        "POST", "/dlq/{job_id}/retry", dlq.retry, "submit", "Send a dead job back to its lane",
        {200: models.JobRecord}, replays.RetryBody, body_required=False,
    ),
    Operation("GET", "/targets", targets.list_all, "read", "The targets", {200: models.Targets}),
    Operation(
        "PUT", "/targets/{target}", targets.put, "admin", "Register a target, or replace it",
        {200: models.TargetShown, 201: models.TargetShown}, TargetBody,
    ),
    Operation(
        "DELETE", "/targets/{target}", targets.delete, "admin", "Forget a registered target", {204: None},
        query={"force": "true: also while jobs wait for it"},
    ),
    Operation(
        "POST", "/targets/{target}/test", probe.probe, "admin", "Send a target one signed request, without a job",
        {200: models.Probed}, probe.ProbeBody, body_required=False,
    ),
    Operation(
        "POST", "/targets/{target}/rotate", targets.rotate, "admin", "Give a registered target a new secret",
        {200: models.RotatedSecret}, targets.NewSecret, body_required=False,
    ),
    Operation("GET", "/targets/{target}", targets.show, "read", "A target", {200: models.TargetShown}),
    Operation(
        "POST", "/targets/{target}/pause", targets.pause, "admin", "Let no job of a target start",
        {200: models.TargetShown},
    ),
    Operation(
        "POST", "/targets/{target}/enable", targets.enable, "admin",
        "Let a disabled target's jobs go on, close its breaker, and send back what died meanwhile",
        {200: models.TargetShown}, targets.Enabling, body_required=False,
    ),
    Operation(
        "POST", "/targets/{target}/resume", targets.resume, "admin", "Let a target's jobs go on",
        {200: models.TargetShown},
    ),
    Operation(
        "GET", "/schedules", schedules.list_all, "read", "List schedules", {200: models.SchedulePage}, query=_PAGE
    ),
    Operation("GET", "/schedules/{name}", schedules.show, "read", "A schedule", {200: models.ScheduleRecord}),
    Operation(
        "PUT", "/schedules/{name}", schedules.put, "admin", "Define a schedule",
        {200: models.ScheduleRecord, 201: models.ScheduleRecord}, ScheduleBody,
    ),
    Operation("DELETE", "/schedules/{name}", schedules.delete, "admin", "Delete a schedule", {204: None}),
    Operation(
        "POST", "/schedules/{name}/pause", schedules.pause, "admin", "Let no slot of a schedule fire",
        {200: models.ScheduleRecord},
    ),
    Operation(
        "POST", "/schedules/{name}/resume", schedules.resume, "admin", "Let a schedule go on",
        {200: models.ScheduleRecord},
    ),
    Operation(
        "POST", "/schedules/{name}/run", schedules.run, "submit", "Make a job of a schedule now",
        {202: models.Accepted},
    ),
    Operation("GET", "/triggers", triggers.list_all, "read", "The triggers", {200: models.Triggers}),
    Operation("GET", "/triggers/{trigger}", triggers.show, "read", "A trigger", {200: models.TriggerShown}),
    Operation(
        "PUT", "/triggers/{trigger}", triggers.put, "admin", "Register a trigger",
        {200: models.TriggerShown, 201: models.TriggerShown}, models.TriggerBody,
    ),
    Operation("DELETE", "/triggers/{trigger}", triggers.delete, "admin", "Delete a trigger", {204: None}),
    Operation(
        "GET", "/triggers/{trigger}/deliveries", triggers.deliveries, "read", "A trigger's last deliveries",
        {200: models.DeliveryPage}, query={"verdict": "of this verdict only", **_PAGE},
    ),
    Operation(
        "GET", "/triggers/{trigger}/deliveries/{delivery_id}", triggers.show_delivery, "read", "A delivery",
        {200: models.DeliveryShown},
    ),
    Operation(
        "POST", "/triggers/{trigger}/deliveries/{delivery_id}/replay", triggers.replay, "submit",
        "Send a delivery through the routes again", {202: models.DeliveryAnswer},
    ),
    Operation("GET", "/lanes", installation.list_lanes, "read", "The lanes and their depths", {200: models.Lanes}),
    Operation(
        "POST", "/lanes/{lane}/pause", installation.pause_lane, "admin", "Let no job of a lane start",
        {200: models.Lanes},
    ),
    Operation(
        "POST", "/lanes/{lane}/resume", installation.resume_lane, "admin", "Let a lane's jobs go on",
        {200: models.Lanes},
    ),
    Operation("GET", "/stats", stats.show, "read", "The installation in figures", {200: models.Stats}),
    Operation(
        "GET", "/signing-keys", installation.list_signing_keys, "read", "The public keys", {200: models.SigningKeys}
    ),
    Operation(
        "POST", "/signing-keys/rotate", installation.rotate_signing_key, "admin", "Make a new signing key",
        {200: models.SigningKeys}, installation.Rotation, body_required=False,
    ),
    Operation("GET", "/apikeys", keys.list_all, "admin", "The API keys", {200: models.Keys}),
    Operation("POST", "/apikeys", keys.create, "admin", "Make an API key", {201: models.MadeKey}, keys.NewKey),
    Operation("DELETE", "/apikeys/{key_id}", keys.delete, "admin", "Delete an API key", {204: None}),
    Operation(
        "GET", "/events", events.follow, "read", "Follow events as they happen (server-sent events)", {200: None},
        query=_EVENTS_QUERY, headers={"Last-Event-ID": "go on after this event"},
    ),
    Operation("GET", "/metrics", scrape.scrape, "read", "Metrics for Prometheus", {200: None}, store=False),
    *(
        Operation("GET", path, health.livez, None, "Is the process alive?", {200: models.Alive}, store=False)
        for path in ("/livez",)
    ),
    *(
        Operation(
            "GET", path, health.readyz, None, "Can it take work in?", {200: models.Ready, 503: models.Ready},
            store=False,
        )
        for path in ("/readyz", "/ready", "/health")
    ),
)  # fmt: skip
