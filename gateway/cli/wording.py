"""A gateway's refusal in the words of a command: options instead of JSON pointers and headers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gateway.errors import RequestError

KEY_MEND = "give --api-key or set GATEWAY_API_KEY"

_HEADER_MEND = re.compile(r"send Authorization: Bearer \S+")
_QUERY = "the query has faults: "
_OUTER = ("filter", "overrides")
"""Objects of a body that a command line does without."""


def worded(error: RequestError, parameters: Mapping[str, str]) -> RequestError:
    """The same error for who typed the command; `parameters` are what they could type, by the field that it sets."""
    text = _HEADER_MEND.sub(KEY_MEND, error.detail)
    for fault in sorted(error.faults, key=lambda each: -len(each.pointer)):
        if said := _parameter(fault.pointer, parameters):
            text = text.replace(f"{fault.pointer}: ", f"{said}: ")
    if all(fault.pointer in parameters for fault in error.faults):
        text = text.removeprefix(_QUERY)
    return type(error)(text, faults=error.faults, status=error.status)


def _parameter(pointer: str, parameters: Mapping[str, str]) -> str:
    """What was typed wrong; empty where no option or argument stands for that place."""
    parts = pointer.split("/")[1:] or [pointer]  # a parameter of the query is named without a slash
    if parts and parts[0] in _OUTER:
        del parts[0]
    if whole := parameters.get("_".join(parts)):
        return whole
    if len(parts) > 1 and (one := parameters.get("_".join(parts[:-1]).removesuffix("s"))):
        # an option for each item: `--tag`, `--callback-event`
        return one
    first = parameters.get(parts[0]) if parts else None
    return f"{first}: {'/'.join(parts[1:])}" if first else ""
