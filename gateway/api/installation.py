"""What is set up here: lanes, the public half of the signing key."""

from __future__ import annotations

from typing import Any

from gateway.api.call import Call
from gateway.api.reply import Reply, json_reply
from gateway.signing import SigningKey
from gateway.store import Inspection


async def list_lanes(call: Call) -> Reply:
    """How many jobs wait in each lane, and how long its first one has, the most urgent lane first."""
    inspection = await call.in_time(call.gateway.store.inspect)
    return json_reply({"lanes": render_lanes(inspection)})


def render_lanes(inspection: Inspection) -> list[dict[str, Any]]:
    """The lanes, the most urgent first."""
    return [
        {
            "lane": name,
            "pending": depth.pending,
            "oldest_seconds": depth.waited_ms / 1000,
            "paused": depth.paused,
        }
        for name, depth in inspection.lanes.items()
    ]


async def pause_lane(call: Call) -> Reply:
    """The lanes; no job of the paused one starts until `resume`, what runs goes on."""
    return await _paused(call, paused=True)


async def resume_lane(call: Call) -> Reply:
    """The lanes; the jobs of this one go on."""
    return await _paused(call, paused=False)


async def _paused(call: Call, *, paused: bool) -> Reply:
    lane = call.path_value("lane")
    await call.in_time(lambda: call.gateway.store.control_lane(lane, paused=paused))
    return await list_lanes(call)


async def list_signing_keys(call: Call) -> Reply:
    """What receivers verify `v1a` signatures with, the present key first."""
    own = call.gateway.settings.gateway
    keys = [own.signing_key or call.gateway.store.signing_key, *own.previous_signing_keys]
    public = [SigningKey.parse(key.reveal()).public for key in keys]
    return json_reply({"keys": [{"algorithm": "ed25519", "public_key": key} for key in public]})
