"""Checks a callback: for the people who receive them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from gateway.errors import Rejected
from gateway.signing import PUBLIC_PREFIX, Headers, verify


def verify_callback(
    headers: Headers,
    body: bytes,
    key: str | Sequence[str],
    *,
    clock: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """The parsed body of a callback that really came from the gateway, sent within the last five minutes.

    `headers` in any case, as a mapping, as `http.server` has them, or as pairs; `body` the bytes as they came; `key`
    the callback's own `whsec_…` secret or the installation's `whpk_…` public key, or several of either. Raises
    `gateway.Rejected` otherwise (answer 401), and ValueError if a key is of neither form.
    """
    keys = [key] if isinstance(key, str) else list(key)
    verify(
        headers,
        body,
        secrets=[each for each in keys if not each.startswith(PUBLIC_PREFIX)],
        public_keys=[each for each in keys if each.startswith(PUBLIC_PREFIX)],
        now=clock(),
    )
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise Rejected("body") from exc
    if not isinstance(value, dict):
        raise Rejected("body")
    return value
