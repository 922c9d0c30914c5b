"""What a request's body says: JSON that is read into a Struct, with every fault that is found in it."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gateway.api.bodies import check_json
from gateway.api.call import Call
from gateway.submission import check_text
from gateway.submission.decoding import decode_struct
from gateway.submission.faults import Faults

S = TypeVar("S", bound=msgspec.Struct)


async def json_text(call: Call) -> bytes:
    """The body, which says that it is JSON, and can be looked into; raises RequestError."""
    check_json(call.headers)
    text = await call.body()
    check_text(text)
    return text


async def whole_body(call: Call, kind: type[S]) -> tuple[S, Faults]:
    """The body as a Struct whose fields all have defaults, and what is wrong with it so far; raises RequestError."""
    faults = Faults()
    return decode_struct(await json_text(call), kind, faults), faults


async def optional_body(call: Call, kind: type[S]) -> S:
    """The same, nothing wrong with it; one that is left out has the defaults. Raises RequestError."""
    text = await call.body()
    if not text.strip():
        return kind()
    check_json(call.headers)
    check_text(text)
    faults = Faults()
    body = decode_struct(text, kind, faults)
    faults.raise_any()
    return body
