"""A configuration with triggers of every kind of reception, and deliveries to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from gateway.settings import Settings, load
from tests.api.running import CONFIG, Running
from tests.waiting import until

TOKEN = "a-bearer-token"
SENT = {"Authorization": f"Bearer {TOKEN}"}

TRIGGERS = CONFIG + "".join(
    f"""
[triggers.{name}]
verifier = "bearer"
secrets = ["{TOKEN}"]
id_header = "x-id"
event_header = "x-event"
{more}
[[triggers.{name}.routes]]
target = "echo"
{route}
"""
    for name, more, route in (
        ("plain", "", "when = \"body.kind != 'other'\""),
        ("bare", "deliveries = { keep = 3, bodies = false }", ""),
        ("whole", "deliveries = { keep = 3 }", ""),
        ("unkept", "deliveries = { keep = 0 }", ""),
        ("custom", 'response = { status = 201, body = "<Response/>", content_type = "text/xml" }', ""),
        ("silent", "response = { status = 204 }", ""),
        ("asked", 'sync = true\nsync_timeout = "10s"', ""),
        ("hasty", 'sync = true\nsync_timeout = "100ms"', ""),
        ("late", 'sync = true\nsync_timeout = "100ms"\nresponse = { content_type = "text/xml" }', ""),
        ("fixed", 'sync = true\nsync_timeout = "100ms"\nresponse = { status = 200, content_type = "text/xml" }', ""),
        ("voice", 'sync = true\nresponse = { content_type = "text/xml" }', ""),
        ("guarded", 'allow_from = ["192.0.2.0/24", "2001:db8::/32"]', ""),
        ("local", 'allow_from = ["127.0.0.1"]', ""),
        ("spaced", 'limit = { rate = "1/h", burst = 2 }', ""),
    )
)


def triggered_settings(directory: Path, redis_url: str, namespace: str, **environ: str) -> Settings:
    """The settings of TRIGGERS over one Redis."""
    (directory / "gateway.toml").write_text(TRIGGERS)
    own = {"GATEWAY_REDIS_URL": redis_url, "GATEWAY_GATEWAY_NAMESPACE": namespace}
    return load(own | environ, directory)


async def send(api: Running, trigger: str, body: bytes = b'{"n":1}', **headers: str) -> httpx.Response:
    """A delivery, verified."""
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return await api.client.post(f"/hooks/{trigger}", content=body, headers=SENT | more, timeout=15)


async def noted(api: Running, trigger: str, count: int, **query: Any) -> list[dict[str, Any]]:
    """The trigger's deliveries once there are so many; they are written beside the requests."""
    found: list[dict[str, Any]] = []

    async def enough() -> bool:
        nonlocal found
        found = (await api.client.get(f"/triggers/{trigger}/deliveries", params=query)).json()["deliveries"]
        return len(found) >= count

    await until(enough)
    return found
