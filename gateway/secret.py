"""A secret value whose repr, str and JSON never show it."""

from __future__ import annotations


class Secret:
    """Holds a secret string; only `reveal()` gives it, so a log line or traceback cannot."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__
