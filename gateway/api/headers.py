"""A request's headers, each found in one step."""

from __future__ import annotations

from collections.abc import Iterator, KeysView, Sequence
from itertools import chain

from gateway.api.problems import Refused


class Headers:
    """Names in lower case, with their values in the order in which they came."""

    __slots__ = ("_named", "_pairs")

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._pairs = pairs
        self._named = dict(pairs)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return iter(self._pairs)

    @property
    def names(self) -> KeysView[bytes]:
        """Each name once."""
        return self._named.keys()

    def __contains__(self, name: bytes) -> bool:
        return name in self._named

    def one(self, name: bytes) -> bytes | None:
        """The value of a header, None if it is not there; Refused (400) if it is there twice."""
        value = self._named.get(name)
        if value is None or len(self._named) == len(self._pairs) or (count := len(self.all(name))) == 1:
            return value
        raise Refused(400, f"the header {name.decode()} is there {count} times; send it once", close=True)

    def all(self, name: bytes) -> list[bytes]:
        """Every value of a header, in order."""
        return [value for key, value in self._pairs if key == name] if name in self._named else []

    def texts(self) -> tuple[tuple[str, str], ...]:
        """All of them as Latin-1, which loses nothing; decoded as one text, since no line end can be in any."""
        if not self._pairs:
            return ()
        flat = b"\n".join(chain.from_iterable(self._pairs)).decode("latin-1").split("\n")
        return tuple(zip(flat[::2], flat[1::2], strict=True))
