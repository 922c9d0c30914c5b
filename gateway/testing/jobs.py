"""Runs one job to its end without Redis, its retries on a fake clock: for tests of executors and functions."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.executor import Executor, HttpClient
from gateway.jobs import Claimed, Options, Settlement, pack_body
from gateway.keys import JobIds
from gateway.registry import Registry
from gateway.runner import Runner
from gateway.settings import Settings, read_target
from gateway.testing.clock import FakeClock
from gateway.testing.executors import NoHttp

TARGET = "job"


@dataclass(frozen=True, slots=True)
class AttemptRun:
    """One attempt: its outcome, and the error and progress that its record would show; `delay_s` till the next."""

    number: int
    outcome: str
    delay_s: float
    error: dict[str, Any] | None
    progress: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class JobRun:
    """How a job ended: `status` is `succeeded` or `dead`, `reason` why it is dead."""

    status: str
    result: Any
    error: dict[str, Any] | None
    reason: str
    attempts: tuple[AttemptRun, ...]


async def run_job(
    run: Executor[Any] | Callable[..., Any],
    payload: Any = None,
    *,
    config: Mapping[str, Any] | None = None,
    clock: FakeClock | None = None,
    http: HttpClient | None = None,
    seed: int = 0,
    **target: Any,
) -> JobRun:
    """Runs `payload` (any JSON value) through an executor with `config`, or through a function as `python` calls it.

    `target` are the other keys of a target's table (`timeout`, `retry`). Retries take no time: `clock` is moved on by
    each delay, and `seed` decides the jitter. A plugin's `retry_delay` has no say. Raises ConfigError for a table that
    would stop start-up.
    """
    clock = clock or FakeClock()
    table = dict(config or {}) | target
    if isinstance(run, Executor):
        table["executor"] = run.name
    else:
        table |= {"executor": "python", "callable": f"{run.__module__}:{run.__qualname__}"}
    settings = Settings(targets={TARGET: read_target(TARGET, table, f"target {TARGET}")}, plugins_only=())
    registry = Registry.build(settings, executors=[run] if isinstance(run, Executor) else [])
    await registry.start()
    try:
        return await _run_to_its_end(registry, payload, clock=clock, http=http or NoHttp(), rng=random.Random(seed))  # noqa: S311
    finally:
        await registry.aclose()


async def _run_to_its_end(
    registry: Registry, payload: Any, *, clock: FakeClock, http: HttpClient, rng: random.Random
) -> JobRun:
    runs: list[AttemptRun] = []
    progress: list[Any] = []
    runner = Runner(registry, http, rng, report=lambda _, value: progress.append(value))
    job_id, delay_ms = JobIds().new(round(clock() * 1000), 0), 0
    while True:
        claimed = _claimed(job_id, len(runs) + 1, registry.target(TARGET).retry.max_attempts, payload, delay_ms)
        progress.clear()
        settlement = await runner.run(claimed, asyncio.Event())
        runs.append(_attempt(claimed, settlement, progress))
        if settlement.outcome != "retry":
            return _ended(settlement, tuple(runs))
        delay_ms = settlement.delay_ms
        clock.advance(delay_ms / 1000)


def _claimed(job_id: str, attempt: int, max_attempts: int, payload: Any, delay_ms: int) -> Claimed:
    return Claimed(
        job_id,
        attempt,
        max_attempts,
        TARGET,
        lane="default",
        key="",
        previous_delay_ms=delay_ms,
        created_ms=0,
        waited_ms=0,
        suspect=False,
        body=pack_body(Options(), orjson.dumps(payload)).encode(),
        token=f"{attempt}:test",
    )


def _attempt(claimed: Claimed, settlement: Settlement, progress: list[Any]) -> AttemptRun:
    error = orjson.loads(settlement.error) if settlement.error else None
    return AttemptRun(claimed.attempt, settlement.outcome, settlement.delay_ms / 1000, error, tuple(progress))


def _ended(settlement: Settlement, attempts: tuple[AttemptRun, ...]) -> JobRun:
    result = orjson.loads(settlement.result) if settlement.result else None
    return JobRun(settlement.outcome, result, attempts[-1].error, settlement.reason, attempts)
