"""What the demo's targets run: plain code, which need not know that a gateway calls it."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any


def work(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    """A `python` target: fails as often as its payload asks for, then gives a receipt.

    A function that takes one argument gets the payload; `context` is the attempt, for those who want to know more.
    """
    if context.number <= payload.get("failures", 0):
        raise RuntimeError("fails, as asked")
    return receipt(context.payload.raw)


def receipt(body: bytes) -> dict[str, Any]:
    """How many bytes came, and which."""
    return {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}


if __name__ == "__main__":
    # a `command` target: the payload on standard input, the result on standard output
    print(json.dumps(receipt(sys.stdin.buffer.read())))
