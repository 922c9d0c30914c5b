"""Slots: how many attempts a dispatcher runs at once, shared by its claim loops."""

from __future__ import annotations

from collections.abc import Callable


class Slots:
    """Counts free slots. A claim reserves them before it asks, so nothing is fetched that cannot run at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.free = count
        self._on_freed: list[Callable[[], None]] = []
        self._suspect = False

    def on_freed(self, tell: Callable[[], None]) -> None:
        """Has `tell` called whenever a slot becomes free."""
        self._on_freed.append(tell)

    def reserve(self, most: int) -> int:
        """Takes up to `most` free slots: how many it got."""
        n = min(self.free, most)
        self.free -= n
        return n

    def give_back(self, n: int) -> None:
        """Returns slots, reserved for nothing or done with."""
        self.free += n
        for tell in self._on_freed:
            tell()

    def reserve_suspect(self) -> bool:
        """Takes the one place for a suspect job, if it is free."""
        if self._suspect:
            return False
        self._suspect = True
        return True

    def give_back_suspect(self) -> None:
        self._suspect = False
