"""A call of the API as a value: what is sent, and how its answer is read; nothing here does any I/O."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec

from gateway.errors import BadAnswer

T = TypeVar("T")
R = TypeVar("R")

Repeat = Literal["safe", "unsent"]
"""Whether a call may be repeated when its answer is lost: `unsent` only where it cannot have reached a gateway."""


class NotAName(ValueError):
    """What was given for a name or an id can be none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request; `read` makes a value of the answer's bytes, `hold_s` is how long the gateway may hold it back."""

    method: str
    path: str
    read: Callable[[bytes], T]
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    repeat: Repeat = "safe"
    hold_s: float = 0.0
    idempotency_key: str | None = None

    def read_by(self, read: Callable[[bytes], R]) -> Call[R]:
        """The same call, its answer read in another way; by `bytes` it is left as it came."""
        parts = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return Call(**{**parts, "read": read})


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """Pages of items: the first call, and where its answer has the items."""

    first: Call[dict[str, Any]]
    items: str
    kind: type[T]

    def at(self, cursor: str | None) -> Call[dict[str, Any]]:
        """The call for the page that starts there."""
        if cursor is None:
            return self.first
        return dataclasses.replace(self.first, query={**self.first.query, "cursor": cursor})

    def of(self, page: dict[str, Any]) -> tuple[list[T], str | None]:
        """A page's items, and the cursor of the next page; BadAnswer if it is none."""
        items, cursor = self.raw(page)
        return self.typed(items), cursor

    def raw(self, page: dict[str, Any]) -> tuple[list[Any], str | None]:
        """The same, the items as they came."""
        items, cursor = page.get(self.items), page.get("next_cursor")
        if not isinstance(items, list) or not isinstance(cursor, str | None):
            raise self._bad(f"it has no {self.items}")
        return items, cursor

    def typed(self, items: list[Any]) -> list[T]:
        """Items as they came in their type; BadAnswer."""
        try:
            return msgspec.convert(items, list[self.kind], strict=False)  # type: ignore[name-defined]
        except msgspec.ValidationError as exc:
            raise self._bad(str(exc)) from exc

    def _bad(self, detail: str) -> BadAnswer:
        place = f"{self.first.method} {self.first.path}"
        return BadAnswer(f"{place}: the answer is not that of a gateway of this version: {detail}")


def answer(kind: type[T]) -> Callable[[bytes], T]:
    """Reads an answer as this type."""
    return msgspec.json.Decoder(kind).decode


def nothing(body: bytes) -> None:
    """Reads an answer that has no body."""


def path(*segments: str) -> str:
    """A path of these segments; NotAName for one that cannot be one. A slash is in no name, and what stands before a
    gateway may take an escaped one for one that parts segments."""
    for segment in segments:
        if segment in ("", ".", "..") or "/" in segment:
            raise NotAName(f"{segment!r} is no name and no id")
    return "".join(f"/{quote(segment, safe='')}" for segment in segments)
