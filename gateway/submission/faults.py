"""Faults of one body, collected so that a client is told of all of them at once."""

from __future__ import annotations

from gateway.errors import Fault, InvalidRequest, NotFound


class Faults:
    """What is wrong with a body so far, by JSON pointer."""

    def __init__(self) -> None:
        self._found: list[Fault] = []
        self._unknown_target: Fault | None = None

    def add(self, pointer: str, detail: str) -> None:
        self._found.append(Fault(pointer, detail))

    def add_unknown_target(self, pointer: str, detail: str) -> None:
        """An unknown target is 404 where nothing else is wrong, one fault among others where something is."""
        self._unknown_target = Fault(pointer, detail)
        self._found.append(self._unknown_target)

    def touch(self, pointer: str) -> bool:
        """Whether a fault lies at the pointer or inside what it points to."""
        return any(fault.pointer == pointer or fault.pointer.startswith(f"{pointer}/") for fault in self._found)

    def raise_any(self) -> None:
        """Raises NotFound or InvalidRequest if there is any fault."""
        if not self._found:
            return
        first = self._found[0]
        if first is self._unknown_target and len(self._found) == 1:
            raise NotFound(first.detail, faults=self._found)
        what = f"{first.pointer or 'the body'}: {first.detail}" if len(self._found) == 1 else "several fields are wrong"
        raise InvalidRequest(what, faults=self._found)


def step(pointer: str, name: str | int) -> str:
    """The pointer to a member or item (RFC 6901)."""
    return f"{pointer}/{str(name).replace('~', '~0').replace('/', '~1')}"
