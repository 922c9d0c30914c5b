"""A request's headers, each found in one step."""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Mapping, Sequence

import msgspec

from gateway.api.problems import Refused


class Headers(msgspec.Struct, frozen=True):
    """Names in lower case, with their values in the order in which they came; `named` has the last value of each."""

    pairs: Sequence[tuple[bytes, bytes]]
    named: Mapping[bytes, bytes]

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self.pairs)

    @property
    def names(self) -> KeysView[bytes]:
        """Each name once."""
        return self.named.keys()

    def __contains__(self, name: bytes) -> bool:
        return name in self.named

    def one(self, name: bytes) -> bytes | None:
        """The value of a header, None if it is not there; Refused (400) if it is there twice."""
        value = self.named.get(name)
        if value is None or len(self.named) == len(self.pairs) or (count := len(self.all(name))) == 1:
            return value
        raise Refused(400, f"the header {name.decode()} is there {count} times; send it once", close=True)

    def all(self, name: bytes) -> list[bytes]:
        """Every value of a header, in order."""
        return [value for key, value in self.pairs if key == name] if name in self.named else []
