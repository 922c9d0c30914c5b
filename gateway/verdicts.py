"""What becomes of a job whose attempt did not simply succeed: tried again, dead, parked, or given back to others."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import structlog

from gateway import backoff
from gateway.backoff import RetryPolicy
from gateway.durations import MAX_S
from gateway.errors import Fatal, NotFound, Retry
from gateway.executor import Deferred, Job
from gateway.jobs import Claimed, Options, Settlement
from gateway.registry import Registry, Target
from gateway.results import encode_error, error_of

log = structlog.get_logger(__name__)

UNKNOWN_S = (1.0, 15.0)
"""How soon, at least and at most, another dispatcher is to have a job whose target is not known here."""

UNKNOWN_MOST = 100
"""Targets that are told of: a client of an older gateway must not fill the log, nor the memory."""


@dataclass(slots=True)
class Verdicts:
    """Makes the settlements of one process's attempts, by the policies of their targets and the plugins' hooks."""

    registry: Registry
    rng: random.Random
    no_target_after_s: float = 0.0
    """For how long a job whose target is not known here is given back, for those that know it."""
    _unknown: set[str] = field(default_factory=set)

    def given_back(self, claimed: Claimed, error: NotFound) -> Settlement:
        """For a dispatcher that knows its target: one of a newer file, or all but this one."""
        dead = self.without_target(claimed, error)
        if not self.no_target_after_s:
            return dead
        if claimed.target not in self._unknown and len(self._unknown) < UNKNOWN_MOST:
            self._unknown.add(claimed.target)
            log.warning("no such target here: its jobs go back, for dispatchers that know it", target=claimed.target,
                        read=self.registry.source, dead_after_s=self.no_target_after_s)  # fmt: skip
        delay_s = min(UNKNOWN_S[1], max(UNKNOWN_S[0], 2 * claimed.previous_delay_ms / 1000)) * self.rng.uniform(0.5, 1)
        return settle(
            claimed,
            "retry",
            delay_ms=max(1, round(delay_s * 1000)),
            reason=str(round(self.no_target_after_s * 1000)),
            error=dead.error,
        )

    def without_target(self, claimed: Claimed, error: NotFound) -> Settlement:
        """For a job whose target nobody is to know."""
        mend = f"this dispatcher read {self.registry.source} when it started: if the target is newer, restart it"
        return settle(claimed, "dead", reason="no_target", error=encode_error("no_target", f"{error}; {mend}"))

    def parked(self, claimed: Claimed, target: Target, options: Options, deferred: Deferred, token: str) -> Settlement:
        """For work that goes on elsewhere; raises Fatal where it could never be ended."""
        if not token:
            raise Fatal("nobody has a token to end this with: its executor has no defers = True", type="config")
        within_s = deferred.within_s
        if not isinstance(within_s, (int, float)) or not 0 <= within_s <= MAX_S:
            raise Fatal(f"Deferred.within_s is no number of seconds up to {MAX_S:.0f}", type="config")
        retry_ms = self._delay_ms(claimed, _policy(options, target), out_of_time())
        return settle(claimed, "parked", delay_ms=max(1, round(within_s * 1000)), reason=str(retry_ms))

    def failed(self, claimed: Claimed, target: Target, options: Options, failure: Exception) -> Settlement:
        """For what may be tried again, unless this was its last attempt."""
        error = error_of(failure, target.secrets)
        if claimed.attempt >= claimed.max_attempts:
            return settle(claimed, "dead", reason="exhausted", error=error)
        delay_ms = self._delay_ms(claimed, _policy(options, target), failure)
        return settle(claimed, "retry", delay_ms=delay_ms, error=error)

    def _delay_ms(self, claimed: Claimed, policy: RetryPolicy, failure: Exception) -> int:
        job = Job(
            claimed.job_id, claimed.target, claimed.lane, claimed.key, claimed.max_attempts, claimed.created_ms, (), ""
        )
        delay_s = self.registry.listeners.retry_delay(job, failure)
        if delay_s is None:
            delay_s = backoff.delay_s(policy, claimed.attempt, claimed.previous_delay_ms / 1000, self.rng)
        if isinstance(failure, Retry):
            delay_s = max(delay_s, _floor_s(failure.after))
        return max(1, round(delay_s * 1000))


def out_of_time() -> Retry:
    """What ends an attempt at its deadline."""
    return Retry("the attempt ran out of time", type="timeout")


def settle(
    claimed: Claimed,
    outcome: Any,
    *,
    delay_ms: int = 0,
    reason: str = "",
    result: str = "",
    error: str = "",
) -> Settlement:
    """A settlement, by the names of what it says."""
    return Settlement(claimed.job_id, claimed.token, outcome, delay_ms, reason, result, error)


def _policy(options: Options, target: Target) -> RetryPolicy:
    """The job's policy: its own, or the target's; for a callback with what its first job says of it."""
    if options.cause is not None and options.parent is not None and options.parent.callback is not None:
        override = options.parent.callback.retry
        return target.retry if override is None else override.over(target.retry)
    return options.retry or target.retry


def _floor_s(after: object) -> float:
    """What a failure wants at least, in seconds, capped; 0 where a job's own code gave no number."""
    if not isinstance(after, (int, float)) or after != after:  # not a number
        return 0.0
    return float(max(0, min(after, MAX_S)))  # before it is a float: no integer is too large
