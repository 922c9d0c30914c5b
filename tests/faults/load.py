"""Producers: submit jobs over HTTP, send again what was not answered, and write down what was acknowledged."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from tests.faults.history import Recorder

RETRY_S = 0.05
GIVE_UP_S = 60.0

Job = dict[str, Any]
Make = Callable[[random.Random], Job]


class Load:
    """Submits batches until it is stopped. Use it as a context manager.

    A batch that was refused (503) or not answered is sent again with the same idempotency keys until it is taken, so
    that in the end every job is acknowledged once, or was never known to be.
    """

    def __init__(
        self,
        base_url: str,
        recorder: Recorder,
        make: Make,
        *,
        seed: int,
        batch: int = 5,
        every_s: float = 0.05,
        producers: int = 2,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.acknowledged: list[str] = []
        self.tags: dict[str, str] = {}
        self.requests = 0
        self.refused = 0
        self.torn = 0
        self.wrong: list[str] = []
        self._base_url, self._recorder, self._make = base_url, recorder, make
        self._batch, self._every_s, self._headers = batch, every_s, headers or {}
        self._stop = threading.Event()
        self._numbers = itertools.count(1)
        self._name = f"{seed}-{time.monotonic_ns()}"
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(f"{seed} {at}"),), name=f"producer-{at}")
            for at in range(producers)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops, once what is under way has been answered."""
        self._stop.set()
        for thread in self._threads:
            thread.join(GIVE_UP_S + 10)
            assert not thread.is_alive(), "a producer hangs"

    def _run(self, draw: random.Random) -> None:
        with httpx.Client(base_url=self._base_url, timeout=10, headers=self._headers, trust_env=False) as client:
            while not self._stop.is_set():
                began_s = time.monotonic()
                jobs = [self._make(draw) for _ in range(self._batch)]
                for job in jobs:
                    job["idempotency_key"] = f"{self._name}-{next(self._numbers)}"
                    job["payload"]["tag"] = job["idempotency_key"]
                self._send_until_taken(client, jobs)
                self._stop.wait(max(0.0, self._every_s - (time.monotonic() - began_s)))

    def _send_until_taken(self, client: httpx.Client, jobs: Sequence[Job]) -> None:
        left = list(jobs)
        until_s = time.monotonic() + GIVE_UP_S
        while left and time.monotonic() < until_s:
            left = self._send(client, left)
            if left:
                time.sleep(RETRY_S)

    def _send(self, client: httpx.Client, jobs: Sequence[Job]) -> list[Job]:
        """Sends a batch: the jobs that must be sent again."""
        self.requests += 1
        try:
            answer = client.post("/jobs/batch", json=jobs)
        except httpx.TransportError:
            self.torn += 1
            return list(jobs)
        if answer.status_code == 503:
            self.refused += 1
            self._recorder.note("refused")
            if "retry-after" not in answer.headers:
                self.wrong.append("a 503 without Retry-After")
            return list(jobs)
        if answer.status_code != 200:
            self.wrong.append(f"{answer.status_code}: {answer.text[:200]}")
            return []
        return self._take(jobs, answer.json()["results"])

    def _take(self, jobs: Sequence[Job], results: Sequence[dict[str, Any]]) -> list[Job]:
        pairs = zip(jobs, results, strict=True)
        tags = {str(result["job_id"]): str(job["idempotency_key"]) for job, result in pairs if "job_id" in result}
        self._recorder.note("ack", tags)
        self.tags |= tags
        self.acknowledged += tags
        again = []
        for job, result in zip(jobs, results, strict=True):
            if "job_id" not in result:
                if result["error"].get("status") != 503:
                    self.wrong.append(str(result))
                again.append(job)
        if again:
            self.refused += 1
        return again


class Readers:
    """Reads acknowledged jobs while a load goes on: each answer must be of the job that was asked for.

    Use it as a context manager; `wrong` has what was not.
    """

    def __init__(self, base_url: str, load: Load, *, seed: int, readers: int = 2) -> None:
        self.requests = 0
        self.wrong: list[str] = []
        self._base_url, self._load, self._stop = base_url, load, threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(f"{seed} {at}"),), name=f"reader-{at}")
            for at in range(readers)
        ]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, draw: random.Random) -> None:
        with httpx.Client(base_url=self._base_url, timeout=10, trust_env=False) as client:
            while not self._stop.wait(0.005):
                if self._load.acknowledged:
                    self._read(client, draw.choice(self._load.acknowledged))

    def _read(self, client: httpx.Client, job_id: str) -> None:
        self.requests += 1
        try:
            answer = client.get(f"/jobs/{job_id}")
        except httpx.TransportError as error:
            self.wrong.append(f"tagged: no answer: {error!r}")
            return
        if answer.status_code == 503:
            return
        record = answer.json()
        there = (answer.status_code, record.get("job_id"), record.get("payload", {}).get("tag"))
        if there != (200, job_id, self._load.tags[job_id]):
            self.wrong.append(f"tagged: asked for {job_id} of {self._load.tags[job_id]}, got {there}")


def mixed(draw: random.Random) -> Job:
    """A job as a day brings them: plain ones, ones of limited flows, some that fail at first, some for later."""
    payload: dict[str, Any] = {"s": draw.uniform(0.0, 0.04)}
    job: Job = {"target": draw.choice(["work", "work", "keyed", "ordered"]), "payload": payload}
    if job["target"] != "work":
        job["key"] = draw.choice("abcdefgh")
    if draw.random() < 0.1:
        payload["fail"] = 1
    if job["target"] == "work" and draw.random() < 0.1:
        job["delay"] = round(draw.uniform(0.05, 0.5), 3)
    if draw.random() < 0.1:
        job["lane"], job["priority"] = "critical", draw.randrange(10)
        if job["target"] == "ordered":
            del job["lane"], job["priority"]
    return job


def short(draw: random.Random) -> Job:
    """A plain job that takes next to no time."""
    return {"target": "work", "payload": {"s": draw.uniform(0.0, 0.01)}}


def steady(draw: random.Random) -> Job:
    """A plain job that takes long enough to be caught at it."""
    return {"target": "work", "payload": {"s": draw.uniform(0.02, 0.2)}}
