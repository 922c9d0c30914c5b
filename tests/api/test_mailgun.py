"""Mailgun signs a token and not the event beside it: what a token that somebody saw is still good for."""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import Any

from tests.api.running import Running

KEY = "the-signing-key"
FAILED = "body.\"event-data\".event == 'failed'"


def delivery(event: str, token: str) -> dict[str, Any]:
    """An event beside the signature of that token."""
    at = str(int(time.time()))
    signature = hmac.new(KEY.encode(), f"{at}{token}".encode(), hashlib.sha256).hexdigest()
    return {"signature": {"timestamp": at, "token": token, "signature": signature}, "event-data": {"event": event}}


async def sent(api: Running, body: dict[str, Any], event: str) -> tuple[int, bool]:
    """How many jobs came of a delivery with another event in it, and whether it was a repeat."""
    answer = await api.client.post("/hooks/mg", json=body | {"event-data": {"event": event}})
    assert answer.status_code == 202, answer.text
    return len(answer.json()["jobs"]), answer.json()["duplicate"]


async def register(api: Running, *routes: dict[str, str]) -> None:
    body = {"verifier": "mailgun", "secrets": [KEY], "routes": routes}
    assert (await api.client.put("/triggers/mg", json=body)).status_code == 201


async def test_token_is_good_for_one_job_where_one_route_takes_every_event(api: Running) -> None:
    await register(api, {"target": "echo"})
    genuine = delivery("opened", "t" * 50)
    assert await sent(api, genuine, "opened") == (1, False)
    assert await sent(api, genuine, "failed") == (1, True)
    assert await api.queued() == 1


async def test_token_is_good_once_for_each_route(api: Running) -> None:
    await register(api, {"target": "echo", "when": FAILED}, {"target": "resize", "when": FAILED.replace("==", "!=")})
    genuine = delivery("opened", "u" * 50)
    assert await sent(api, genuine, "opened") == (1, False)
    assert await sent(api, genuine, "failed") == (1, False)
    for event in ("opened", "failed"):
        assert await sent(api, genuine, event) == (1, True)
    assert await api.queued() == 2
