"""The header `Prefer` (RFC 7240), of which two are understood: `wait`, how long an answer may be held, and
`durability`, what a job must have reached before it is acknowledged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from gateway.api.headers import Headers
from gateway.api.problems import Refused
from gateway.store.durability import DURABILITIES, Durability

_ITEMS = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
_DURABILITY = re.compile(r'durability\s*=\s*"?([^";]*?)"?\s*(?:;|\Z)', re.ASCII | re.IGNORECASE)
_WAIT = re.compile(r'wait\s*=\s*"?(\d{1,9})"?\s*(?:;|\Z)', re.ASCII | re.IGNORECASE)


def preferred_wait(headers: Headers, most_s: int) -> int:
    """The seconds of `Prefer: wait=N`, at most `most_s`; 0 without it. What cannot be read is passed over, as the RFC
    wants; of several the first counts."""
    for item in _items(headers):
        found = _WAIT.match(item)
        if found is not None:
            return min(int(found[1]), most_s)
    return 0


def preferred_durability(headers: Headers) -> Durability | None:
    """The level of `Prefer: durability=LEVEL`, None without it.

    Raises Refused (400) for a level that there is not: a client that asked for more than it gets must not go unheard.
    """
    for item in _items(headers):
        found = _DURABILITY.match(item)
        if found is not None:
            if found[1] not in DURABILITIES:
                levels = ", ".join(DURABILITIES)
                raise Refused(400, f"Prefer: no durability {found[1][:16]!r}; write one of: {levels}", close=True)
            return cast("Durability", found[1])
    return None


def _items(headers: Headers) -> Iterator[str]:
    for value in headers.all(b"prefer"):
        yield from (item.strip() for item in _ITEMS.findall(value.decode("latin-1")))
