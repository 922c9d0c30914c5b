"""A verified delivery into the jobs that its trigger's routes want, all of them in one partition."""

from __future__ import annotations

import random
from collections.abc import Sequence

from gateway.errors import InvalidRequest
from gateway.jobs import NO_OPTIONS, Idempotency, Submission
from gateway.keys import idempotency_hash
from gateway.submission.catalog import Catalog
from gateway.submission.checks import key_problem
from gateway.triggers import Match

_SAME_ID = "~delivery"
"""The fingerprint of every copy: a verified id says that it is the same delivery. `~`: a dead copy frees the id."""


def delivery_submissions(trigger: str, matches: Sequence[Match], catalog: Catalog, *, now_s: float) -> list[Submission]:
    """One submission per match, to be submitted in one call; a repeated delivery finds the first one's jobs.

    Raises InvalidRequest if a route's key cannot be one.
    """
    together = f"{random.getrandbits(64):016x}"  # for spread, not secrecy
    return [_submission(trigger, match, catalog, together, now_s) for match in matches]


def _submission(trigger: str, match: Match, catalog: Catalog, together: str, now_s: float) -> Submission:
    if match.key and (problem := key_problem(match.key)):
        raise InvalidRequest(f"trigger {trigger!r}, routes[{match.route_index}] (to {match.target!r}): key {problem}")
    target = catalog.targets.get(match.target)
    if target is None:  # it was deleted a moment ago, and the trigger is not read again yet
        raise InvalidRequest(f"trigger {trigger!r}: there is no target {match.target!r} any more", status=503)
    route, known = f"{match.target}#{match.route_index}", match.identity
    return Submission(
        job_id=catalog.new_id(int(now_s * 1000), target=match.target, key=match.key, idempotency_key=known or together),
        target=match.target,
        payload=match.payload,
        lane=match.lane or catalog.lane_of(target),
        key=match.key,
        max_attempts=target.retry.max_attempts,
        delay_ms=match.delay_ms,
        idempotency=None
        if known is None
        else Idempotency(idempotency_hash(f"trigger:{trigger}", route, known), _SAME_ID, catalog.window_ms),
        options=NO_OPTIONS,
    )
