"""Triggers: which targets a verified delivery goes to, and with what payload.

Every route whose `when` holds gives one job, or, with `each`, one for every item that it holds for. A `when` that is
not defined on a delivery (a function on a value of a wrong type) does not hold: routes are written for one kind of
event and see them all. Any other expression that fails refuses the whole delivery before anything is queued: the other
routes' jobs alone would be acknowledged, and the failed one lost. The sender shows the refusal, repeats it a bounded
number of times, and a mended route takes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.contents import MAX_EVENTS, Content, raw_items, read_contents
from gateway.durations import parse_duration
from gateway.errors import InvalidRequest
from gateway.expressions import ROOTS, EvaluationFailed, Expression, compile_expression, evaluate, is_true, roots_used
from gateway.reception import Reception
from gateway.schemes.bodies import as_label
from gateway.verifier import Delivery, Verifier, WebhookRequest

MAX_ITEMS = 20_000
"""Items of arrays that one delivery's routes look at: each costs expressions, and all requests wait meanwhile."""

MAX_PAYLOADS = 64 * 1024 * 1024
"""Bytes in all jobs of a delivery: the longest body once. Items that bring the whole body along multiply it."""

MAX_KEY_BYTES = 64
"""What a value of a job's record may have before Redis stores the record at twice the size."""

DEFAULT_RECEPTION = Reception()

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


@dataclass(frozen=True, slots=True)
class Trigger:
    """A named webhook source: who checks its deliveries, where they go, and how they are taken in."""

    name: str
    verifier: Verifier[Any]
    routes: tuple[Route, ...]
    reception: Reception = DEFAULT_RECEPTION
    roots: frozenset[str] = field(init=False, repr=False, compare=False)
    """What the routes' expressions look at."""
    is_plain: bool = field(init=False, repr=False, compare=False)
    """Whether none of its routes looks at anything."""
    nths: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Of each route: how many before it go to the same target."""
    ways: Sequence[tuple[str, str | None, int, int, int]] = field(init=False, repr=False, compare=False)
    """Of each route, if it is plain: what its jobs' matches have in common."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_plain", all(route.is_plain for route in self.routes))
        targets = [route.target for route in self.routes]
        object.__setattr__(self, "nths", tuple(targets[:at].count(target) for at, target in enumerate(targets)))
        plain = zip(self.routes, self.nths, strict=True) if self.is_plain else ()
        ways = [
            (route.target, route.lane, at, _delay_ms(route.delay, {}), nth) for at, (route, nth) in enumerate(plain)
        ]
        object.__setattr__(self, "ways", ways)
        found: set[str] = set()
        for route in self.routes:
            for part in (route.when, route.payload, route.key, route.lane, route.delay, route.each, route.id):
                if part is not None and not isinstance(part, (str, float)):
                    found |= roots_used(part)
        object.__setattr__(self, "roots", frozenset(found))

    def warning(self, public_url: str | None) -> str:
        """What keeps its deliveries from verifying, with the mend; empty if nothing does. All that a sender would see
        is the 401 of a signature that does not fit."""
        if public_url is not None or not self.verifier.needs_public_url:
            return ""
        return (
            "no delivery of this trigger can verify: its signature covers the URL, and public_url is not set; "
            "set public_url in [gateway], or url in the trigger"
        )

    def match(self, request: WebhookRequest, delivery: Delivery) -> list[Match]:
        """One match per route that holds, in order, of each event and item; none is no error.

        InvalidRequest: 400 if the JSON is nested too deep, 413 for too many events, items, jobs or bytes in them, 415
        if a route hands on a body that is neither JSON nor UTF-8, 422 if an expression fails, naming the route.
        """
        contents = read_contents(request, delivery, self.reception.content or self.verifier.content)
        if self.is_plain and len(contents) == 1:  # as most are, and all of its jobs are alike
            found = self._plain_matches(contents[0])
            if not found or (len(found) <= MAX_EVENTS and len(found) * len(found[0].payload) <= MAX_PAYLOADS):
                return found
        found, carried = [], 0
        for match in self._every_match(contents, request, delivery):
            found.append(match)
            carried += len(match.payload)
            if len(found) > MAX_EVENTS:
                raise InvalidRequest(f"more than {MAX_EVENTS} jobs of one delivery, which is the most", status=413)
            if carried > MAX_PAYLOADS:
                raise self._too_much(match)
        return found

    def _every_match(self, contents: Sequence[Content], request: WebhookRequest, delivery: Delivery) -> Iterator[Match]:
        left = MAX_ITEMS
        for content in contents:
            if self.is_plain:
                yield from self._plain_matches(content)
            else:
                left = yield from self._matches(content, content.facts(request, self.roots), delivery, left)

    def _too_much(self, match: Match) -> InvalidRequest:
        where = f"trigger {self.name!r}, routes[{match.route_index}] (to {match.target!r})"
        most = f"{MAX_PAYLOADS // 2**20} MiB"
        return InvalidRequest(
            f"{where}: the jobs of this delivery carry more than {most} together; hand on less than the whole body "
            "with each (payload)",
            status=413,
        )

    def _plain_matches(self, content: Content) -> list[Match]:
        try:
            payload = content.payload()
        except UnicodeDecodeError as exc:
            raise self._unfit(0, exc) from exc
        identity = content.identity
        return [
            Match(target, payload, "", lane, at, identity, delay_ms, nth)
            for target, lane, at, delay_ms, nth in self.ways
        ]

    def _unfit(self, index: int, exc: EvaluationFailed | UnicodeDecodeError) -> InvalidRequest:
        status = 415 if isinstance(exc, UnicodeDecodeError) else 422
        detail = "the body is neither JSON nor UTF-8 text" if status == 415 else str(exc)
        where = f"trigger {self.name!r}, routes[{index}] (to {self.routes[index].target!r})"
        return InvalidRequest(f"{where}: {detail}", status=status)

    def _matches(
        self, content: Content, facts: dict[str, Any], delivery: Delivery, left: int
    ) -> Generator[Match, None, int]:
        """Its matches; returns how many items may still be looked at."""
        for index, route in enumerate(self.routes):
            try:
                for part, seen in _parts(route, content, facts, delivery):
                    left -= route.each is not None
                    if left < 0:
                        raise InvalidRequest(
                            f"more than {MAX_ITEMS} items in one delivery, which is the most", status=413
                        )
                    if _holds(route, seen):
                        yield _match(index, route, content=part, facts=seen, nth=self.nths[index])
            except (EvaluationFailed, UnicodeDecodeError) as exc:
                raise self._unfit(index, exc) from exc
        return left


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


def _parts(
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


def _match(index: int, route: Route, *, content: Content, facts: dict[str, Any], nth: int) -> Match:
    return Match(
        route.target,
        content.payload() if route.payload is None else _payload(route.payload, facts, content),
        "" if route.key is None else _key("key", evaluate(route.key, facts)),
        _lane(route, facts),
        index,
        content.identity if route.id is None else _key("id", evaluate(route.id, facts)) or content.identity,
        0 if route.delay == 0.0 else _delay_ms(route.delay, facts),
        nth,
    )


def _payload(expression: Expression, facts: dict[str, Any], content: Content) -> bytes:
    value = evaluate(expression, facts)
    if value is None and content.raw and not content.is_json and not content.form:
        # it most likely meant the body, and a job with nothing in it would be all that is left of the delivery
        raise EvaluationFailed("payload is null, and the body is not JSON")
    return _encode(value)


def _holds(route: Route, facts: dict[str, Any]) -> bool:
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


def _delay_ms(delay: Expression | float, facts: dict[str, Any]) -> int:
    return round(1000 * (delay if isinstance(delay, float) else _delay(evaluate(delay, facts))))


def _delay(value: object) -> float:
    """Seconds; nothing is no delay."""
    if value is None:
        return 0.0
    try:
        return float(parse_duration(value))
    except ValueError as exc:
        raise EvaluationFailed('delay must be null, a number of seconds, or text such as "10m"') from exc
