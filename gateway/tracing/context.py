"""W3C Trace Context: the `traceparent` header and what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?\Z", re.ASCII)
_SAMPLED = 0x01


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A place in a trace: the span that is the parent of what comes next."""

    trace_id: int
    span_id: int
    sampled: bool

    @classmethod
    def parse(cls, text: str) -> TraceContext | None:
        """None where the text is no `traceparent` of a version that can be read."""
        found = _TRACEPARENT.match(text)
        if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
            return None
        trace_id, span_id = int(found[2], 16), int(found[3], 16)
        if not trace_id or not span_id:
            return None
        return cls(trace_id, span_id, bool(int(found[4], 16) & _SAMPLED))

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{'01' if self.sampled else '00'}"

    @property
    def trace(self) -> str:
        """The trace's id, as logs and backends write it."""
        return f"{self.trace_id:032x}"


def is_sampled(traceparent: str) -> bool:
    """Is the trace of a stored `traceparent` of ours sampled? All that an untraced job costs."""
    return traceparent[-1:] == "1"
