"""The part of a target that says which function to call, and how."""

from __future__ import annotations

import re

import msgspec

from gateway import Duration

_PLACE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*\Z")
MAX_HEARTBEAT_S = 86400.0


class PythonConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The function to call: `"shop.images:resize"`, or with a dotted attribute, `"shop.images:Resizer.small"`.

    An attempt that gives no sign of life (`heartbeat()`, `progress()`) for `heartbeat` is ended and retried.
    """

    callable: str
    heartbeat: Duration | None = None

    def __post_init__(self) -> None:
        if _PLACE.match(self.callable) is None:
            raise ValueError(f'callable is {self.callable!r}; write "package.module:function"')
        if self.heartbeat is not None and not 0.01 <= self.heartbeat <= MAX_HEARTBEAT_S:
            raise ValueError("heartbeat lies between 10ms and 1d")
