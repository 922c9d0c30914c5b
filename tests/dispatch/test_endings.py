"""The line of an attempt that is over says where to look when its job is dead."""

from __future__ import annotations

import asyncio

from structlog.testing import capture_logs

from gateway.dispatch.attempts import Running
from gateway.dispatch.endings import tell_ended
from gateway.jobs import Claimed, Settlement
from gateway.transitions import Transitions


async def test_line_of_a_dead_job_names_the_command_that_shows_it_and_others_do_not() -> None:
    now_s = asyncio.get_running_loop().time()
    claimed = Claimed("j-1", 1, 1, "echo", "default", "", 0, 0, 0, False, b"", "1:n")
    running = Running(claimed, now_s, now_s + 60)
    settlement = Settlement("j-1", "1:n", "dead", reason="fatal")
    with capture_logs() as lines:
        tell_ended(
            Transitions(), [(running, settlement, "dead"), (running, settlement, "succeeded")], trace_of=lambda job: ""
        )
    assert {line["event"]: line.get("see") for line in lines} == {
        "job dead": "gateway jobs get j-1",
        "job succeeded": None,
    }
