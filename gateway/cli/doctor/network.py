"""Who reaches what: our ports, and Redis itself; and is there anybody who runs jobs?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from gateway.api.auth import is_loopback
from gateway.cli.doctor.finding import Finding, Patient
from gateway.health import ask
from gateway.store.apikeys import any_key
from gateway.store.examine import examine_servers

_CONNECT_S = 1.0


async def check_ports(patient: Patient) -> AsyncIterator[Finding]:
    """Is what others reach kept from strangers, and is each port ours or free?"""
    own, store = patient.settings.gateway, patient.store
    if not is_loopback(own.host) and own.api_key is None and not await any_key(store):
        mend = 'make a key (gateway apikeys create NAME), or set gateway.host = "127.0.0.1"'
        yield Finding("fault", f"{own.host}:{own.port} is open to others and there is no API key: {mend}")
    if not is_loopback(own.dispatcher_host):
        mend = 'set gateway.dispatcher_host = "127.0.0.1", or let only your monitoring through'
        where = f"{own.dispatcher_host}:{own.dispatcher_port}"
        yield Finding("warning", f"a dispatcher's metrics at {where} need no key: {mend}")
    for answer in await asyncio.to_thread(ask, own, None, live=True):
        if not answer.well and await _taken(answer.url):
            detail = f"what answers at {answer.url} is no {answer.role}, or a stuck one: end it, or set another port"
            yield Finding("fault", detail)
        else:
            yield Finding("ok", f"{answer.role} at {answer.url}: {'answers' if answer.well else 'does not run here'}")


async def check_exposure(patient: Patient) -> AsyncIterator[Finding]:
    """Does Redis keep strangers out?"""
    for facts in await examine_servers(patient.store):
        if facts.open_to_all:
            mend = "set a password (requirepass, or an ACL user), or bind it to addresses of your own"
            yield Finding("fault", f"{facts.address} listens on every address and wants no password: {mend}")
        else:
            yield Finding("ok", f"{facts.address} is not open to everyone")


async def check_dispatchers(patient: Patient) -> AsyncIterator[Finding]:
    """Does anybody run jobs?"""
    seen = await patient.store.inspect()
    waiting = sum(lane.pending for lane in seen.lanes.values())
    if seen.dispatchers:
        yield Finding("ok", f"{seen.dispatchers} alive, {waiting} jobs wait")
    else:
        yield Finding("warning", f"no dispatcher is alive, {waiting} jobs wait: start gateway dispatch")
    for name, lane in seen.lanes.items():
        if lane.paused:
            yield Finding("warning", f"the lane {name} is paused: gateway lanes resume {name}")


async def _taken(url: str) -> bool:
    """Whether anything at all takes connections there."""
    host, _, port = url.removeprefix("http://").partition("/")[0].rpartition(":")
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, ValueError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
