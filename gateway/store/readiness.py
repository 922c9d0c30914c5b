"""How the work goes on, asked by a script that writes: what readiness is decided by."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.store.scripts import Arg
from gateway.store.store import Store

BEAT_S = 1.0
"""How often a dispatcher shows that its loops turn."""

WINDOW_S = (3.0, 10.0)
"""A dispatcher that has not done so within this counts as hung; the larger, unless work is to be stuck earlier."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Dispatchers whose loops turn, and how long work that could start has not been started (s)."""

    dispatchers: int
    waited_s: float
    late_s: float

    def stuck(self, after_s: float) -> str:
        """Why the work does not go on; empty if it does. Work that waits for slots is not stuck: somebody is at it."""
        waits_s = max(self.waited_s, self.late_s)
        if self.dispatchers > 0 or waits_s <= after_s:
            return ""
        return f"jobs have been ready for {waits_s:.0f} s and no dispatcher takes them; start one: gateway dispatch"


async def probe_new_work(store: Store, *, stuck_after_s: float) -> Readiness:
    """Writes as new work does: raises StoreError where a job could not be taken in."""
    return await _ask(store, "probe", [_window_ms(stuck_after_s)])


async def beat(store: Store, dispatcher_id: str, *, stuck_after_s: float) -> Readiness:
    """Shows that a dispatcher's loops turn; without an id only looks. Raises StoreError where no work could end."""
    return await _ask(store, "beat", [dispatcher_id, _window_ms(stuck_after_s)])


async def _ask(store: Store, script: str, args: list[Arg]) -> Readiness:
    replies = await store.mostly(script, args)
    return Readiness(
        dispatchers=max(reply[0] for reply in replies),
        waited_s=max(reply[1] for reply in replies) / 1e3,
        late_s=max(reply[2] for reply in replies) / 1e6,
    )


def _window_ms(stuck_after_s: float) -> int:
    least, most = WINDOW_S
    return round(1000 * min(most, max(least, stuck_after_s)))
