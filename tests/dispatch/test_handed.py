"""What a submit hands to a dispatcher that waits: started at once, once, and given back where it was never heard of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import pytest

from gateway.dispatch import looks, passage
from gateway.dispatch.passage import Passage
from gateway.store.scripts import script
from tests.dispatch.running import Dispatching, client_of, dispatching, settings_for
from tests.dispatch.tasks import Stage
from tests.proxy import Proxy, load_scripts
from tests.servers import Server
from tests.waiting import until, until_so

Handed = Callable[[Passage, int, bytes], None]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was handed over, and heard of."""
    heard: list[bytes] = []
    hear = Passage.hand_over

    def handed(self: Passage, partition: int, what: bytes) -> None:
        heard.append(what)
        hear(self, partition, what)

    monkeypatch.setattr(Passage, "hand_over", handed)
    return heard


@pytest.fixture
def untold(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was handed over, and never heard of: the message was lost."""
    lost: list[bytes] = []
    monkeypatch.setattr(Passage, "hand_over", lambda self, partition, what: lost.append(what))
    return lost


async def standing_by(running: Dispatching) -> None:
    """Returns once a claim of its own stands by, and it hears of what that brings."""
    redis, keyspace = running.client.store.client, running.client.store.keyspaces[0]
    own, loop = running.dispatcher.dispatcher_id, running.dispatcher.passage.loops[0]

    async def there() -> bool:
        heard = await redis.call("PUBSUB", "SHARDNUMSUB", keyspace.wake(own))
        stands = heard[1] == 1 and await redis.exists(f"{keyspace.prefix}standby:{own}") == 1
        return stands and not loop._exchanges.calls

    await until(there, every_s=0.002)


async def run_in_turn(running: Dispatching, namespace: str, count: int, *, each_within_s: float) -> None:
    """Submits one job after the other to a dispatcher that waits for it: each runs once, and nothing is lost."""
    for number in range(count):
        await standing_by(running)
        job_id = await running.client.submit("mark", {"stage": namespace, "label": str(number)})
        record = await running.client.ended(job_id, timeout_s=each_within_s)
        assert (record.status, record.attempts, record.stalls) == ("succeeded", 1, 0)


async def test_jobs_that_come_one_by_one_are_handed_over_and_run_once(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage, told: list[bytes]
) -> None:
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace)) as running:
        await run_in_turn(running, namespace, 20, each_within_s=20.0)
        assert stage.log == [str(number) for number in range(20)]
        assert len(told) == 20


async def test_job_runs_by_the_next_poll_when_it_is_never_heard_that_it_was_handed_over(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage, untold: list[bytes]
) -> None:
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace)) as running:
        await run_in_turn(running, namespace, 3, each_within_s=5.0)
        assert len(untold) == 3
        assert len(stage.log) == 3


async def test_job_goes_back_unspent_when_its_dispatcher_stops_before_it_heard_of_it(
    valkey_server: Server, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace)
    told: list[bytes] = []
    hear = Passage.hand_over

    def handed(self: Passage, partition: int, what: bytes) -> None:
        told.append(what)
        if len(told) == 1:
            hear(self, partition, what)
        else:  # the message is lost, and the dispatcher is to stop
            running.stop.ask()

    monkeypatch.setattr(Passage, "hand_over", handed)
    # another claim from here would bring the job, and may be heard of before the message: there is to be none, neither
    # of a poll, nor of the wake-up that comes with the subscription, which is over once a first job has run
    monkeypatch.setattr(looks, "POLL_S", (600.0, 600.0))
    async with client_of(settings) as client:
        async with dispatching(settings) as running:
            await standing_by(running)
            await running.client.ended(await running.client.submit("echo"))
            await until_so(lambda: len(told) == 1)
            await standing_by(running)
            job_id = await running.client.submit("echo")
            await running.task
        record = await client.record(job_id)
        assert (record.status, record.attempts, record.stalls) == ("pending", 0, 0)


async def test_nothing_is_handed_over_to_a_dispatcher_in_which_something_runs(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage, told: list[bytes]
) -> None:
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace)) as running:
        await standing_by(running)
        held = await running.client.submit("hold", {"stage": namespace, "label": "held"})
        await stage.started.wait()
        assert len(told) == 1
        await running.client.ended(await running.client.submit("echo"))
        assert len(told) == 1
        stage.go.set()
        await running.client.ended(held)
        await standing_by(running)


async def test_dispatcher_that_drains_passes_a_wake_up_on(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "POLL_S", (60.0, 60.0))
    settings = settings_for(tmp_path, valkey_server.url, namespace, slots=4)

    def active(count: int) -> bool:
        return stage.active == count

    async with dispatching(settings) as first:
        await standing_by(first)
        await first.client.submit("hold", {"stage": namespace})
        await until_so(partial(active, 1))
        async with dispatching(settings) as second:
            await standing_by(second)
            for count in range(2, 6):  # until both have something to do, and still room
                await second.client.submit("hold", {"stage": namespace})
                await until_so(partial(active, count))
                if second.dispatcher.active:
                    break
            first.stop.ask()  # it has waited longer than the other one, and is woken first
            await until_so(lambda: not first.dispatcher.passage.loops[0]._claiming)
            await second.client.ended(await second.client.submit("echo"))
            stage.go.set()
            await first.task


async def test_no_claim_stands_by_under_a_short_lease(
    valkey_server: Server, namespace: str, tmp_path: Path, told: list[bytes]
) -> None:
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, lease="9s")) as running:
        for _ in range(5):
            await running.client.ended(await running.client.submit("echo"))
        assert not told


async def test_job_goes_back_unspent_when_half_of_its_lease_is_over_before_it_is_there(
    valkey_server: Server, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood_s = [6.0]  # still, that is: after the wake-up was sent, and before it was read
    monkeypatch.setattr(passage, "perf_counter", lambda: perf_counter() + (stood_s.pop() if stood_s else 0.0))
    async with dispatching(settings_for(tmp_path, valkey_server.url, namespace, lease="10s")) as running:
        await standing_by(running)
        found = await running.client.store.find(
            (await running.client.ended(await running.client.submit("echo"))).job_id
        )
        assert [entry.type for entry in found.timeline][-3:] == ["released", "started", "succeeded"]
        assert (found.record.attempts, found.record.stalls) == (1, 0)


async def test_jobs_run_once_when_replies_and_wake_ups_are_lost_around_hand_overs(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage, told: list[bytes]
) -> None:
    count = 120

    def ran(least: int) -> bool:
        return len(stage.log) >= least

    async with (
        Proxy(valkey_server) as proxy,
        client_of(settings_for(tmp_path, valkey_server.url, namespace)) as client,
        dispatching(settings_for(tmp_path, proxy.url, namespace)) as running,
    ):
        await load_scripts(running.client.store, "claim", "settle", "exchange", "submit")
        await running.client.ended(await running.client.submit("echo"))
        for number in range(count):
            if number % 3 == 0:
                proxy.lose_reply_to((script("claim").function, script("exchange").function, "PING")[number // 3 % 3])
            if number % 7 == 0:
                proxy.drop_connections()
            await client.submit("mark", {"stage": namespace, "label": str(number)})
            if number % 2:
                await until_so(partial(ran, number // 2), every_s=0.001)
        await until_so(lambda: len(set(stage.log)) == count)

        async def over() -> bool:
            return await client.count("succeeded") == count + 1

        await until(over)
        assert len(stage.log) == count
        assert await client.count("reclaimed") == 0
        assert told
