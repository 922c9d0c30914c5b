"""What every step works with: the API, the receiver, and how a job's life is told."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx
import msgspec
import orjson
from rich.console import Console
from rich.text import Text

from gateway.cli.demo.receiver import Receiver
from gateway.errors import GatewayError

FINISHED = ("succeeded", "dead", "cancelled")
FINISH_S = 15.0
STYLES = {"succeeded": "green", "retrying": "yellow", "dead": "red"}


class Stored(msgspec.Struct):
    """The part of a record whose bytes matter."""

    payload: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Stage:
    """A running installation, and where its story is told."""

    api: httpx.Client
    receiver: Receiver
    console: Console
    github_secret: str

    def tell(self, text: str) -> None:
        self.console.print(Text(f"   {text}"))

    def post(self, path: str, body: bytes, *, headers: dict[str, str] | None = None, status: int) -> dict[str, Any]:
        """The answer to a POST; GatewayError if it has another status."""
        began_s = time.monotonic()
        answer = self.api.post(path, content=body, headers=headers or {"Content-Type": "application/json"})
        took_ms = (time.monotonic() - began_s) * 1000
        expect(f"the status of POST {path} ({answer.text[:300]})", answer.status_code, status)
        self.tell(f"POST {path}  {len(body):,} bytes  →  {status} in {took_ms:.1f} ms")
        found: dict[str, Any] = answer.json()
        return found

    def submit(self, target: str, payload: bytes, **options: Any) -> str:
        """Submits a job whose payload is these bytes; its id."""
        body = orjson.dumps({"target": target, "payload": orjson.Fragment(payload), **options})
        job_id: str = self.post("/jobs", body, status=202)["job_id"]
        return job_id

    def finish(self, job_id: str, *, status: str, payload: bytes) -> dict[str, Any]:
        """Waits for a job's end and tells its life; its record, once status and stored payload are as expected."""
        self.wait(job_id)
        record = self.get(f"/jobs/{job_id}")
        self._tell_life(record)
        expect(f"the status of job {job_id}", record["status"], status)
        stored = msgspec.json.decode(self.api.get(f"/jobs/{job_id}").content, type=Stored)
        expect("the payload in the record", bytes(stored.payload), payload)
        return record

    def wait(self, job_id: str) -> None:
        """Returns once the job is over; GatewayError if that takes too long."""
        until_s = time.monotonic() + FINISH_S
        while (status := self.get(f"/jobs/{job_id}/status"))["status"] not in FINISHED:
            if time.monotonic() > until_s:
                raise GatewayError(f"job {job_id} did not end within {FINISH_S:g} s: {status}")
            time.sleep(0.02)

    def get(self, path: str) -> dict[str, Any]:
        """The answer to a GET; GatewayError unless it is a 200."""
        answer = self.api.get(path)
        expect(f"the status of GET {path} ({answer.text[:300]})", answer.status_code, 200)
        found: dict[str, Any] = answer.json()
        return found

    def count_jobs(self) -> int:
        """How many jobs there are, finished ones included."""
        return len(self.get("/jobs?limit=100")["jobs"])

    def _tell_life(self, record: dict[str, Any]) -> None:
        self.tell(f"job {record['job_id']}  {record['target']}")
        events = self.get(f"/jobs/{record['job_id']}/events")["events"]
        began = datetime.fromisoformat(events[0]["at"])
        for event in events:
            after_s = (datetime.fromisoformat(event["at"]) - began).total_seconds()
            attempt = f"attempt {event['attempt']}" if event.get("attempt") else ""
            kind = (f"{event['type']:<9}", STYLES.get(event["type"], ""))
            line = Text.assemble(f"     +{after_s:.3f} s  ", kind, f"  {attempt:<9}  ", _detail(event, record))
            line.rstrip()
            self.console.print(line)


def expect(what: str, actual: object, expected: object) -> None:
    """Raises GatewayError, with both, unless they are equal."""
    if actual != expected:
        raise GatewayError(f"{what}: expected {_short(expected)}, got {_short(actual)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}… ({len(text)} characters)"


def _detail(event: dict[str, Any], record: dict[str, Any]) -> str:
    if event["type"] == "retrying":
        return f"{event['error']['message']}; again in {event['delay_ms']} ms"
    if event["type"] == "dead":
        return f"{event['reason']}: {event['error']['message']}"
    if event["type"] == "succeeded" and "result" in record:
        return ", ".join(f"{name} {str(value)[:12]}" for name, value in record["result"].items())
    return ""
