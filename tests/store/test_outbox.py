"""The outbox: what belongs to another partition gets there, once, whoever dies on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from gateway.errors import StoreFull
from gateway.figures import StoreFigures
from gateway.jobs import CALLBACK_TARGET, Callback, Idempotency, Options, Settlement, Submission
from gateway.keys import JobIds, partition_of
from gateway.store import Store, Worker, scripts
from gateway.store.outbox import HIDDEN_MS, Posted, forward, take_posted
from gateway.submission.request import host_key
from tests.servers import Server
from tests.store.audit import audit
from tests.store.clock import Clock, with_clock
from tests.store.conftest import NOW_MS
from tests.store.limits import NOTHING_KEPT
from tests.store.site import LANES, LEASE_MS, Site

HOME = 2
IDS = JobIds()
URL = "https://shop.example:8443/told"


@pytest.fixture
async def site(valkey_cluster: Server, namespace: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """Four partitions on a server that refuses a script which strays."""
    monkeypatch.setattr(scripts, "script", with_clock())
    store = await Store.open(valkey_cluster.url, namespace=namespace, partitions=4, lanes=LANES)
    clock = Clock(store, NOW_MS)
    await clock.advance(0)
    site = Site(store, clock, HOME)
    yield site
    await empty_outboxes(site)
    await audit(site)
    await store.aclose()


def route(partition: int, key: str = "", **options: object) -> Submission:
    """One route's job of a delivery; `key`: the delivery's id, with which it is taken in once."""
    idempotency = Idempotency(f"{key}#{partition}", "~delivery", 60_000) if key else None
    return Submission(IDS.new(NOW_MS, partition), f"t{partition}", b'{"n":1}', idempotency=idempotency, **options)  # type: ignore[arg-type]


async def take(site: Site, *done: str, most: int = 100) -> list[Posted]:
    return (await take_posted(site.store, HOME, done=done, most=most))[0]


async def hand_over(site: Site) -> list[str]:
    """What a dispatcher does: takes, forwards, confirms."""
    arrived = await forward(site.store, await take(site))
    assert await take(site, *arrived) == []
    return arrived


async def empty_outboxes(site: Site) -> None:
    await site.clock.advance(HIDDEN_MS)
    for partition in range(site.store.partitions):
        posted, _ = await take_posted(site.store, partition, done=[], most=100)
        arrived = await forward(site.store, posted)
        await take_posted(site.store, partition, done=arrived, most=100)


def _worker(site: Site, partition: int) -> Worker:
    keyspace = site.store.keyspaces[partition]
    return Worker(site.store.client, keyspace, f"d{partition}", LANES, lease_ms=LEASE_MS, heartbeat_ms=LEASE_MS)


async def there(site: Site, *job_ids: str) -> list[str]:
    """Where the jobs stand, '' where they are not."""
    found = await site.store.find_many(job_ids)
    return ["" if one is None else str(one.record.status) for one in found]


async def test_jobs_of_one_submit_get_to_their_partitions_under_the_ids_that_were_answered(site: Site) -> None:
    jobs = [route(HOME), route(0), route(3)]
    answers = await site.store.submit_together(jobs)
    assert [(each.verdict, each.job_id, each.status) for each in answers] == [
        ("accepted", job.job_id, "pending") for job in jobs
    ]
    assert await there(site, *(job.job_id for job in jobs)) == ["pending", "", ""]
    assert sorted(await hand_over(site)) == sorted(job.job_id for job in jobs[1:])
    assert await there(site, *(job.job_id for job in jobs)) == ["pending"] * 3


async def test_job_is_the_same_as_if_it_had_been_submitted_where_it_lies(site: Site) -> None:
    options = Options(tags=("a",), callback=Callback(URL, events=("job.dead",)))
    there_ = Submission(
        IDS.new(NOW_MS, 1), "t", '{"ü":1.0}'.encode(), lane="low", priority=-5, key="k", delay_ms=60_000,
        expires_ms=90_000, max_attempts=7, options=options,
    )  # fmt: skip
    await site.store.submit_together([route(HOME), there_])
    await site.clock.advance(20_000)
    await hand_over(site)
    record = (await site.store.find(there_.job_id)).record
    assert (record.target, record.lane, record.priority, record.key) == ("t", "low", -5, "k")
    assert (record.status, record.max_attempts, record.payload, record.options) == (
        "scheduled", 7, there_.payload, options,
    )  # fmt: skip
    # durations count from the submit, however long it waited
    assert record.run_at_ms == NOW_MS + 60_000
    await site.clock.advance(40_000)
    worker = _worker(site, 1)
    assert [job.job_id for job in (await worker.exchange([], worker.next_claim(1, suspects=True))).claimed] == [
        there_.job_id
    ]


async def test_job_whose_time_has_passed_on_the_way_runs_or_expires(site: Site) -> None:
    late, stale = route(1, delay_ms=1000), route(1, expires_ms=1000)
    await site.store.submit_together([route(HOME), late, stale])
    await site.clock.advance(5000)
    await hand_over(site)
    await site.clock.advance(10)
    worker = _worker(site, 1)
    taken = (await worker.exchange([], worker.next_claim(5, suspects=True))).claimed
    assert [job.job_id for job in taken] == [late.job_id]
    assert await there(site, stale.job_id) == ["dead"]


async def test_job_is_made_once_when_it_is_handed_over_again_and_again(site: Site) -> None:
    job = route(1)
    await site.store.submit_together([route(HOME), job])
    posted = await take(site)
    for _ in range(3):  # whoever handed it over died before it said so
        assert await forward(site.store, posted) == [job.job_id]
    worker = _worker(site, 1)
    claimed = (await worker.exchange([], worker.next_claim(5, suspects=True))).claimed
    assert [each.job_id for each in claimed] == [job.job_id]
    await worker.exchange([Settlement(job.job_id, claimed[0].token, "succeeded")], None)
    await forward(site.store, posted)
    # its record is gone, and it is still known that it was there
    await worker.upkeep(NOTHING_KEPT, most=100)
    assert await there(site, job.job_id) == [""]
    await forward(site.store, posted)
    assert await there(site, job.job_id) == [""]


async def test_what_is_not_confirmed_comes_up_again_and_only_then(site: Site) -> None:
    job = route(0)
    await site.store.submit_together([route(HOME), job])
    assert [each.job_id for each in await take(site)] == [job.job_id]
    assert await take(site) == [], "another dispatcher gets what the first one is about to hand over"
    await site.clock.advance(HIDDEN_MS)
    again = await take(site)
    assert [(each.job_id, each.lag_ms) for each in again] == [(job.job_id, HIDDEN_MS)]
    assert await take(site, job.job_id) == []
    await site.clock.advance(HIDDEN_MS)
    assert await take(site) == []
    assert await forward(site.store, again) == [job.job_id]


async def test_partition_that_takes_nothing_in_holds_up_no_other(site: Site) -> None:
    jobs = [route(HOME), route(0), route(1)]
    await site.store.submit_together(jobs)
    conf = f"{site.store.keyspaces[0].prefix}conf"
    await site.store.client.hset(conf, "min_writer", "99")
    assert await forward(site.store, await take(site)) == [jobs[2].job_id]
    await site.store.client.hset(conf, "min_writer", "1")
    await take(site, jobs[2].job_id)
    await site.clock.advance(HIDDEN_MS)
    assert await hand_over(site) == [jobs[1].job_id]


async def test_nothing_is_taken_in_when_the_first_partition_is_full(namespace: str) -> None:
    with Server() as server:
        store = await Store.open(server.url, namespace=namespace, partitions=4, lanes=LANES)
        try:
            await store.client.config_set("maxmemory", "1")
            with pytest.raises(StoreFull):
                await store.submit_together([route(HOME), route(0)])
            await store.client.config_set("maxmemory", "0")
            assert (await take_posted(store, HOME, done=[], most=10))[0] == []
            assert (await store.inspect()).counters == {}
        finally:
            await store.aclose()


@pytest.mark.parametrize("handed_over", [True, False], ids=["after", "before"])
async def test_repeated_delivery_finds_the_first_ones_jobs_before_and_after_they_were_handed_over(
    site: Site, handed_over: bool
) -> None:
    first = [route(HOME, "d1"), route(0, "d1"), route(3, "d1")]
    await site.store.submit_together(first)
    if handed_over:
        await hand_over(site)
    for _ in range(2):
        answers = await site.store.submit_together([route(HOME, "d1"), route(0, "d1"), route(3, "d1")])
        assert [(each.verdict, each.job_id) for each in answers] == [("duplicate", job.job_id) for job in first]
    await empty_outboxes(site)
    assert await site.count("submitted") == 3


async def test_depth_of_the_outbox_is_a_metric_until_all_is_handed_over(site: Site) -> None:
    async def depth() -> float | None:
        registry = CollectorRegistry()
        registry.register(StoreFigures(await site.store.inspect(), {}))
        return registry.get_sample_value("gateway_outbox_depth")

    assert await depth() == 0
    await site.store.submit_together([route(HOME), route(0), route(3)])
    assert await depth() == 2
    await hand_over(site)
    assert await depth() == 0


async def test_repeated_delivery_runs_again_what_died_in_another_partition(site: Site) -> None:
    first = [route(HOME, "d1"), route(0, "d1")]
    await site.store.submit_together(first)
    await hand_over(site)
    worker = _worker(site, 0)
    job = (await worker.exchange([], worker.next_claim(1, suspects=True))).claimed[0]
    await worker.exchange([Settlement(job.job_id, job.token, "dead", reason="fatal")], None)
    second = [route(HOME, "d1"), route(0, "d1")]
    answers = await site.store.submit_together(second)
    assert [(each.verdict, each.job_id) for each in answers] == [
        ("duplicate", first[0].job_id),
        ("accepted", second[1].job_id),
    ]
    # and a third one finds the second
    answers = await site.store.submit_together([route(HOME, "d1"), route(0, "d1")])
    assert (answers[1].verdict, answers[1].job_id) == ("duplicate", second[1].job_id)


async def test_callback_runs_in_the_partition_of_its_host_and_its_job_shows_how_it_stands(site: Site) -> None:
    site.store.expect_flows({CALLBACK_TARGET: {"key_concurrency": 2}})
    await site.store.configure()
    home = site.store.pinned_partition(CALLBACK_TARGET, host_key(URL))
    assert home is not None
    partition = (home + 1) % 4
    job = Submission(IDS.new(NOW_MS, partition), "t", b"{}", options=Options(callback=Callback(URL)))
    await site.store.submit([job])
    worker = _worker(site, partition)
    claimed = (await worker.exchange([], worker.next_claim(1, suspects=True))).claimed[0]
    await worker.exchange([Settlement(job.job_id, claimed.token, "succeeded", result="7")], None)
    record = (await site.store.find(job.job_id)).record
    assert (partition_of(record.callback_job_id, 4), record.callback_status) == (home, "pending")
    posted, _ = await take_posted(site.store, partition, done=[], most=10)
    await take_posted(site.store, partition, done=await forward(site.store, posted), most=10)
    callback = (await site.store.find(record.callback_job_id)).record
    assert (callback.target, callback.key, callback.payload) == (CALLBACK_TARGET, host_key(URL), b"7")
    other = _worker(site, home)
    claimed = (await other.exchange([], other.next_claim(1, suspects=True))).claimed[0]
    await other.exchange([Settlement(record.callback_job_id, claimed.token, "succeeded")], None)
    assert (await site.store.find(job.job_id)).record.callback_status == "succeeded"
