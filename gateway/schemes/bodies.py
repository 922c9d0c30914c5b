"""What a body says, read only once it is verified: fields of a JSON body, fields of a form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from gateway.errors import Rejected
from gateway.nesting import too_deep
from gateway.wellformed import mend

MAX_FORM_FIELDS = 1000

_MAX_TEXT = 256
_FORM = re.compile(rb"[A-Za-z0-9_.~%+*\-\[\]!'()]{1,256}=")
_PRINTABLE = re.compile(r"[\x21-\x7e]+")

Form = tuple[tuple[str, str], ...]


class BodyFields:
    """Reads a few fields of a JSON body without building the rest of it."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = tuple(dict.fromkeys(paths))
        self._decoder = msgspec.json.Decoder(_shape(self._paths))

    def read(self, body: bytes) -> dict[str, Any]:
        """The fields' values by their paths; one that is not there, or lies in no object, is left out."""
        if not body or too_deep(body):
            return {}
        found = self._decoded(body)
        values = {path: _at(found, path) for path in self._paths}
        return {path: value for path, value in values.items() if value is not None}

    def _decoded(self, body: bytes) -> Any:
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):  # deep brackets that do not pair up get here
            pass
        try:
            mended = mend(body)
            return None if mended is None else self._decoder.decode(mended)
        except (msgspec.MsgspecError, ValueError):
            return None


def as_label(value: Any) -> str:
    """A value that may be part of a delivery's id or its event: short printable text, else empty."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value) if abs(value) < 2**128 else ""
    if isinstance(value, str) and len(value) <= _MAX_TEXT and _PRINTABLE.fullmatch(value):
        return value
    return ""


def looks_like_form(body: bytes) -> bool:
    """Told from the signed bytes, not from the unsigned Content-Type: no JSON text begins with a form field. Most begin
    with a brace, which no form field has: to ask for it costs less than the pattern."""
    return not body.startswith(b"{") and _FORM.match(body) is not None


def read_form(body: bytes) -> Form:
    """The fields of a form body, in order; Rejected if there are too many."""
    if not body:
        return ()
    try:
        return tuple(parse_qsl(body.decode(errors="replace"), keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS))
    except ValueError as exc:
        raise Rejected("body") from exc


def _shape(paths: Iterable[str]) -> type[msgspec.Struct]:
    """A Struct that has only the paths' fields; whatever else a body holds is skipped."""
    tree: dict[str, list[str]] = {}
    for path in paths:
        name, _, rest = path.partition(".")
        tree.setdefault(name, []).append(rest)
    fields: list[tuple[str, Any, Any]] = []
    names: dict[str, str] = {}
    for at, (name, rests) in enumerate(tree.items()):
        inner = [rest for rest in rests if rest]
        kind: Any = Any if len(inner) < len(rests) else _shape(inner) | None
        fields.append((f"f{at}", kind, None))
        names[f"f{at}"] = name
    return msgspec.defstruct("Body", fields, rename=names, frozen=True)


def _at(found: Any, path: str) -> Any:
    for name in path.split("."):
        if isinstance(found, msgspec.Struct):
            attribute = next(each.name for each in msgspec.structs.fields(found) if each.encode_name == name)
            found = getattr(found, attribute)
        elif isinstance(found, dict):
            found = found.get(name)
        else:
            return None
    return found
