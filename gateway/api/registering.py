"""Targets over the API: what a PUT describes, checked until every fault is found."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson

from gateway.durations import Duration
from gateway.errors import ConfigError, Fault, InvalidRequest
from gateway.jobs import Callback
from gateway.registry import Registry
from gateway.registry.targets import Target, check_runnable
from gateway.settings import read_target
from gateway.submission.body import RetryOverride


class TargetBody(msgspec.Struct):
    """A target's table, as in `gateway.toml`; the keys beside these are its executor's (docs: call-outs)."""

    executor: str
    lane: str | None = None
    timeout: Duration | None = None
    retry: RetryOverride | None = None
    limit: dict[str, Any] | None = None
    ordered: bool = False
    breaker: dict[str, Any] | bool | None = None
    callback: Callback | None = None


MOST_FAULTS = 32
MOST_SECRETS = 8
_UNKNOWN = re.compile(r'unknown key "([^"]*)"')
_STEP = re.compile(r"([^.\[\]]+)")


def parse_target(name: str, text: bytes, registry: Registry) -> Target:
    """The target that the body of a PUT describes; raises InvalidRequest (400: no JSON, 422: with every fault)."""
    try:
        table = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        raise InvalidRequest(f"the body is not JSON: {exc}", status=400) from exc
    if not isinstance(table, dict):
        raise InvalidRequest("a target is an object", faults=[Fault("", 'expected an object, such as {"executor": …}')])
    faults: list[Fault] = []
    rest = dict(table)
    while len(faults) < MOST_FAULTS:
        try:
            target = _made(name, rest, registry)
        except ConfigError as exc:
            field = _field_of(exc)
            if faults and exc.detail.startswith("missing key") and exc.detail.split('"')[1] in table:
                break  # taken out below, because it was wrong
            faults.append(Fault(pointer_of(exc.place or field), exc.detail))
            if rest.pop(field, None) is None:
                break
            continue
        if not faults:
            return target
        break
    what = f"{faults[0].pointer or 'the body'}: {faults[0].detail}" if len(faults) == 1 else "several fields are wrong"
    raise InvalidRequest(what, faults=faults)


def _made(name: str, table: dict[str, Any], registry: Registry) -> Target:
    settings = msgspec.structs.replace(read_target(name, table, ""), place="")
    executor = registry.executors.get(settings.executor)
    if executor is not None and not executor.remote:
        remote = ", ".join(each.name for each in registry.executors.values() if each.remote)
        detail = f'targets of the executor "{executor.name}" are defined in the configuration file only; here: {remote}'
        raise ConfigError("executor", detail)
    target = registry.make_target(name, settings)
    check_runnable(target)
    return target


def _field_of(exc: ConfigError) -> str:
    """The key of the table that is at fault, as far as the error says."""
    if exc.place:
        return str(_STEP.findall(exc.place)[0])
    unknown = _UNKNOWN.match(exc.detail)
    return unknown[1] if unknown else ""


def pointer_of(place: str) -> str:
    """Where in a body a fault of the configuration lies: `routes[0]: when` is `/routes/0/when`."""
    steps = _STEP.findall(place.replace(": ", "."))
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)


def rotated(text: bytes, secret: str, *, now_s: float, overlap_s: float) -> bytes:
    """The table of a registered target with a new secret; the one until now, and older ones that still sign, stay
    beside it, each until its time."""
    table: dict[str, Any] = orjson.loads(text)
    older = [each for each in table.get("previous_secrets", []) if _signs(each, now_s)]
    if (present := table.get("secret")) and overlap_s > 0:
        until = datetime.fromtimestamp(now_s + overlap_s, UTC).isoformat(timespec="milliseconds")
        older.insert(0, {"secret": present, "until": until})
    return orjson.dumps(table | {"secret": secret, "previous_secrets": older[:MOST_SECRETS]})


def _signs(previous: dict[str, str], now_s: float) -> bool:
    until = previous.get("until")
    return until is None or datetime.fromisoformat(until).timestamp() > now_s
