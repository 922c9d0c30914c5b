"""The circuit breaker of a target: when it opens, and for how long (lua/breaker.lua)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.durations import Duration


class Breaker(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Opens once `ratio` of at least `minimum` attempts within a `window` have failed, for `pause`; then one job tries.

    Each further opening in a row lasts twice as long, up to `cap`.
    """

    ratio: Annotated[float, Meta(gt=0, le=1)] = 0.7
    minimum: Annotated[int, Meta(ge=1, le=1_000_000)] = 20
    window: Duration = Duration(30)
    pause: Duration = Duration(5)
    cap: Duration = Duration(300)

    def __post_init__(self) -> None:
        if self.pause < 0.01:
            raise ValueError("pause is at least 10ms")
        if self.window < 0.1:
            raise ValueError("window is at least 100ms")
        if self.cap < self.pause:
            raise ValueError("cap is less than pause")


def breaker_fields(breaker: Breaker | None) -> dict[str, int]:
    """The breaker as `lua/flow_control.lua` takes it; `breaker` 0 is none."""
    if breaker is None:
        return {"breaker": 0}
    return {
        "breaker": breaker.minimum,
        "breaker_ratio": max(1, round(breaker.ratio * 100)),
        "breaker_window": round(breaker.window * 1e6),
        "breaker_pause": round(breaker.pause * 1e6),
        "breaker_cap": round(breaker.cap * 1e6),
    }
