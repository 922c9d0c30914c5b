"""What is set up here: lanes, the public halves of the signing keys."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.api.call import Call
from gateway.api.json_bodies import optional_body
from gateway.api.reply import Reply, json_reply
from gateway.durations import Duration
from gateway.errors import WrongState
from gateway.signers import signing_keys
from gateway.signing import SigningKey
from gateway.store import Inspection

OVERLAP_S = 7 * 86400.0


async def list_lanes(call: Call) -> Reply:
    """How many jobs wait in each lane, and for how long the longest has, the most urgent lane first."""
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
    keys = signing_keys(call.gateway.settings.gateway, call.gateway.store)
    return json_reply({"keys": [{"algorithm": "ed25519", "public_key": key.public} for key in keys]})


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long the key until now signs as well, 7 days if left out."""

    overlap: Duration | None = None


async def rotate_signing_key(call: Call) -> Reply:
    """The public keys, a new one first; WrongState where the configuration gives the key."""
    if call.gateway.settings.gateway.signing_key is not None:
        raise WrongState("the signing key is set in the configuration: change it there, and keep the old one beside it")
    wanted = await optional_body(call, Rotation)
    store, key = call.gateway.store, SigningKey.generate()
    stays_s = OVERLAP_S if wanted.overlap is None else wanted.overlap
    await call.in_time(lambda: store.rotate_signing_key(key, stays_ms=round(stays_s * 1000)))
    return await list_signing_keys(call)
