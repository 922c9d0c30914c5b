"""A verified delivery into the jobs that its trigger's routes want, all of them in one partition."""

from __future__ import annotations

import random
from collections.abc import Sequence

from gateway.errors import InvalidRequest
from gateway.jobs import NO_OPTIONS, Idempotency, Options, Submission
from gateway.keys import idempotency_hash
from gateway.routes import Match
from gateway.submission.catalog import Catalog, TargetFacts
from gateway.submission.checks import key_problem

_SAME_ID = "~delivery"
"""The fingerprint of every copy: a verified id says that it is the same delivery. `~`: a dead copy frees the id."""


def delivery_submissions(trigger: str, matches: Sequence[Match], catalog: Catalog, *, now_s: float) -> list[Submission]:
    """One submission per match, to be submitted in one call; a repeated delivery finds the first one's jobs.

    Raises InvalidRequest if a route's key cannot be one.
    """
    now_ms = int(now_s * 1000)
    together = ""
    jobs = []
    for match in matches:
        name, key, known = match.target, match.key, match.identity
        if not known and not together:
            together = f"{random.getrandbits(64):016x}"  # for spread, not secrecy
        target = catalog.targets.get(name)
        if target is None or key:
            target = _target(trigger, match, catalog)
        told = target.callback
        jobs.append(
            Submission(  # by position, since naming its values costs as much as making it
                catalog.new_id(now_ms, target=name, key=key, idempotency_key=known or together),
                name,
                match.payload,
                match.lane or target.lane or catalog.default_lane,
                0,
                key,
                match.delay_ms,
                0,
                target.retry.max_attempts,
                None
                if known is None
                else Idempotency(
                    idempotency_hash(f"trigger:{trigger}", f"{name}#{match.nth}", known), _SAME_ID, catalog.window_ms
                ),
                NO_OPTIONS if told is None else Options(callback=told),
            )
        )
    return jobs


def _target(trigger: str, match: Match, catalog: Catalog) -> TargetFacts:
    if match.key and (problem := key_problem(match.key)):
        raise InvalidRequest(f"trigger {trigger!r}, routes[{match.route_index}] (to {match.target!r}): key {problem}")
    target = catalog.targets.get(match.target)
    if target is None:  # it was deleted a moment ago, and the trigger is not read again yet
        raise InvalidRequest(f"trigger {trigger!r}: there is no target {match.target!r} any more", status=503)
    return target
