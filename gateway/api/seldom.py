"""What would be told for each of a flood, told once in a while instead."""

from __future__ import annotations


class Seldom:
    """Lets one thing of a name be told, and then no other for `every_s`."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._told: dict[str, tuple[float, int]] = {}

    def passed_over(self, name: str, *, now_s: float) -> int | None:
        """How many were passed over since one was told last; None if this one is passed over as well."""
        at_s, silent = self._told.get(name, (-self._every_s, 0))
        if 0 <= now_s - at_s < self._every_s:
            self._told[name] = (at_s, silent + 1)
            return None
        self._told[name] = (now_s, 0)
        return silent
