"""The span of an attempt while it runs, for the attempt's own code and libraries: OpenTelemetry's own interface."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.trace import Span, SpanContext, Status, StatusCode
from opentelemetry.util import types

ADDED_MOST = 32
"""Attributes, and events, that an attempt's own code may add; more are dropped."""

TEXT_MOST = 1024
"""Of an added text so many characters are kept."""

_NUMBERS = (bool, int, float)

Added = Mapping[str, types.AttributeValue]


class LiveSpan(Span):
    """Takes attributes and events; its end and its status are the dispatcher's, which knows the outcome.

    An exception is noted by its type only: its message may hold anything, and the job's record has it.
    """

    def __init__(self, context: SpanContext) -> None:
        self._context = context
        self.attributes: dict[str, types.AttributeValue] = {}
        self.events: list[tuple[str, int | None, Added]] = []

    def get_span_context(self) -> SpanContext:
        return self._context

    def is_recording(self) -> bool:
        return True

    def set_attribute(self, key: str, value: types.AttributeValue) -> None:
        if key in self.attributes or len(self.attributes) < ADDED_MOST:
            self.attributes |= _kept({key: value})

    def set_attributes(self, attributes: Mapping[str, types.AttributeValue]) -> None:
        for key, value in attributes.items():
            self.set_attribute(key, value)

    def add_event(self, name: str, attributes: types.Attributes = None, timestamp: int | None = None) -> None:
        if len(self.events) < ADDED_MOST:
            self.events.append((name[:TEXT_MOST], timestamp, _kept(attributes or {})))

    def record_exception(
        self,
        exception: BaseException,
        attributes: types.Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        self.add_event("exception", {"exception.type": type(exception).__qualname__}, timestamp)

    def update_name(self, name: str) -> None:
        """Ignored: the name is what attempts of a target are found by."""

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Ignored: the outcome is the status."""

    def end(self, end_time: int | None = None) -> None:
        """Ignored: it ends when the outcome is written."""


def _kept(attributes: Added) -> dict[str, types.AttributeValue]:
    """What can be sent: a value that is neither a number nor a text is told by its type."""
    kept: dict[str, types.AttributeValue] = {}
    for key, value in list(attributes.items())[:ADDED_MOST]:
        text = value if isinstance(value, str) else type(value).__name__
        kept[key[:TEXT_MOST]] = value if isinstance(value, _NUMBERS) else text[:TEXT_MOST]
    return kept
