"""The installation's own signing keys, which lie in the control partition: what callbacks are signed by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

from gateway.keys import Keyspace
from gateway.secret import Secret
from gateway.store.client import Client
from gateway.store.refusals import answered

MOST_OLD_KEYS = 4


class SigningKeys:
    """The keys (`whsk_…`) as they were last read; `clock` gives Unix seconds."""

    def __init__(self, client: Client, control: Keyspace, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._control = control
        self._clock = clock
        self._known: tuple[tuple[Secret, float], ...] = ()
        self._present: tuple[Secret, ...] = ()
        self._present_until_s = math.inf

    @property
    def present(self) -> tuple[Secret, ...]:
        """Those that sign now, the newest first; none before they were read. One and the same tuple until they change,
        since every attempt asks."""
        if self._present_until_s < math.inf and self._clock() >= self._present_until_s:
            self._choose()
        return self._present

    def _choose(self) -> None:
        now_s = self._clock()
        signing = [(key, until_s) for key, until_s in self._known if until_s > now_s]
        self._present = tuple(key for key, _ in signing)
        self._present_until_s = min((until_s for _, until_s in signing), default=math.inf)

    async def read(self) -> None:
        """Takes over what stands in Redis, and keeps what is known where nothing does; raises StoreError."""
        wanted = self._client.hmget(self._control.conf, "signing_key", "signing_keys_old")
        present, old = await answered(cast("Any", wanted))
        if not present:
            return
        pairs = (old or b"").decode().split()
        older = [(Secret(key), int(until) / 1000) for until, key in zip(pairs[::2], pairs[1::2], strict=True)]
        self._known = ((Secret(present.decode()), math.inf), *older)
        self._choose()
