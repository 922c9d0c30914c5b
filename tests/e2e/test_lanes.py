"""Lanes, with real processes: what is critical goes first, whatever came before, also after Redis was restarted."""

from __future__ import annotations

from typing import Any

from tests.e2e.installation import Installation
from tests.servers import Server
from tests.waiting import until_sync

COUNT = 200


def jobs(lane: str) -> list[dict[str, Any]]:
    return [{"target": "work", "lane": lane, "payload": {"name": f"{lane}-{at}"}} for at in range(COUNT)]


def test_critical_jobs_all_go_first_when_there_is_one_slot(installation: Installation, redis_server: Server) -> None:
    installation.configure(slots=1)
    installation.serve(redis_server.url)
    installation.submit_many(jobs("low"))
    redis_server.kill()
    redis_server.start()
    until_sync(lambda: installation.client.get("/readyz").status_code == 200)
    installation.submit_many(jobs("critical"))
    dispatcher = installation.dispatch(redis_server.url)
    until_sync(lambda: len(installation.lines()) == 4 * COUNT, timeout_s=60)
    ran = [line[1] for line in installation.lines() if line[0] == "start"]
    assert ran == [f"{lane}-{at}" for lane in ("critical", "low") for at in range(COUNT)]
    assert dispatcher.stop() == 0
