"""A verified delivery into the jobs that its trigger's routes want, all of them in one partition."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from gateway.errors import InvalidRequest
from gateway.jobs import Idempotency, Options, Submission
from gateway.keys import idempotency_hash
from gateway.submission.catalog import Catalog
from gateway.submission.checks import key_problem
from gateway.triggers import Match
from gateway.verifier import Delivery

_SAME_ID = "~delivery"
"""The fingerprint of every copy: a verified id says that it is the same delivery. `~`: a dead copy frees the id."""


def delivery_submissions(
    trigger: str, matches: Sequence[Match], catalog: Catalog, *, delivery: Delivery, now_s: float
) -> list[Submission]:
    """One submission per match, to be submitted in one call; a repeated delivery finds the first one's jobs.

    Raises InvalidRequest if a route's key cannot be one.
    """
    together = delivery.id or secrets.token_hex(8)
    return [_submission(trigger, match, catalog, delivery, together, now_s) for match in matches]


def _submission(
    trigger: str, match: Match, catalog: Catalog, delivery: Delivery, together: str, now_s: float
) -> Submission:
    if match.key and (problem := key_problem(match.key)):
        raise InvalidRequest(f"trigger {trigger!r}, routes[{match.route_index}] (to {match.target!r}): key {problem}")
    target = catalog.targets[match.target]
    route = f"{match.target}#{match.route_index}"
    return Submission(
        job_id=catalog.new_id(int(now_s * 1000), target=match.target, key=match.key, idempotency_key=together),
        target=match.target,
        payload=match.payload,
        lane=match.lane or catalog.lane_of(target),
        key=match.key,
        max_attempts=target.retry.max_attempts,
        idempotency=None
        if delivery.id is None
        else Idempotency(idempotency_hash(f"trigger:{trigger}", route, delivery.id), _SAME_ID, catalog.window_ms),
        options=Options(),
    )
