"""Triggers: which targets a verified delivery goes to, and with what payload.

Every route whose `when` holds gives one job. A `when` that is not defined on a delivery (a function on a value of a
wrong type) does not hold: routes are written for one kind of event and see them all. A `payload` or `key` that fails
refuses the whole delivery before anything is queued: the other routes' jobs alone would be acknowledged, and the
failed one lost. The sender shows the refusal, repeats it a bounded number of times, and a mended route takes it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import orjson

from gateway.errors import InvalidRequest
from gateway.expressions import EvaluationFailed, Expression, compile_expression, evaluate, is_true
from gateway.nesting import MAX_DEPTH, too_deep
from gateway.verifier import Delivery, Verifier, WebhookRequest

MAX_KEY_BYTES = 64
"""What a value of a job's record may have before Redis stores the record at twice the size."""


@dataclass(frozen=True, slots=True)
class Route:
    """One way out of a trigger; an absent `when` always holds, an absent `payload` is the body as it came."""

    when: Expression | None
    target: str
    payload: Expression | None
    key: Expression | None
    lane: str | None


@dataclass(frozen=True, slots=True)
class Match:
    """A job to submit: `payload` is a JSON text, `key` empty for none, `lane` None for the target's own."""

    target: str
    payload: bytes
    key: str
    lane: str | None
    route_index: int


@dataclass(frozen=True, slots=True)
class Trigger:
    """A named webhook source: who checks its deliveries, and where they go."""

    name: str
    verifier: Verifier[Any]
    routes: tuple[Route, ...]

    def match(self, request: WebhookRequest, delivery: Delivery) -> list[Match]:
        """One match per route that holds, in order; none is no error.

        InvalidRequest: 400 if the JSON is nested too deep, 415 if a route hands on a body that is neither JSON nor
        UTF-8, 422 if a `payload` or `key` fails, naming the route.
        """
        content = _read(request.body if delivery.body is None else delivery.body)
        facts = {"headers": _headers(request), "query": _query(request), "body": content.value}
        return [
            self._match(index, route, content=content, facts=facts)
            for index, route in enumerate(self.routes)
            if _holds(route, facts)
        ]

    def _match(self, index: int, route: Route, *, content: _Content, facts: dict[str, Any]) -> Match:
        try:
            payload = content.payload() if route.payload is None else _payload(route.payload, facts, content)
            key = "" if route.key is None else _key(evaluate(route.key, facts))
        except (EvaluationFailed, UnicodeDecodeError) as exc:
            status = 415 if isinstance(exc, UnicodeDecodeError) else 422
            detail = "the body is neither JSON nor UTF-8 text" if status == 415 else str(exc)
            where = f"trigger {self.name!r}, routes[{index}] (to {route.target!r})"
            raise InvalidRequest(f"{where}: {detail}", status=status) from exc
        return Match(route.target, payload, key, route.lane, index)


def compile_route(
    place: str,
    *,
    target: str,
    when: str | None = None,
    payload: str | None = None,
    key: str | None = None,
    lane: str | None = None,
) -> Route:
    """A route with its expressions compiled; ConfigError names `place` with the field, and the column."""

    def compiled(field: str, text: str | None) -> Expression | None:
        return None if text is None else compile_expression(f"{place}.{field}", text)

    return Route(compiled("when", when), target, compiled("payload", payload), compiled("key", key), lane)


@dataclass(frozen=True, slots=True)
class _Content:
    """A body as routes see it: `value` is None where it is not JSON."""

    raw: bytes
    is_json: bool
    value: Any

    def payload(self) -> bytes:
        """The body verbatim, or, where it is not JSON, its text as a JSON string; UnicodeDecodeError if no text."""
        return self.raw if self.is_json else orjson.dumps(self.raw.decode())


def _read(body: bytes) -> _Content:
    """JSON is what executors can parse (orjson); the value is parsed so that integers stay exact (msgspec)."""
    if too_deep(body):
        raise InvalidRequest(f"the body is nested deeper than {MAX_DEPTH} levels", status=400)
    try:
        orjson.loads(body)
        return _Content(body, True, msgspec.json.decode(body))
    except ValueError:
        return _Content(body, False, None)


def _payload(expression: Expression, facts: dict[str, Any], content: _Content) -> bytes:
    value = evaluate(expression, facts)
    if value is None and content.raw and not content.is_json:
        # it most likely meant the body, and a job with nothing in it would be all that is left of the delivery
        raise EvaluationFailed("payload is null, and the body is not JSON")
    return _encode(value)


def _headers(request: WebhookRequest) -> dict[str, str]:
    """Headers by lower-case name; repeated ones are joined as RFC 9110 5.3 joins them."""
    found: dict[str, list[str]] = {}
    for name, value in request.headers:
        found.setdefault(name, []).append(value)
    return {name: ", ".join(values) for name, values in found.items()}


def _query(request: WebhookRequest) -> dict[str, str]:
    """Query parameters; the last of a repeated name wins."""
    return dict(parse_qsl(request.url.partition("#")[0].partition("?")[2], keep_blank_values=True))


def _holds(route: Route, facts: dict[str, Any]) -> bool:
    try:
        return route.when is None or is_true(evaluate(route.when, facts))
    except EvaluationFailed:
        return False


def _encode(value: Any) -> bytes:
    """The JSON text of an expression's value; the standard encoder, since orjson refuses integers beyond 64 bits."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise EvaluationFailed("the payload's value is not JSON (an infinite number, or an expression)") from exc


def _key(value: Any) -> str:
    """A flow's key: a string as it is, empty for null, a number or boolean as its JSON text.

    A sender may choose what stands there, so a longer one is replaced by its hash: still one key for each value.
    """
    if value is not None and not isinstance(value, (str, int, float)):
        raise EvaluationFailed("key must be a string, a number, a boolean or null")
    key = value if isinstance(value, str) else "" if value is None else _encode(value).decode()
    return key if len(key.encode()) <= MAX_KEY_BYTES else hashlib.sha256(key.encode()).hexdigest()
