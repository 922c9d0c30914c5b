"""The header `Prefer` (RFC 7240), of which `wait` is understood: how long an answer may be held."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ITEMS = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
_WAIT = re.compile(r'wait\s*=\s*"?(\d{1,9})"?\s*(?:;|\Z)', re.ASCII | re.IGNORECASE)


def preferred_wait(headers: Sequence[tuple[bytes, bytes]], most_s: int) -> int:
    """The seconds of `Prefer: wait=N`, at most `most_s`; 0 without it. What cannot be read is passed over, as the RFC
    wants; of several the first counts."""
    for name, value in headers:
        if name == b"prefer":
            for item in _ITEMS.findall(value.decode("latin-1")):
                found = _WAIT.match(item.strip())
                if found is not None:
                    return min(int(found[1]), most_s)
    return 0
