"""Whether this process is alive, and whether it can take work in."""

from __future__ import annotations

from gateway.api.call import Call
from gateway.api.reply import Reply, json_reply
from gateway.errors import StoreError
from gateway.liveness import liveness
from gateway.store.readiness import probe_new_work


async def livez(call: Call) -> Reply:
    """200 while the event loop turns, with how late it is; 503 where it was blocked until just now."""
    status, answer = liveness(call.gateway.lag)
    return json_reply(answer, status)


async def readyz(call: Call) -> Reply:
    """200 if Redis takes new work and work that is due is taken, 503 with the reason if not."""
    gate, store = call.gateway.gate, call.gateway.store
    stuck_after_s = float(call.gateway.settings.gateway.stuck_after)
    try:
        found = await gate.probe(lambda: probe_new_work(store, stuck_after_s=stuck_after_s))
        reason = found.stuck(stuck_after_s)
    except StoreError as error:
        reason = str(error)
    if reason:
        body = json_reply({"status": "unready", "reason": reason}).body
        return Reply(503, body, headers=((b"retry-after", b"1"),))
    return json_reply({"status": "ready"})
