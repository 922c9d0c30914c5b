"""Records and timelines as JSON: absent facts are absent, payload, result and error go out byte for byte."""

from __future__ import annotations

from typing import Any

import orjson

from gateway.jobs import Page, Record
from gateway.store.records import Found
from gateway.timestamps import timestamp


def render_record(record: Record) -> dict[str, Any]:
    """The whole record."""
    whole = render_summary(record)
    if record.payload:
        whole["payload"] = orjson.Fragment(record.payload)
    if record.result:
        whole["result"] = orjson.Fragment(record.result)
    return whole


def render_summary(record: Record) -> dict[str, Any]:
    """The record without payload and result, for listings: a hundred payloads could be 100 MiB."""
    out: dict[str, Any] = {
        "job_id": record.job_id,
        "target": record.target,
        "status": record.status.value,
        "lane": record.lane,
        "priority": record.priority,
        "attempts": record.attempts,
        "max_attempts": record.max_attempts,
        "stalls": record.stalls,
    }
    for name, at_ms in _times(record).items():
        if at_ms is not None:
            out[name] = timestamp(at_ms)
    for name, text in (
        ("key", record.key),
        ("reason", record.reason),
        ("waiting_on", record.waiting_on),
        ("traceparent", record.options.traceparent),
    ):
        if text:
            out[name] = text
    if record.error:
        out["error"] = orjson.Fragment(record.error)
    if record.progress:
        out["progress"] = orjson.Fragment(record.progress)
    if record.options.tags:
        out["tags"] = record.options.tags
    if cause := record.options.cause:
        out["callback_of"] = {"job_id": cause.job_id, "event": f"job.{cause.status}"}
    if record.callback_job_id:
        out["callback"] = {"job_id": record.callback_job_id, "status": record.callback_status or "gone"}
    return out


def render_status(record: Record) -> dict[str, Any]:
    """The short form."""
    out: dict[str, Any] = {
        "job_id": record.job_id,
        "status": record.status.value,
        "attempts": record.attempts,
        "max_attempts": record.max_attempts,
        "updated_at": timestamp(record.updated_ms),
    }
    if record.next_attempt_ms is not None:
        out["next_attempt_at"] = timestamp(record.next_attempt_ms)
    if record.reason:
        out["reason"] = record.reason
    return out


def render_timeline(found: Found) -> dict[str, Any]:
    """What happened to a job, oldest first."""
    events = []
    for entry in found.timeline:
        event: dict[str, Any] = {"type": entry.type, "at": timestamp(entry.at_ms)}
        if entry.attempt:
            event["attempt"] = entry.attempt
        events.append(event | {name: value for name, value in entry.facts.items() if value != ""})
    return {"job_id": found.record.job_id, "events": events}


def render_page(page: Page) -> dict[str, Any]:
    """One page of a listing."""
    return {"jobs": [render_summary(record) for record in page.records], "next_cursor": page.next_cursor}


def _times(record: Record) -> dict[str, int | None]:
    return {
        "created_at": record.created_ms,
        "updated_at": record.updated_ms,
        "run_at": record.run_at_ms,
        "started_at": record.started_ms,
        "finished_at": record.finished_ms,
        "next_attempt_at": record.next_attempt_ms,
    }
