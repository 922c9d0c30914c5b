"""Calls of one submitter that are under way side by side: when they leave, and what comes of them if one is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from gateway.jobs import Submission, Submitted
from gateway.keys import JobIds
from gateway.store import Store, submitter
from gateway.store.scripts import script
from gateway.store.submitter import CALLS, ENOUGH_BYTES, ENOUGH_JOBS
from tests.proxy import Proxy, load_scripts
from tests.servers import Server
from tests.store.site import LANES

IDS = JobIds()


@pytest.fixture
async def store(proxy: Proxy, namespace: str) -> AsyncIterator[Store]:
    store = await Store.open(proxy.url, namespace=namespace, lanes=LANES)
    await load_scripts(store, "submit")
    yield store
    await store.aclose()


def job(payload: bytes = b"{}") -> Submission:
    return Submission(IDS.new(1, 0), "resize", payload)


def calls_begun(store: Store) -> int:
    samples = [sample for metric in store.client.calls.collect() for sample in metric.samples]
    name, labels = "gateway_redis_batch_jobs_count", {"script": "submit"}
    return sum(int(sample.value) for sample in samples if sample.name == name and sample.labels == labels)


async def submitted(store: Store) -> int:
    return (await store.inspect()).counters["submitted:default:resize"]


def asked(store: Store, jobs: list[Submission]) -> list[asyncio.Task[list[Submitted]]]:
    """A submit of its own for each."""
    return [asyncio.create_task(store.submit([each])) for each in jobs]


@pytest.mark.parametrize("jobs", [[b"{}"] * ENOUGH_JOBS, [b"x" * (ENOUGH_BYTES // 4)] * 4], ids=["jobs", "bytes"])
async def test_enough_leaves_while_a_call_is_under_way(namespace: str, jobs: list[bytes]) -> None:
    with Server() as server:
        store = await Store.open(server.url, namespace=namespace, lanes=LANES)
        try:
            await store.submit([job()])
            server.suspend()
            before = calls_begun(store)
            waiting = asked(store, [job()])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert calls_begun(store) == before + 1
            waiting += asked(store, [job(payload) for payload in jobs[1:]])
            await asyncio.sleep(0)
            assert calls_begun(store) == before + 1  # one is missing
            waiting += asked(store, [job(jobs[0])])
            await asyncio.sleep(0)
            assert calls_begun(store) == before + 2
            for _ in range(CALLS + 2):
                waiting += asked(store, [job(payload) for payload in jobs])
                await asyncio.sleep(0)
            assert calls_begun(store) == before + CALLS
            server.resume()
            assert {each.verdict for answer in await asyncio.gather(*waiting) for each in answer} == {"accepted"}
            assert await submitted(store) == len(waiting) + 1
        finally:
            server.resume()
            await store.aclose()


async def test_each_job_is_taken_in_once_when_calls_side_by_side_lose_their_replies(store: Store, proxy: Proxy) -> None:
    await store.submit([job()])
    jobs = [job() for _ in range(CALLS * ENOUGH_JOBS + 10)]
    proxy.lose_reply_to(script("submit").sha)
    answers = await asyncio.gather(*asked(store, jobs))
    assert proxy.lost == 1
    assert [each.job_id for answer in answers for each in answer] == [each.job_id for each in jobs]
    assert {each.verdict for answer in answers for each in answer} == {"accepted"}
    assert await submitted(store) == len(jobs) + 1


async def test_calls_are_carried_out_when_the_server_forgets_its_functions(store: Store) -> None:
    await store.submit([job()])
    await store.client.execute_command("FUNCTION", "FLUSH")
    answers = await asyncio.gather(*asked(store, [job() for _ in range(ENOUGH_JOBS)]), store.submit([job()]))
    assert {each.verdict for answer in answers for each in answer} == {"accepted"}
    assert await submitted(store) == ENOUGH_JOBS + 2


@pytest.mark.parametrize("count", [1, 2 * ENOUGH_JOBS + 1])
async def test_closing_waits_for_what_has_left_and_for_what_is_about_to(store: Store, count: int) -> None:
    await store.submit([job()])
    waiting = asked(store, [job() for _ in range(count)])
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await store.aclose()
    assert {each.verdict for answer in await asyncio.gather(*waiting) for each in answer} == {"accepted"}
    assert store.client._link is None, "nothing was sent after the end, on a connection that nobody closes"


async def test_who_asks_for_what_cannot_be_sent_is_told_so_and_nobody_else(store: Store) -> None:
    await store.submit([job()])
    broken = Submission(IDS.new(1, 0), "resize", b"{}", key=object())  # type: ignore[arg-type]
    answers = await asyncio.gather(store.submit([broken]), return_exceptions=True)
    assert isinstance(answers[0], TypeError)
    assert (await store.submit([job()]))[0].verdict == "accepted"


async def test_what_cannot_be_sent_does_not_hold_up_the_end(store: Store) -> None:
    await store.submit([job()])
    broken = Submission(IDS.new(1, 0), "resize", b"{}", key=object())  # type: ignore[arg-type]
    waiting = asked(store, [broken])
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await store.aclose()
    assert isinstance((await asyncio.gather(*waiting, return_exceptions=True))[0], TypeError)


async def test_reply_that_cannot_be_read_is_told_to_who_asked_and_holds_up_nobody(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.submit([job()])
    with monkeypatch.context() as patched:
        patched.setattr(submitter, "reply_of", lambda client, sent: b"no MessagePack")
        with pytest.raises(msgspec.DecodeError):
            await store.submit([job()])
    assert (await store.submit([job()]))[0].verdict == "accepted"
    async with asyncio.timeout(10):
        await store.aclose()
