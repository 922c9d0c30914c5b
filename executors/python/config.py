"""The part of a target that says which function to call, and how."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec

from gateway import Duration

_PLACE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*\Z")
MAX_HEARTBEAT_S = 86400.0


class PythonConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The function to call: `"shop.images:resize"`, or with a dotted attribute, `"shop.images:Resizer.small"`.

    Sync functions run in a `thread` unless their `isolation` is a `process` of their own, of which a target has at most
    `processes`, each for `recycle_after` calls. An attempt that gives no sign of life (`heartbeat()`, `progress()`) for
    `heartbeat` is ended and retried.
    """

    callable: str
    isolation: Literal["thread", "process"] | None = None
    heartbeat: Duration | None = None
    processes: Annotated[int, msgspec.Meta(ge=1, le=256)] = 4
    recycle_after: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 100

    def __post_init__(self) -> None:
        if _PLACE.match(self.callable) is None:
            raise ValueError(f'callable is {self.callable!r}; write "package.module:function"')
        if self.heartbeat is not None and not 0.01 <= self.heartbeat <= MAX_HEARTBEAT_S:
            raise ValueError("heartbeat lies between 10ms and 1d")
