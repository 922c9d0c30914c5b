"""The installation as a whole: lanes, figures, keys, health."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from gateway.apikeys import Scope
from gateway.client.answers.problems import Answer


class LaneState(Answer, frozen=True, kw_only=True):
    """How much waits in a lane, and for how long the job has that waits longest."""

    lane: str
    pending: int
    oldest_seconds: float
    paused: bool


class Lanes(Answer, frozen=True, kw_only=True):
    """The lanes, the most urgent first."""

    lanes: list[LaneState]


class TargetStats(Answer, frozen=True, kw_only=True):
    """What happened to a target's jobs, by event, and what waits for it."""

    target: str
    events: dict[str, int]
    pending: int
    paused: bool
    blocked: str | None = None


class Stats(Answer, frozen=True, kw_only=True):
    """What waits, runs and is kept now; `events` and `targets` count since the data began."""

    lanes: list[LaneState]
    due: int
    running: int
    dead: int
    finished: int
    dispatchers: int
    late_seconds: float
    events: dict[str, int]
    targets: list[TargetStats]


class PublicKey(Answer, frozen=True, kw_only=True):
    """What a receiver verifies signatures with, as `whpk_…`."""

    algorithm: str
    public_key: str


class SigningKeys(Answer, frozen=True, kw_only=True):
    """The installation's public keys."""

    keys: list[PublicKey]


class DefaultCallback(Answer, frozen=True, kw_only=True):
    """The callback of an API key's or a target's jobs that name none, without its secret."""

    url: str
    events: list[str]


class KeyFacts(Answer, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    name: str
    scopes: list[Scope]
    created_at: datetime
    callback: DefaultCallback | None = None


class Keys(Answer, frozen=True, kw_only=True):
    """The API keys that were made, the oldest first."""

    apikeys: list[KeyFacts]


class MadeKey(Answer, frozen=True, kw_only=True):
    """A new API key; `key` is shown this once."""

    id: str
    name: str
    scopes: list[Scope]
    key: str


class Ready(Answer, frozen=True, kw_only=True):
    """Whether work can be taken in, and why not."""

    status: Literal["ready", "unready"]
    reason: str | None = None
