"""Following events: a stream read line by line, taken up again where it broke off (HTML, section 9.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx
import msgspec

from gateway.client.answers import Answer
from gateway.client.call import Call, nothing
from gateway.errors import BadAnswer

FOLLOW = Call(method="GET", path="/events", read=nothing)
_STREAM = "text/event-stream"
IDLE_S = 45.0
"""Three times what a gateway lets pass without a sign of life."""


class LiveEvent(Answer, frozen=True, kw_only=True):
    """Something that just happened to a job; the type `gap` says that events were missed, and has no more facts."""

    type: str
    at: datetime | None = None
    job_id: str = ""
    target: str = ""
    lane: str = ""
    attempt: int = 0
    delay_ms: int | None = None
    reason: str | None = None
    detail: str | None = None


@dataclass(slots=True)
class EventReader:
    """Makes events of a stream's lines; `position` is where to go on: behind the last event that came whole."""

    position: str | None = None
    _id: str | None = None
    _kind: str = ""
    _data: list[str] = field(default_factory=list)

    def begin(self) -> dict[str, str]:
        """What the next request says of where the last stream broke off; half an event of that is forgotten."""
        self._id, self._kind, self._data = self.position, "", []
        return {"Accept": _STREAM} | ({"Last-Event-ID": self.position} if self.position else {})

    def read(self, line: str) -> Iterator[LiveEvent]:
        """The event that this line completes, if it does."""
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._id = value
        elif name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif not line:
            self.position = self._id
            kind, data, self._kind, self._data = self._kind, self._data, "", []
            if data and kind != "dropped":  # the connection ends, and is made again
                yield _event(kind, "\n".join(data))


def check_stream(response: httpx.Response) -> None:
    """Raises BadAnswer for what is no stream of events: it would be read for ever, and tell nothing."""
    if not response.headers.get("content-type", "").startswith(_STREAM):
        raise BadAnswer(f"{response.url.copy_with(query=None)} is not a gateway: it answered with no stream of events")


def _event(kind: str, text: str) -> LiveEvent:
    try:
        facts = msgspec.json.decode(text, type=dict[str, Any])
        return msgspec.convert({"type": kind, **facts}, LiveEvent, strict=False)
    except msgspec.MsgspecError as exc:
        raise BadAnswer(f"an event is not that of a gateway of this version: {exc}") from exc


def query_of(types: tuple[str, ...], target: str | None, lane: str | None, job_id: str | None) -> dict[str, str]:
    """What narrows the stream down."""
    given = {"type": ",".join(types), "target": target, "lane": lane, "job_id": job_id}
    return {name: value for name, value in given.items() if value}
