"""The named tables: `[targets.<name>]` and `[triggers.<name>]`, less what their executor or verifier reads, and
`[schedules.<name>]`."""

from __future__ import annotations

import json
from datetime import date, time
from typing import Any

import msgspec

from gateway.backoff import CALLBACK_RETRY, RetryOverride, RetryPolicy
from gateway.breaker import Breaker
from gateway.durations import Duration
from gateway.errors import ConfigError, SecretMissing
from gateway.jobs import BUILT_IN, ENDINGS, CallbackEvent
from gateway.keys import NAME
from gateway.limits import Limits
from gateway.reception import Reception
from gateway.schedules import ScheduleBody
from gateway.secret import Secret
from gateway.settings.checks import NAME_RULE, FieldFault, between
from gateway.settings.decoding import decode, join_place
from gateway.settings.secrets import SecretSource

TARGET_KEYS = ("executor", "lane", "timeout", "retry", "limit", "ordered", "breaker", "callback")
TRIGGER_KEYS = ("verifier", "routes", *Reception.__struct_fields__)


class TargetCallback(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The callback of a target's jobs that name none: as that of a job, its secret as secrets are configured."""

    url: str
    events: tuple[CallbackEvent, ...] = ENDINGS
    secret: Secret | None = None
    retry: RetryOverride | None = None

    def __post_init__(self) -> None:
        if not self.events:
            raise FieldFault("events", "is empty; leave it out for every end, or leave the callback out")
        if self.retry is not None:
            try:
                self.retry.over(CALLBACK_RETRY)
            except ValueError as exc:
                raise FieldFault("retry", f"{exc} (the defaults are base 1s and cap 6h)") from exc


class TargetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A target as configured; `config` holds the keys that its executor reads, `place` says where it stands.

    `untold` says which secret keeps the `callback` from being known, in a process that need not know it.
    """

    executor: str
    lane: str | None = None
    timeout: Duration = Duration(60)
    retry: RetryPolicy = RetryPolicy()
    limit: Limits | None = None
    ordered: bool = False
    breaker: Breaker | bool | None = None
    callback: TargetCallback | None = None
    config: dict[str, Any] = {}
    place: str = ""
    untold: str = ""

    def __post_init__(self) -> None:
        between("timeout", self.timeout, "1ms", "7d")

    def __repr__(self) -> str:
        return f"TargetSettings(place={self.place!r}, executor={self.executor!r})"  # a literal secret may be in config


class RouteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One route of a trigger; all but the target are JMESPath expressions over the delivery (or item of `each`).

    `lane` may be a lane's name, and `delay` a duration.
    """

    target: str
    when: str | None = None
    payload: str | None = None
    key: str | None = None
    lane: str | None = None
    delay: str | float | None = None
    each: str | None = None
    id: str | None = None


class TriggerSettings(Reception, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trigger as configured; `config` holds the keys that its verifier reads, `place` says where it stands."""

    verifier: str
    routes: tuple[RouteSettings, ...]
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    place: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.routes:
            raise FieldFault("routes", "a trigger needs a route, or its deliveries would go nowhere")

    def __repr__(self) -> str:
        return f"TriggerSettings(place={self.place!r}, verifier={self.verifier!r})"  # as above


class ScheduleSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule as configured; `place` says where it stands."""

    body: ScheduleBody
    place: str = ""


def read_target(name: str, table: object, place: str, *, secrets: SecretSource | None = None) -> TargetSettings:
    """The table of one target; `place` is the table's own. Raises ConfigError."""
    _check_name(name, place)
    if name.startswith(BUILT_IN):
        raise ConfigError(place, f'names that begin with "{BUILT_IN}" are the gateway\'s own; choose another')
    head, config = _split(table, TARGET_KEYS, place)
    untold = ""
    try:
        settings = decode(head, TargetSettings, place, secrets=secrets, beside=tuple(config))
    except SecretMissing as missing:
        if secrets is None or secrets.required:
            raise
        untold = f"{missing.place}: {missing.detail}"
        rest = {key: value for key, value in head.items() if key != "callback"}
        settings = decode(rest, TargetSettings, place, secrets=secrets, beside=tuple(config))
    return msgspec.structs.replace(settings, config=config, place=place, untold=untold)


def read_trigger(name: str, table: object, place: str, *, secrets: SecretSource | None = None) -> TriggerSettings:
    """The table of one trigger; `place` is the table's own. Raises ConfigError."""
    _check_name(name, place)
    head, config = _split(table, TRIGGER_KEYS, place)
    settings = decode(head, TriggerSettings, place, secrets=secrets, beside=tuple(config))
    return msgspec.structs.replace(settings, config=config, place=place)


def read_schedule(name: str, table: object, place: str, *, secrets: SecretSource | None = None) -> ScheduleSettings:
    """The table of one schedule; `place` is the table's own. Raises ConfigError."""
    _check_name(name, place)
    payload, fields = _split(table, ("payload",), place)
    body = decode(fields, ScheduleBody, place, secrets=secrets, beside=("payload",))
    if payload:
        written = _payload(payload["payload"], join_place(place, "payload"))
        body = msgspec.structs.replace(body, payload=written)
    return ScheduleSettings(body=body, place=place)


def _payload(value: object, place: str) -> msgspec.Raw:
    """A TOML value as JSON; its dates and times become strings."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_iso)
    except ValueError as exc:
        raise ConfigError(
            place, "JSON has no inf and no nan, nor is a number of 4300 digits read; leave them out"
        ) from exc
    return msgspec.Raw(text.encode())


def _iso(value: date | time) -> str:
    return value.isoformat()


def _check_name(name: str, place: str) -> None:
    """Raises ConfigError unless `name` can be part of a key and of a path."""
    if NAME.match(name) is None:
        raise ConfigError(place, f"{name!r} is not a name; {NAME_RULE}")


def _split(table: object, keys: tuple[str, ...], place: str) -> tuple[dict[str, Any], dict[str, Any]]:
    if not isinstance(table, dict):
        mend = f"; write [{place.rpartition(': ')[2]}], in single brackets" if isinstance(table, list) else ""
        raise ConfigError(place, f"expected a table, got {type(table).__name__}{mend}")
    head = {key: value for key, value in table.items() if key in keys}
    return head, {key: value for key, value in table.items() if key not in keys}
