"""Stopping real processes: they finish what runs, or give it back untouched."""

from __future__ import annotations

import signal
import time

from tests.e2e.installation import Installation
from tests.servers import Server
from tests.waiting import until_sync

UNCLOSED = """
import time
import gateway
import gateway.cli.dispatch

gateway.cli.dispatch.CLOSE_S = 2.0

@gateway.lifespan
def stuck():
    yield {}
    time.sleep(300)

def run(payload): return payload
"""


def test_term_lets_running_jobs_finish_and_leaves_the_rest_pending(
    installation: Installation, redis_server: Server
) -> None:
    installation.configure(slots=2, more='[targets.mute]\nexecutor = "python"\ncallable = "tasks:mute"\n')
    installation.serve(redis_server.url)
    dispatcher = installation.dispatch(redis_server.url)
    installation.ended(installation.submit("mute"))
    ids = installation.submit_many([{"target": "work", "payload": {"name": str(at), "s": 2}} for at in range(4)])
    until_sync(lambda: len(installation.lines()) == 2)
    assert dispatcher.stop() == 0
    assert [installation.record(job_id)["status"] for job_id in ids] == ["succeeded"] * 2 + ["pending"] * 2
    assert [installation.record(job_id)["attempts"] for job_id in ids] == [1, 1, 0, 0]
    assert len(installation.lines()) == 4


def test_second_signal_gives_running_jobs_back_at_once_and_spends_no_attempt(
    installation: Installation, redis_server: Server
) -> None:
    installation.serve(redis_server.url)
    dispatcher = installation.dispatch(redis_server.url)
    job_id = installation.submit("work", {"name": "long", "s": 60})
    until_sync(lambda: len(installation.lines()) == 1)
    dispatcher.signal(signal.SIGHUP)  # as of a terminal that closes
    dispatcher.await_line("draining")
    began_s = time.monotonic()
    dispatcher.signal(signal.SIGTERM)
    assert dispatcher.wait() == 0
    assert time.monotonic() - began_s < 20.0
    record = installation.record(job_id)
    assert (record["status"], record["attempts"]) == ("pending", 0)
    assert record.get("stalls", 0) == 0


def test_second_signal_ends_a_gateway_at_once_with_nothing_raw_in_its_log(
    installation: Installation, redis_server: Server
) -> None:
    gateway = installation.serve(redis_server.url)
    gateway.signal(signal.SIGHUP)
    gateway.signal(signal.SIGTERM)  # two of one kind may come as one
    assert gateway.wait() == 0
    assert b"Traceback" not in gateway.log.read_bytes()


def test_dispatcher_ends_whatever_its_jobs_swallow_and_gives_them_back(
    installation: Installation, redis_server: Server
) -> None:
    installation.configure(more='[targets.swallow]\nexecutor = "python"\ncallable = "tasks:swallow"\n')
    installation.serve(redis_server.url)
    dispatcher = installation.dispatch(redis_server.url)
    job_id = installation.submit("swallow")
    until_sync(lambda: len(installation.lines()) == 1)
    dispatcher.signal(signal.SIGTERM)
    dispatcher.await_line("draining")
    dispatcher.signal(signal.SIGTERM)
    assert dispatcher.wait(20) == 0
    record = installation.record(job_id)
    assert (record["status"], record["attempts"], record.get("stalls", 0)) == ("pending", 0, 0)
    assert dispatcher.lines("an attempt does not end: its code swallows every cancellation")


def test_dispatcher_ends_whatever_does_not_close(installation: Installation, redis_server: Server) -> None:
    installation.add_module("unclosed", UNCLOSED)
    installation.configure(more='[targets.unclosed]\nexecutor = "python"\ncallable = "unclosed:run"\n')
    dispatcher = installation.dispatch(redis_server.url)
    dispatcher.await_line("dispatcher started")
    dispatcher.signal(signal.SIGTERM)
    assert dispatcher.wait(30) == 1
    assert dispatcher.lines("what targets or plugins opened does not close; exiting without")
