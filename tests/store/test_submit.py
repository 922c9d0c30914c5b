"""Taking jobs in: order, verbatim bytes, and one job for every idempotency key."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence

import pytest
import redis

from gateway.errors import NotFound
from gateway.jobs import Callback, Options, Settlement, Status, Submission, Submitted, unpack_body
from gateway.store import Store
from gateway.store.submit_call import LONG_BYTES
from tests.servers import Server
from tests.store.conftest import Topology
from tests.store.dump import dump
from tests.store.limits import NOTHING_KEPT
from tests.store.site import LANES, Site
from tests.waiting import until

PAYLOAD = b'{"z":1.0,"a":[],"n":123456789012345678901234567890,"e":1e400,"s":"\xc3\xa9\\u00e9","z":{}}'


async def test_jobs_come_out_in_the_order_they_went_in_when_they_are_equals(site: Site) -> None:
    ids = [job_id for _ in range(6) for job_id in await site.put(9)]
    worker = site.worker()
    assert [job_id for _ in range(9) for job_id in await site.take(worker, 7)] == ids


@pytest.mark.parametrize("seed", range(3))
async def test_jobs_come_out_by_priority_then_age_when_priorities_differ(site: Site, seed: int) -> None:
    draw = random.Random(seed)
    jobs = [site.job(priority=draw.choice([-100, -1, 0, 0, 1, 50, 100])) for _ in range(60)]
    for first in range(0, 60, 20):
        await site.submit(*jobs[first : first + 20])
    expected = sorted(jobs, key=lambda job: -job.priority)
    assert await site.take(site.worker()) == [job.job_id for job in expected]


async def test_record_holds_all_that_was_submitted(site: Site) -> None:
    options = Options(timeout=1.5, tags=("a", "b"), callback=Callback("https://example.com/", ("job.dead",)))
    job = site.job(payload=PAYLOAD, lane="low", priority=-7, key="k", max_attempts=9, options=options)
    await site.submit(job)
    record = await site.record(job.job_id)
    assert (record.payload, record.options) == (PAYLOAD, options)
    facts = (record.target, record.status, record.lane, record.priority, record.key, record.max_attempts)
    assert facts == ("resize", Status.PENDING, "low", -7, "k", 9)
    assert (record.created_ms, record.attempts, record.started_ms) == (site.clock.now_ms, 0, None)


async def test_payload_reaches_the_dispatcher_byte_for_byte(site: Site) -> None:
    await site.put(payload=PAYLOAD)
    assert (await site.claim(site.worker()))[0].body == b"\n" + PAYLOAD


async def test_long_payloads_reach_the_dispatcher_beside_short_ones(site: Site) -> None:
    options = Options(tags=("a", "\u00e4"))
    payloads = [b'"%b"' % (b"\xc3\xa9" * (size // 2)) for size in (0, LONG_BYTES, 2, 200_000, LONG_BYTES - 4, 70_000)]
    jobs = [site.job(payload=each, options=options) for each in payloads]
    assert {each.verdict for each in await site.submit(*jobs)} == {"accepted"}
    assert {each.verdict for each in await site.submit(*jobs)} == {"accepted"}
    claimed = await site.claim(site.worker())
    assert [unpack_body(each.body) for each in claimed] == [(options, each) for each in payloads]


async def test_repeat_of_a_key_is_the_first_job_whatever_became_of_it(site: Site) -> None:
    first = site.once("key")
    statuses = [(await site.submit(first))[0].status]
    worker = site.worker()
    claimed = (await site.claim(worker))[0]
    statuses.append((await site.submit(site.once("key")))[0].status)
    await site.settle(worker, claimed, "succeeded")
    repeat = (await site.submit(site.once("key")))[0]
    assert (repeat.verdict, repeat.job_id) == ("duplicate", first.job_id)
    assert [*statuses, repeat.status] == ["pending", "running", "succeeded"]


async def test_repeat_of_a_key_with_another_body_is_a_conflict_and_writes_nothing(site: Site) -> None:
    first = site.once("key", "one")
    await site.submit(first)
    before = await dump(site.store)
    answer = (await site.submit(site.once("key", "other")))[0]
    assert (answer.verdict, answer.job_id) == ("conflict", first.job_id)
    assert await dump(site.store) == before


@pytest.mark.parametrize(("fingerprint", "verdict"), [("~f", "accepted"), ("f", "duplicate")])
async def test_dead_first_copy_of_a_delivery_frees_its_key_and_no_other_does(
    site: Site, fingerprint: str, verdict: str
) -> None:
    first = site.once("key", fingerprint)
    await site.submit(first)
    repeat = (await site.submit(site.once("key", fingerprint)))[0]
    assert (repeat.verdict, repeat.job_id) == ("duplicate", first.job_id)
    worker = site.worker()
    (claimed,) = await site.claim(worker)
    await worker.exchange([Settlement(claimed.job_id, claimed.token, "dead", reason="fatal")], None)
    second = site.once("key", fingerprint)
    assert (await site.submit(second))[0].verdict == verdict
    # and from then on the second one is what is repeated
    expected = second if verdict == "accepted" else first
    assert (await site.submit(site.once("key", fingerprint)))[0].job_id == expected.job_id


async def test_repeat_of_a_key_is_gone_when_the_record_is(site: Site) -> None:
    first = site.once("key")
    await site.submit(first)
    await site.run()
    await site.worker().upkeep(NOTHING_KEPT, most=10)
    answer = (await site.submit(site.once("key")))[0]
    assert (answer.verdict, answer.job_id, answer.status) == ("duplicate", first.job_id, "gone")
    with pytest.raises(NotFound):
        await site.record(first.job_id)


async def test_key_makes_a_new_job_when_its_window_is_over(site: Site) -> None:
    await site.submit(site.once("key", window_ms=1))
    again = site.once("key")

    async def accepted() -> bool:
        # the window is the one thing that runs on the server's own clock
        return (await site.submit(again))[0].verdict == "accepted"

    await until(accepted)
    assert await site.status(again.job_id) == "pending"


async def test_one_batch_answers_each_job_for_itself_and_in_order(site: Site) -> None:
    first, plain = site.once("key"), site.job()
    answers = await site.submit(first, plain, site.once("key"), site.once("key", "other"), plain)
    verdicts = [each.verdict for each in answers]
    assert verdicts == ["accepted", "accepted", "duplicate", "conflict", "accepted"]
    ids = [each.job_id for each in answers]
    assert ids == [first.job_id, plain.job_id, first.job_id, first.job_id, plain.job_id]
    assert await site.take(site.worker()) == [first.job_id, plain.job_id]


async def test_concurrent_repeats_from_many_processes_make_one_job(site: Site, topology: Topology) -> None:
    namespace = site.store.keyspaces[0].namespace
    stores = [
        await Store.open(topology.url, namespace=namespace, partitions=topology.partitions, lanes=LANES)
        for _ in range(4)
    ]
    try:
        calls = [store.submit([site.once("key")]) for store in stores for _ in range(10)]
        answers = [answer[0] for answer in await asyncio.gather(*calls)]
    finally:
        for store in stores:
            await store.aclose()
    assert sorted(each.verdict for each in answers) == ["accepted", *["duplicate"] * 39]
    assert len({each.job_id for each in answers}) == 1
    assert len(await site.take(site.worker())) == 1


async def test_jobs_are_spread_over_the_partitions_and_each_is_found(site: Site) -> None:
    store = site.store
    jobs = [Submission(store.new_id(site.clock.now_ms), "resize", b"%d" % at) for at in range(60)]
    answers = await store.submit(jobs)
    assert [each.job_id for each in answers] == [job.job_id for job in jobs]
    found = await store.find_many([job.job_id for job in jobs])
    assert [each.record.payload for each in found if each] == [job.payload for job in jobs]
    assert len({job.job_id[-2:] for job in jobs}) == store.partitions


async def test_jobs_of_one_idempotency_key_lie_in_one_partition(store: Store) -> None:
    ids = {store.new_id(1, idempotency_key="order 7")[-2:] for _ in range(20)}
    assert len(ids) == 1


async def test_payloads_of_one_call_are_bounded_in_bytes_too(site: Site) -> None:
    jobs = [site.job(payload=b'"' + b"x" * (1 << 20) + b'"') for _ in range(12)]
    before = _submit_calls(site)
    answers = await asyncio.gather(*(site.store.submit([job]) for job in jobs))
    assert [each.status for (each,) in answers] == ["pending"] * 12
    assert _submit_calls(site) - before >= 3


def _submit_calls(site: Site) -> int:
    samples = [sample for metric in site.store.client.calls.collect() for sample in metric.samples]
    counts = [each for each in samples if each.name == "gateway_redis_batch_jobs_count"]
    return int(sum(each.value for each in counts if each.labels["script"] == "submit"))


async def test_next_call_leaves_before_the_last_one_is_told(valkey_server: Server, namespace: str) -> None:
    store = await Store.open(valkey_server.url, namespace=namespace, lanes=LANES)
    first, second = (Submission(store.new_id(1_700_000_000_000), "resize", b"1", "low") for _ in range(2))
    with valkey_server.client() as client:
        told = _Told(client, f"{store.keyspaces[0].prefix}b:{second.job_id}")
        store.ask([first], told)
        await asyncio.sleep(0)  # the first call is on its way
        answered = await store.submit([second])
    assert (told.results, told.second_is_there) == ([Submitted("accepted", first.job_id, "pending")], True)
    assert answered == [Submitted("accepted", second.job_id, "pending")]
    await store.aclose()


class _Told:
    """Holds the event loop up, when it is told, until the next job is in Redis."""

    results: Sequence[Submitted] = ()
    second_is_there = False

    def __init__(self, client: redis.Redis, key: str) -> None:
        self._client, self._key = client, key

    def done(self) -> bool:
        return bool(self.results)

    def set_result(self, result: list[Submitted], /) -> None:
        self.results, until_s = result, time.monotonic() + 5
        while not self.second_is_there and time.monotonic() < until_s:
            self.second_is_there = self._client.exists(self._key) == 1

    def set_exception(self, exception: Exception, /) -> None:
        raise exception
