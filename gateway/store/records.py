"""Replies of `lookup` as records and timelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.jobs import Record, Status, unpack_body
from gateway.keys import PRIORITY_SPAN

_WIDTH = 7


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of a job's timeline; `at_ms` in Unix milliseconds, `facts` what else is known of it."""

    type: str
    at_ms: int
    attempt: int
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """A record and its timeline, as they stood at one instant."""

    record: Record
    timeline: tuple[Entry, ...]


def parse_lookup(ids: Sequence[str], reply: Sequence[Any]) -> list[Found | None]:
    """One Found per id in order, None for a job that is not there (lua/lookup.lua)."""
    return [
        _found(job_id, *reply[i * _WIDTH : (i + 1) * _WIDTH]) if reply[i * _WIDTH] else None
        for i, job_id in enumerate(ids)
    ]


def _found(
    job_id: str,
    flat: list[bytes],
    body: bytes,
    result: bytes,
    log: bytes,
    score: bytes,
    callback_status: bytes,
    waiting_on: bytes,
) -> Found:
    fields = {flat[i].decode(): flat[i + 1].decode() for i in range(0, len(flat), 2)}
    lines = [orjson.loads(line) for line in log.splitlines()]
    record = _record(job_id, fields, body, result, lines, score, callback_status.decode(), waiting_on.decode())
    return Found(record, tuple(_timeline(record, lines)))


def _record(
    job_id: str,
    fields: dict[str, str],
    body: bytes,
    result: bytes,
    lines: list[dict[str, Any]],
    score: bytes,
    callback_status: str,
    waiting_on: str,
) -> Record:
    options, payload = unpack_body(body)
    status = Status(fields["status"])
    place = int(float(score)) if score else None
    finished_ms = place if status.finished else None
    times = {name: _ms(fields, name) for name in ("created", "started", "updated", "run_at")}
    came_ms = times["run_at"] if status is Status.PENDING else None
    return Record(
        job_id=job_id,
        target=fields["target"],
        status=status,
        lane=fields["lane"],
        priority=100 - int(fields["rank"]) // PRIORITY_SPAN,
        key=fields.get("key", ""),
        attempts=int(fields["attempt"]),
        max_attempts=int(fields["max"]),
        stalls=int(fields.get("stalls", 0)),
        created_ms=int(fields["created"]),
        updated_ms=max(
            at for at in (times["created"], times["started"], times["updated"], came_ms, finished_ms) if at is not None
        ),
        run_at_ms=times["run_at"],
        started_ms=times["started"],
        finished_ms=finished_ms,
        next_attempt_ms=place // 1000 if place is not None and status == Status.RETRYING else None,
        cancel_asked="cancel" in fields,
        reason=fields.get("reason", ""),
        dispatcher=dispatcher_of(fields.get("token", "")),
        payload=payload,
        result=result,
        error=b"" if status == Status.SUCCEEDED else _last_error(lines),
        progress=fields.get("progress", "").encode(),
        options=options,
        callback_job_id=fields.get("callback_id", ""),
        callback_status=callback_status,
        waiting_on=waiting_on,
    )


def dispatcher_of(token: str) -> str:
    """The dispatcher that a token was given to: the nonce is `<dispatcher>.<counter>`."""
    return token.partition(":")[2].rpartition(".")[0]


def _ms(fields: dict[str, str], name: str) -> int | None:
    return int(fields[name]) if name in fields else None


def _last_error(lines: list[dict[str, Any]]) -> bytes:
    for line in reversed(lines):
        if line["type"] == "replayed":
            return b""
        if "error" in line:
            return orjson.dumps(line["error"])
    return b""


_OF_THE_ATTEMPT = frozenset({"at", "type", "attempt", "started", "dispatcher"})


def _timeline(record: Record, lines: list[dict[str, Any]]) -> list[Entry]:
    entries = [Entry("accepted", record.created_ms, 0, {})]
    told: tuple[int, int | None] = (0, None)  # the start that was last told of: an attempt may have several lines
    for line in lines:
        facts = {name: value for name, value in line.items() if name not in _OF_THE_ATTEMPT}
        if "started" in line and told != (line["attempt"], line["started"]):
            told = line["attempt"], line["started"]
            entries.append(Entry("started", line["started"], line["attempt"], {"dispatcher": line["dispatcher"]}))
        entries.append(Entry(line["type"], line["at"], line["attempt"], facts))
        if line["type"] == "released":  # the next attempt has the same number, and may begin in the same ms
            told = (0, None)
    untold = record.started_ms is not None and told != (record.attempts, record.started_ms)
    if record.status in (Status.RUNNING, Status.SUCCEEDED) and record.started_ms is not None and untold:
        entries.append(Entry("started", record.started_ms, record.attempts, {"dispatcher": record.dispatcher}))
    if record.status == Status.SUCCEEDED and record.finished_ms is not None:
        entries.append(Entry("succeeded", record.finished_ms, record.attempts, {}))
    return entries
