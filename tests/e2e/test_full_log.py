"""A log on a disk that is full: processes start, work and stop as ever."""

from __future__ import annotations

import contextlib
from pathlib import Path

import httpx

from tests.e2e.installation import Installation
from tests.servers import Server, free_ports
from tests.waiting import until_sync


def test_full_log_stops_neither_a_start_nor_work(installation: Installation, redis_server: Server) -> None:
    full, env = Path("/dev/full"), {"GATEWAY_REDIS_URL": redis_server.url}
    port = free_ports()[0]
    gateway = installation.start("serve", "--port", str(port), env=env, log=full)
    dispatcher = installation.start("dispatch", env=env, log=full)
    installation.client.base_url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        assert not gateway.ended, "the gateway ended"
        with contextlib.suppress(httpx.TransportError):
            return installation.client.get("/readyz").status_code == 200
        return False

    until_sync(ready, timeout_s=60)
    for _ in range(2):
        assert installation.ended(installation.submit("fail"), timeout_s=60)["status"] == "dead"
        assert installation.ended(installation.submit("work", {}))["status"] == "succeeded"
    assert not dispatcher.ended
    assert (dispatcher.stop(), gateway.stop()) == (0, 0)
