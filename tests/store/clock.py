"""A clock for the scripts that stands until a test moves it; the scripts' source differs in nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from gateway.store import Store
from gateway.store.scripts import Script, script

KEY = "test-clock"

_READ = "local time = call('TIME')\n"
_READ_OURS = f"""local time = call('TIME')
local standing = call('GET', P .. '{KEY}')
if standing then time = {{ floor(standing / 1000000), standing % 1000000 }} end
"""


def with_clock(original: Callable[[str], Script] = script) -> Callable[[str], Script]:
    """The loader of scripts that read their partition's standing clock, where it has one."""

    def load(name: str) -> Script:
        source = original(name).source
        assert source.count(_READ) == 1, "the prelude reads the time in another way now"
        source = source.replace(_READ, _READ_OURS)
        return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())

    return load


@dataclass(slots=True)
class Clock:
    """The time that every partition of a store sees, in Unix ms."""

    store: Store
    now_ms: int

    async def advance(self, ms: int) -> None:
        self.now_ms += ms
        for keyspace in self.store.keyspaces:
            await self.store.client.set(keyspace.prefix + KEY, self.now_ms * 1000)
