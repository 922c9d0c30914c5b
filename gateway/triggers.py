"""Triggers: which targets a verified delivery goes to, and with what payload.

Every route whose `when` holds gives one job, or, with `each`, one for every item that it holds for. A `when` that is
not defined on a delivery (a function on a value of a wrong type) does not hold: routes are written for one kind of
event and see them all. Any other expression that fails refuses the whole delivery before anything is queued: the other
routes' jobs alone would be acknowledged, and the failed one lost. The sender shows the refusal, repeats it a bounded
number of times, and a mended route takes it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.contents import MAX_EVENTS, Content, read_contents
from gateway.errors import InvalidRequest
from gateway.expressions import EvaluationFailed, roots_used
from gateway.reception import Reception
from gateway.routes import Match, Route, delay_ms, holds, match_of, parts
from gateway.verifier import Delivery, Verifier, WebhookRequest

MAX_ITEMS = 20_000
"""Items of arrays that one delivery's routes look at: each costs expressions, and all requests wait meanwhile."""

MAX_PAYLOADS = 64 * 1024 * 1024
"""Bytes in all jobs of a delivery: the longest body once. Items that bring the whole body along multiply it."""

DEFAULT_RECEPTION = Reception()


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
        ways = [(route.target, route.lane, at, delay_ms(route.delay, {}), nth) for at, (route, nth) in enumerate(plain)]
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
                for part, seen in parts(route, content, facts, delivery):
                    left -= route.each is not None
                    if left < 0:
                        raise InvalidRequest(
                            f"more than {MAX_ITEMS} items in one delivery, which is the most", status=413
                        )
                    if holds(route, seen):
                        yield match_of(index, route, content=part, facts=seen, nth=self.nths[index])
            except (EvaluationFailed, UnicodeDecodeError) as exc:
                raise self._unfit(index, exc) from exc
        return left
