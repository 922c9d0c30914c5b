"""The mend for a name that nothing has: the gateway is asked for those that there are."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable

from gateway.client import AsyncGateway
from gateway.client.calls import schedules, targets, triggers
from gateway.errors import GatewayError, NotFound
from gateway.spelling import mend_name

Run = Callable[[Callable[[AsyncGateway], Awaitable[list[str]]]], list[str]]

_MISSED = re.compile(r"no (target|trigger|schedule) named '([^']*)'(?:; known: .*)?\Z", re.DOTALL)
_PAGE = 100


def mended(error: NotFound, run: Run) -> NotFound:
    """The same error with the nearest name and those that there are, where it is about one and the gateway tells."""
    found = _MISSED.match(error.detail)
    if found is None:
        return error
    kind, name = found.groups()
    try:
        known = run(lambda gateway: _names(gateway, kind))
    except GatewayError:
        return error
    return NotFound(f"no {kind} named {name!r}; {mend_name(name, known)}")


def warn_of_unknown_target(name: str, run: Run) -> None:
    """Says on standard error that no target has that name, if none has."""
    known = run(lambda gateway: _names(gateway, "target"))
    if name not in known:
        print(f"gateway: no target named {name!r}; {mend_name(name, known)}", file=sys.stderr)


async def _names(gateway: AsyncGateway, kind: str) -> list[str]:
    if kind == "target":
        return [each.name for each in (await gateway.call(targets.list_targets())).targets]
    if kind == "trigger":
        return [each.name for each in (await gateway.call(triggers.list_triggers())).triggers]
    listing = schedules.list_schedules(_PAGE)
    names: list[str] = []
    cursor: str | None = None
    while True:
        page, cursor = listing.of(await gateway.call(listing.at(cursor)))
        names += [each.name for each in page]
        if cursor is None:
            return names
