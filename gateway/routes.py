"""The routes of a trigger: what each looks at, whether it holds, and the job that it makes of a delivery."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.contents import Content, raw_items
from gateway.durations import parse_duration
from gateway.expressions import ROOTS, EvaluationFailed, Expression, compile_expression, evaluate, is_true
from gateway.schemes.bodies import as_label
from gateway.verifier import Delivery

MAX_KEY_BYTES = 64
"""What a value of a job's record may have before Redis stores the record at twice the size."""

ITEM = "item"
"""What expressions of a route with `each` see besides."""

_PLAIN_PATH = re.compile(r"body(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Route:
    """One way out of a trigger; an absent `when` always holds, an absent `payload` is the body (or item) as it came.

    `lane` and `delay` (seconds) are the same for all deliveries, or an expression. `lanes` are those that there are.
    """

    when: Expression | None
    target: str
    payload: Expression | None
    key: Expression | None
    lane: Expression | str | None
    delay: Expression | float = 0.0
    each: Expression | None = None
    id: Expression | None = None
    lanes: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether it looks at nothing: whatever is delivered gives one job, with the body as it came."""
        looked = (self.when, self.payload, self.key, self.each, self.id)
        return looked == (None,) * 5 and isinstance(self.lane, str | None) and isinstance(self.delay, float)


class Match(msgspec.Struct, frozen=True):
    """A job to submit: `payload` is a JSON text, `key` empty for none, `lane` None for the target's own, `identity`
    what a repeat is recognised by, `nth` which of the trigger's routes to the target it took, from 0: that it does not
    become another one when a route to elsewhere comes before it."""

    target: str
    payload: bytes
    key: str
    lane: str | None
    route_index: int
    identity: str | None = None
    delay_ms: int = 0
    nth: int = 0


def compile_route(
    place: str,
    *,
    target: str,
    when: str | None = None,
    payload: str | None = None,
    key: str | None = None,
    lane: str | None = None,
    delay: str | float | None = None,
    each: str | None = None,
    id: str | None = None,
    lanes: Collection[str] = (),
) -> Route:
    """A route with its expressions compiled; ConfigError names `place` with the field, and the column.

    A `lane` that is the name of one, and a `delay` that is a duration, are those; else they are expressions.
    """
    roots = ROOTS if each is None else (*ROOTS, ITEM)

    def compiled(field: str, text: str | None, names: Collection[str] = roots) -> Expression | None:
        return None if text is None else compile_expression(f"{place}.{field}", text, roots=names)

    return Route(
        compiled("when", when),
        target,
        compiled("payload", payload),
        compiled("key", key),
        lane if lane is None or lane in lanes or not lanes else compiled("lane", lane),
        _delay(delay) if _is_duration(delay) else compiled("delay", str(delay)) or 0.0,
        compiled("each", each, ROOTS),
        compiled("id", id),
        tuple(lanes),
    )


def parts(
    route: Route, content: Content, facts: dict[str, Any], delivery: Delivery
) -> Iterator[tuple[Content, dict[str, Any]]]:
    """What a route looks at: the content, or each item of its array."""
    if route.each is None:
        yield content, facts
        return
    value = _when_defined(route.each, facts)
    if not isinstance(value, list):
        return  # another kind of delivery than the route is for
    text = route.each.expression
    raw = raw_items(content, text) if _PLAIN_PATH.fullmatch(text) and content.is_json else None
    for at, item in enumerate(value):
        own = raw[at] if raw is not None and len(raw) == len(value) else _encode(item)
        yield Content(own, True, _item_id(item, at, content, delivery)), {**facts, ITEM: item}


def _item_id(item: Any, at: int, content: Content, delivery: Delivery) -> str | None:
    """What a repeat of an item is recognised by: its own fields, wherever it stands; else its place."""
    labels = [as_label(_at(item, path)) for path in delivery.item_fields]
    if labels and all(labels):
        return "item:" + ":".join(labels)
    return None if content.identity is None else f"{content.identity}#{at}"


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def match_of(index: int, route: Route, *, content: Content, facts: dict[str, Any], nth: int) -> Match:
    """The job of a route that holds; raises EvaluationFailed, or UnicodeDecodeError for a body that is no text."""
    return Match(
        route.target,
        content.payload() if route.payload is None else _payload(route.payload, facts, content),
        "" if route.key is None else _key("key", evaluate(route.key, facts)),
        _lane(route, facts),
        index,
        content.identity if route.id is None else _key("id", evaluate(route.id, facts)) or content.identity,
        0 if route.delay == 0.0 else delay_ms(route.delay, facts),
        nth,
    )


def _payload(expression: Expression, facts: dict[str, Any], content: Content) -> bytes:
    value = evaluate(expression, facts)
    if value is None and content.raw and not content.is_json and not content.form:
        # it most likely meant the body, and a job with nothing in it would be all that is left of the delivery
        raise EvaluationFailed("payload is null, and the body is not JSON")
    return _encode(value)


def holds(route: Route, facts: dict[str, Any]) -> bool:
    """Whether a route takes what it sees; a `when` that is not defined on it does not hold."""
    return route.when is None or is_true(_when_defined(route.when, facts))


def _when_defined(expression: Expression, facts: dict[str, Any]) -> Any:
    try:
        return evaluate(expression, facts)
    except EvaluationFailed:
        return None


def _encode(value: Any) -> bytes:
    """The JSON text of an expression's value; the standard encoder, since orjson refuses integers beyond 64 bits."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as exc:
        raise EvaluationFailed("the payload's value is not JSON (an infinite number, or an expression)") from exc


def _key(field: str, value: Any) -> str:
    """A flow's key or an identity: a string as it is, empty for null, a number or boolean as its JSON text.

    A sender may choose what stands there, so a longer one is replaced by its hash: still one key for each value.
    """
    if value is not None and not isinstance(value, (str, int, float)):
        raise EvaluationFailed(f"{field} must be a string, a number, a boolean or null")
    key = value if isinstance(value, str) else "" if value is None else _encode(value).decode()
    try:
        text = key.encode()
    except UnicodeEncodeError as exc:
        raise EvaluationFailed(f"{field} has half of a surrogate pair, which is not text") from exc
    return key if len(text) <= MAX_KEY_BYTES else hashlib.sha256(text).hexdigest()


def _lane(route: Route, facts: dict[str, Any]) -> str | None:
    if route.lane is None or isinstance(route.lane, str):
        return route.lane
    value = evaluate(route.lane, facts)
    if value is not None and value not in route.lanes:
        raise EvaluationFailed(f"lane must be null or one of: {', '.join(route.lanes)}")
    return value if isinstance(value, str) else None


def _is_duration(value: object) -> bool:
    if value is None:
        return True
    try:
        parse_duration(value)
    except ValueError:
        return False
    return True


def delay_ms(delay: Expression | float, facts: dict[str, Any]) -> int:
    """How much later the job is due; raises EvaluationFailed."""
    return round(1000 * (delay if isinstance(delay, float) else _delay(evaluate(delay, facts))))


def _delay(value: object) -> float:
    """Seconds; nothing is no delay."""
    if value is None:
        return 0.0
    try:
        return float(parse_duration(value))
    except ValueError as exc:
        raise EvaluationFailed('delay must be null, a number of seconds, or text such as "10m"') from exc
