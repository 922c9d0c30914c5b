"""Whether this process is alive, and whether it can take work in."""

from __future__ import annotations

from gateway.api.call import Call
from gateway.api.reply import Reply, json_reply
from gateway.errors import StoreError


async def livez(call: Call) -> Reply:
    """200 as long as anything answers at all, with how late the event loop is."""
    return json_reply({"status": "alive", "loop_lag_ms": round(call.gateway.lag.seconds * 1000, 3)})


async def readyz(call: Call) -> Reply:
    """200 if Redis takes our writes, 503 with the reason if not."""
    try:
        await call.gateway.gate.probe()
    except StoreError as error:
        return Reply(
            503,
            json_reply({"status": "unready", "reason": str(error)}).body,
            headers=((b"retry-after", b"1"),),
        )
    return json_reply({"status": "ready"})
