"""More of a user's code: copied beside the configuration."""

from __future__ import annotations

import time
from typing import Any


async def block(payload: float) -> None:
    """Holds the event loop up, as code that should not be in it does."""
    time.sleep(payload)  # noqa: ASYNC251


def doubt(payload: Any, context: Any) -> str:
    """Goes well the second time."""
    if context.number == 1:
        raise RuntimeError("not yet")
    return "well"
