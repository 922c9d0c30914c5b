"""`/readyz` tells of work that nobody takes, `/livez` of a loop that was blocked (by fault: tests/observability)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from gateway.lag import EVERY_S, LoopLag
from gateway.liveness import BEHIND_S, HUNG_S, liveness
from gateway.store.readiness import beat
from tests.api.running import running, settings_for
from tests.waiting import until


async def test_readiness_is_red_while_work_waits_and_no_dispatcher_takes_it(
    tmp_path: Path, valkey_url: str, namespace: str
) -> None:
    settings = settings_for(tmp_path, valkey_url, namespace, GATEWAY_GATEWAY_STUCK_AFTER="1s")
    async with running(settings) as api:

        async def is_green() -> bool:
            return (await api.client.get("/readyz")).status_code == 200

        async def is_red() -> bool:
            return not await is_green()

        assert await is_green()
        job = (await api.client.post("/jobs", content=b'{"target":"echo"}')).json()
        await until(is_red)
        assert "gateway dispatch" in (await api.client.get("/readyz")).json()["reason"]
        await beat(api.store, "d1", stuck_after_s=1.0)
        await until(is_green)
        await until(is_red)  # that one has not shown itself again
        await api.client.delete(f"/jobs/{job['job_id']}")
        await until(is_green)


async def test_life_is_red_right_after_the_loop_was_blocked_and_green_again_once_it_turns() -> None:
    lag = LoopLag()
    measuring = asyncio.create_task(lag.run())
    try:
        await asyncio.sleep(0)
        assert liveness(lag)[0] == 200
        time.sleep(BEHIND_S + EVERY_S + 0.1)  # noqa: ASYNC251 (that is the fault)
        status, answer = liveness(lag)
        assert (status, answer["status"]) == (503, "hung")

        async def turns() -> bool:
            return liveness(lag)[0] == 200

        await until(turns)
    finally:
        measuring.cancel()
        await asyncio.wait([measuring])


async def test_life_is_red_while_no_claim_loop_turns() -> None:
    assert liveness(LoopLag(), lambda: HUNG_S - 1)[0] == 200
    status, answer = liveness(LoopLag(), lambda: HUNG_S + 1)
    assert (status, "claim loop" in answer["reason"]) == (503, True)
