"""The installation as a whole: lanes, figures, keys, health."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from gateway.api.models.problems import Model
from gateway.api.models.targets import BlockedBy, DefaultCallback
from gateway.apikeys import Scope


class LaneState(Model):
    """How much waits in a lane."""

    lane: str
    pending: int
    oldest_seconds: float
    paused: bool


class Lanes(Model):
    """The lanes, the most urgent first."""

    lanes: list[LaneState]


class TargetStats(Model):
    """What happened to a target's jobs, by event; those of a target that is no longer there are still counted."""

    target: str
    events: dict[str, int]
    pending: int
    paused: bool
    blocked: BlockedBy | None = None


class Stats(Model):
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


class PublicKey(Model):
    """What a receiver verifies signatures with, as `whpk_…`."""

    algorithm: str
    public_key: str


class SigningKeys(Model):
    """The installation's public keys."""

    keys: list[PublicKey]


class KeyFacts(Model):
    """An API key without its secret."""

    id: str
    name: str
    scopes: list[Scope]
    created_at: datetime
    callback: DefaultCallback | None = None


class Keys(Model):
    """The API keys that were made, the oldest first."""

    apikeys: list[KeyFacts]


class MadeKey(Model):
    """A new API key; `key` is shown this once."""

    id: str
    name: str
    scopes: list[Scope]
    key: str


class Alive(Model):
    """The process answers; its event loop was this late."""

    status: Literal["alive"]
    loop_lag_ms: float


class Ready(Model):
    """Whether work can be taken in, and why not."""

    status: Literal["ready", "unready"]
    reason: str | None = None
