"""Values that are kept as JSON texts, as a record would show them."""

from __future__ import annotations

from typing import Any

import orjson

from gateway import Deferred, Result


def plain(value: Any) -> Any:
    """The value of a text that is kept verbatim; any other is itself."""
    return orjson.loads(orjson.dumps(value)) if isinstance(value, orjson.Fragment) else value


def shown(result: Result | Deferred) -> Result:
    """The result with its value as a record shows it."""
    assert isinstance(result, Result)
    return Result(plain(result.value), meta=result.meta)
