"""Slots: how many attempts a dispatcher runs at once, shared by its claim loops, in turn and by what each has to do."""

from __future__ import annotations

from collections.abc import Callable


class Turn:
    """One claim loop's place among those that share the slots.

    `appetite` is how many jobs its partition is likely to have: as many as its last claim brought, twice as many where
    that claim came back full. `away` while it cannot claim: then it keeps its place, and nobody waits for it.
    """

    __slots__ = ("appetite", "away", "tell")

    def __init__(self, tell: Callable[[], None]) -> None:
        self.tell = tell
        self.appetite = 1
        self.away = False

    def fed(self, asked: int, got: int) -> None:
        """Told what a claim brought."""
        self.appetite = max(1, got * 2 if got == asked else got)


class Slots:
    """Counts free slots. A claim reserves them before it asks, so nothing is fetched that cannot run at once.

    Where there are too few for all, loops that got none wait in a line, and the first of it come first: none starves.
    Of several that may claim, each takes a share by its appetite.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.free = count
        self._line: dict[Turn, None] = {}
        self._suspect: Turn | None = None
        self._last_suspect: Turn | None = None
        self._suspect_missed = False

    def reserve(self, turn: Turn, most: int) -> int:
        """Takes up to `most` free slots: how many it got; with none, the turn is told when it may ask again."""
        self._line.setdefault(turn)
        waiting = [each for each in self._line if not each.away or each is turn]
        ahead = waiting.index(turn)
        if self.free <= ahead:
            return 0
        share = self.free * turn.appetite // sum(each.appetite for each in waiting)
        n = min(most, max(1, share), self.free - ahead)
        del self._line[turn]
        self.free -= n
        return n

    def spare(self, turn: Turn) -> int:
        """How many free slots there are that no other turn waits for."""
        if self._line and not all(each is turn or each.away for each in self._line):
            return 0
        return self.free

    def take(self, most: int) -> int:
        """Takes up to `most` free slots for jobs that are there already, whoever waits: how many it got."""
        n = max(0, min(self.free, most))
        self.free -= n
        return n

    def give_back(self, n: int) -> None:
        """Returns slots, reserved for nothing or done with."""
        self.free += n
        if self._line and self.free > 0:
            for turn in [turn for turn in self._line if not turn.away][: self.free]:
                turn.tell()

    def leave(self, turn: Turn) -> None:
        """The turn wants no more slots."""
        self._line.pop(turn, None)

    def reserve_suspect(self, turn: Turn) -> bool:
        """Takes the one place for a suspect job, if it is free; who had it last leaves it once to others who asked."""
        if self._suspect is not None:
            self._suspect_missed = True
            return False
        if self._suspect_missed and self._last_suspect is turn:
            self._suspect_missed = False
            return False
        self._suspect = self._last_suspect = turn
        return True

    def give_back_suspect(self) -> None:
        self._suspect = None
