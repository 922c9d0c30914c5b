"""What the description says beyond the types: of parameters, and of bodies whose fields depend on each other.

`null` counts as left out in every body, so a required field is one that is not null; which of several fields there must
be, only a schema over all of them can say. An empty parameter of a query counts as left out too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.apikeys import SCOPES
from gateway.deliveries import VERDICTS
from gateway.jobs import Reason, Status
from gateway.store.follower import KINDS

_KIND = "|".join(KINDS)
_TEXT: dict[str, Any] = {"type": "string"}


def _text(**rules: Any) -> dict[str, Any]:
    return _TEXT | rules


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}], "default": None}


def _one_of_them(*names: str) -> list[dict[str, Any]]:
    return [{"required": [name], "properties": {name: _TEXT}} for name in names]


_TARGET, _LANE, _KEY = _text(format="target-name"), _text(format="lane-name"), _text(minLength=1, maxLength=128)
_TAGS = {"type": "array", "maxItems": 10, "items": _text(minLength=1, maxLength=64)}
_FILTERED: dict[str, Any] = {
    "required": ["filter"],
    "properties": {"filter": {"$ref": "#/components/schemas/ReplayFilter"}},
}

REFINEMENTS: dict[str, dict[str, Any]] = {
    "SubmitBody": {
        "anyOf": _one_of_them("target", "type", "url"),
        "properties": {
            "target": _or_null(_TARGET),
            "type": _or_null(_TARGET),
            "lane": _or_null(_LANE),
            "key": _or_null(_KEY),
            "idempotency_key": _or_null(_text(minLength=1, maxLength=256)),
            "tags": _or_null(_TAGS),
        },
    },
    "ScheduleBody": {
        "required": ["cron", "target"],
        "properties": {
            "cron": _text(format="cron"),
            "timezone": _or_null(_text(format="time-zone")),
            "target": _TARGET,
            "lane": _or_null(_LANE),
            "key": _or_null(_KEY),
            "catch_up": _or_null(_text(pattern=r"^(skip|once|all\([0-9]{1,4}\))$")),
            "tags": _or_null(_TAGS),
        },
    },
    "NewKey": {
        "properties": {
            "name": _text(minLength=1, maxLength=64),
            "scopes": {"type": "array", "minItems": 1, "items": {"enum": list(SCOPES)}},
        },
    },
    "ReplayBody": _FILTERED,
    "PurgeBody": _FILTERED,
}
"""By the name of the component: what stands over what msgspec says of the type."""

_PARAMETERS: dict[tuple[str, str], dict[str, Any]] = {
    ("query", "limit"): {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 100}, {"const": ""}], "default": 50},
    ("query", "cursor"): {"type": "string", "format": "cursor"},
    ("query", "status"): {"type": "string", "enum": [*(status.value for status in Status), ""]},
    ("query", "reason"): {"type": "string", "enum": [*(reason.value for reason in Reason), ""]},
    ("query", "type"): {"type": "string", "pattern": f"^(({_KIND})(,({_KIND}))*)?$"},
    ("query", "verdict"): {"type": "string", "enum": [*VERDICTS, ""]},
    ("path", "name"): {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"},
    ("header", "Idempotency-Key"): {"type": "string", "minLength": 1, "maxLength": 256},
    ("header", "Last-Event-ID"): {"type": "string", "format": "event-id"},
}


def describe_parameter(name: str, kind: str, text: str, *, lanes: Sequence[str]) -> dict[str, Any]:
    """The description of a parameter in the path, query or headers."""
    schema = {"type": "string", "enum": [*lanes, ""]} if (kind, name) == ("query", "lane") else None
    out: dict[str, Any] = {"name": name, "in": kind, "schema": schema or _PARAMETERS.get((kind, name), _TEXT)}
    if kind == "path":
        out["required"] = True
    if text:
        out["description"] = text
    return out
