"""Coroutines taken a first step by hand, to see whether they are over with it."""

from __future__ import annotations

import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


@types.coroutine
def rest_of(coroutine: Coroutine[Any, None, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Awaits the rest of a coroutine whose first step brought `waits_for`: the task waits for that first."""
    while True:
        try:
            yield waits_for
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:
            try:
                waits_for = coroutine.throw(error)
            except StopIteration as over:
                result: T = over.value
                return result
        else:
            # the loop resumes with None whatever was waited for, and so does `yield from`
            rest: T = yield from coroutine
            return rest
