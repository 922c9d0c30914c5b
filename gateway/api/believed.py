"""What Redis said of a name, believed for a while: requests come oftener than keys and triggers change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any, Generic, TypeVar

T = TypeVar("T")

MOST = 4096
"""Names that are remembered: strangers may ask for any."""


class Believed(Generic[T]):
    """Answers by name, each believed for `for_s`; who asks for a name meanwhile shares one question."""

    def __init__(self, for_s: float) -> None:
        self._for_s = for_s
        self._answers: dict[str, tuple[float, asyncio.Task[T]]] = {}

    async def get(self, name: str, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer, asked for if none is believed; a question goes on when one who waits for it is cancelled."""
        now_s = monotonic()
        asked_s, answer = self._answers.get(name, (now_s, None))
        if answer is None or now_s - asked_s > self._for_s or _failed(answer):
            self._answers.pop(name, None)
            if len(self._answers) >= MOST:
                self._answers.pop(next(iter(self._answers)))
            answer = asyncio.create_task(ask())
            self._answers[name] = (now_s, answer)
        return await asyncio.shield(answer)

    def known(self, name: str) -> T | None:
        """The answer, if there is one that is believed still."""
        asked_s, answer = self._answers.get(name, (0.0, None))
        if answer is None or monotonic() - asked_s > self._for_s:
            return None
        return answer.result() if answer.done() and not _failed(answer) else None

    def forget(self, name: str) -> None:
        """Drops the answer: this process has just made it untrue."""
        self._answers.pop(name, None)


def _failed(answer: asyncio.Task[T]) -> bool:
    return answer.done() and (answer.cancelled() or answer.exception() is not None)
