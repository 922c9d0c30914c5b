"""What a handler can do of a request in one go: answer it, or say which jobs it submits and what is answered then.

Most requests that bring jobs wait for one thing, the reply of a submit that they share. So they need no task: one is
begun as soon as its body is there, and answered in the turn of the loop in which the reply comes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from gateway.api.call import Call
from gateway.api.reply import Reply
from gateway.jobs import Submission, Submitted
from gateway.store.durability import Durability


class Asked(msgspec.Struct, frozen=True):
    """Jobs to submit (`together`: all of them or none), and the answer by what became of them.

    `finish` raises RequestError or StoreError for an answer that is a problem.
    """

    jobs: Sequence[Submission]
    finish: Callable[[list[Submitted]], Reply]
    durability: Durability | None = None
    together: bool = False


Begun = Reply | Asked | Coroutine[Any, Any, Reply]
"""The last is what more there is to wait for."""

Begin = Callable[[Call, bytes], Begun | None]
"""Takes a request whose body is there; None, before anything was done, where its answer takes more than one submit.
Raises what handlers raise."""


async def carry_on(call: Call, begun: Begun) -> Reply:
    """The answer, by waiting for it."""
    if isinstance(begun, Reply):
        return begun
    if not isinstance(begun, Asked):
        return await begun
    store, until_s = call.gateway.store, call.until_s
    if begun.together:
        return begun.finish(await store.submit_together(begun.jobs, until_s=until_s))
    return begun.finish(await store.submit(begun.jobs, begun.durability, until_s=until_s))


def is_one_call(asked: Asked) -> bool:
    """Whether all that is to be waited for is one script call, however many partitions there are."""
    return len(asked.jobs) == 1 and not asked.together
