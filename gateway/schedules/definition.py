"""What a schedule is: as it is written (`PUT /schedules/{name}`, `[schedules.<name>]`), and as it is kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.durations import Duration
from gateway.jobs import NULL, Callback

Overlap = Literal["allow", "forbid", "replace"]
Source = Literal["file", "api"]

MAX_JITTER_S = 86400.0
MAX_PAYLOAD = 65536
MAX_CATCH_UP = 1000
DEFAULT_CATCH_UP = "once"

_ALL = re.compile(r"all\((\d{1,4})\)\Z", re.ASCII)


class ScheduleBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A schedule as it is written; `null` is the same as left out, and the payload's bytes are kept as they are."""

    cron: str | None = None
    timezone: str | None = None
    target: str | None = None
    payload: msgspec.Raw = msgspec.field(default_factory=lambda: NULL)
    lane: str | None = None
    priority: Annotated[int, Meta(ge=-100, le=100)] | None = None
    key: str | None = None
    jitter: Duration | None = None
    catch_up: str | None = None
    overlap: Overlap | None = None
    paused: bool | None = None
    max_attempts: Annotated[int, Meta(ge=1, le=1000)] | None = None
    timeout: Duration | None = None
    tags: tuple[str, ...] | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule that was checked. `lane` and `max_attempts` None are the target's; `paused` is how it begins."""

    name: str
    cron: str
    target: str
    timezone: str = "UTC"
    payload: msgspec.Raw = NULL
    lane: str | None = None
    priority: int = 0
    key: str = ""
    jitter_ms: int = 0
    catch_up: str = DEFAULT_CATCH_UP
    overlap: Overlap = "allow"
    paused: bool = False
    max_attempts: int | None = None
    timeout: float | None = None
    tags: tuple[str, ...] = ()
    source: Source = "api"

    @property
    def timing(self) -> str:
        """All that decides when it fires: another timing begins anew, anything else leaves the next slot be."""
        return f"{self.cron}|{self.timezone}|{self.jitter_ms}"


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What a schedule's jobs take from their target and from the lanes, where the schedule says nothing itself."""

    lane: str
    max_attempts: int
    callback: Callback | None = None


def catch_up_most(text: str) -> int:
    """How many missed slots `skip`, `once` or `all(<max>)` makes up for; ValueError for anything else."""
    if text == "skip":
        return 0
    if text == "once":
        return 1
    found = _ALL.match(text)
    if found is None or not 1 <= int(found[1]) <= MAX_CATCH_UP:
        raise ValueError(f'{text[:64]!r} is no policy; write "skip", "once" or "all(<max>)", max 1 to {MAX_CATCH_UP}')
    return int(found[1])


def make_schedule(name: str, body: ScheduleBody, source: Source) -> Schedule:
    """The schedule that a checked body describes."""
    assert body.cron is not None
    assert body.target is not None
    return Schedule(
        name=name,
        cron=" ".join(body.cron.split()),
        target=body.target,
        timezone=body.timezone or "UTC",
        payload=msgspec.Raw(bytes(body.payload)),
        lane=body.lane,
        priority=body.priority or 0,
        key=body.key or "",
        jitter_ms=round((body.jitter or 0) * 1000),
        catch_up=body.catch_up or DEFAULT_CATCH_UP,
        overlap=body.overlap or "allow",
        paused=body.paused or False,
        max_attempts=body.max_attempts,
        timeout=None if body.timeout is None else float(body.timeout),
        tags=body.tags or (),
        source=source,
    )
