"""A host that hangs takes no more than its share of a dispatcher's slots."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dispatch.running import dispatching, settings_for
from tests.egress.receiver import Receiver, always, answer, stall
from tests.servers import Server

CONFIG = """
[egress]
allow = ["127.0.0.1"]
per_target = 3
[targets.hangs]
executor = "http"
url = "{hangs}"
[targets.wide]
executor = "http"
url = "{hangs}"
limit = {{ concurrency = 4 }}
[targets.well]
executor = "http"
url = "{well}"
"""


@pytest.mark.parametrize(("target", "share"), [("hangs", 3), ("wide", 4)])
async def test_host_that_hangs_leaves_slots_to_others(
    target: str, share: int, tmp_path: Path, valkey_server: Server, namespace: str
) -> None:
    async with Receiver(stall) as hangs, Receiver(always(answer())) as well:
        config = CONFIG.format(hangs=hangs.url, well=well.url)
        settings = settings_for(tmp_path, valkey_server.url, namespace, more=config, slots=5)
        async with dispatching(settings) as running:
            client = running.client
            waiting = [await client.submit(target, number) for number in range(10)]
            await hangs.arrived(share)
            for number in range(10):
                assert (await client.ended(await client.submit("well", number))).status == "succeeded"
            assert len(hangs.requests) == share
            assert (await client.record(waiting[-1])).waiting_on == "concurrency"
