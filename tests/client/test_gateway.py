"""Both clients against a real gateway."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from gateway.client import AsyncGateway, Gateway, InvalidRequest, NotFound, Unavailable, WaitTimeout, WrongState
from gateway.jobs import Outcome, Settlement
from tests.api.running import Running, claim, park
from tests.client.cutting import Cut, CuttingProxy
from tests.client.either import Either, make
from tests.waiting import until


class Follower:
    """Follows events in the background, for both kinds of clients."""

    def __init__(self, client: Either, **wanted: str) -> None:
        self.seen: asyncio.Queue[Any] = asyncio.Queue()
        self._loop, self._over = asyncio.get_running_loop(), False
        self._client, self._wanted = client, wanted
        blocking = isinstance(client.client, Gateway)
        self._task = asyncio.ensure_future(asyncio.to_thread(self._block) if blocking else self._follow())

    async def follows(self) -> bool:
        """Submits until an event comes through, and takes it."""
        await self._client("submit", "echo")
        try:
            await asyncio.wait_for(self.seen.get(), 0.2)
        except TimeoutError:
            return False
        return True

    async def aclose(self) -> None:
        self._over = True
        await self._client("submit", "echo")
        await asyncio.wait_for(self._task, 10)

    async def _follow(self) -> None:
        assert isinstance(self._client.client, AsyncGateway)
        async for event in self._client.client.follow(**self._wanted):
            self.seen.put_nowait(event)
            if self._over:
                return

    def _block(self) -> None:
        assert isinstance(self._client.client, Gateway)
        for event in self._client.client.follow(**self._wanted):
            self._loop.call_soon_threadsafe(self.seen.put_nowait, event)
            if self._over:
                return


async def end(api: Running, outcome: Outcome = "succeeded", **facts: Any) -> list[str]:
    """Claims whatever is pending and settles it: the ids."""
    worker, ids, tokens = await claim(api.store)
    settled = [Settlement(job_id, token, outcome, **facts) for job_id, token in zip(ids, tokens, strict=True)]
    await worker.exchange(settled, None)
    return ids


@pytest.mark.parametrize("cut", ["request", "answer"])
async def test_connection_killed_in_mid_submit_leaves_one_job(api: Running, kind: str, cut: Cut) -> None:
    async with CuttingProxy(api.port, cut, cuts=2) as proxy:
        client = make(kind, proxy.url, pauses=[])
        accepted = await client("submit", "echo", {"n": "x" * 1000})
        assert proxy.killed == 2
        assert accepted.duplicate is (cut == "answer")
        assert [job.job_id for job in await client("jobs")] == [accepted.job_id]
        assert await api.queued() == 1
        await client.aclose()


async def test_without_the_key_that_connection_would_make_two_jobs(api: Running, kind: str) -> None:
    async with CuttingProxy(api.port, "answer", cuts=1) as proxy:
        client = make(kind, proxy.url, retries=0)
        with pytest.raises(Unavailable):
            await client("submit", "echo")
        await client("submit", "echo")
        assert await api.queued() == 2
        await client.aclose()


async def test_job_is_as_it_was_submitted(client: Either) -> None:
    due = datetime.now(UTC) + timedelta(hours=2)
    accepted = await client(
        "submit",
        "resize",
        msgspec.Raw(b'{"big": 9007199254740993, "f": 1.0, "n": null}'),
        lane="critical",
        priority=7,
        run_at=due,
        expires_in="1d",
        max_attempts=3,
        timeout=timedelta(seconds=1.5),
        retry={"base": timedelta(seconds=2), "cap": "1m"},
        key="k",
        tags=["a", "b"],
        callback={"url": "https://shop.test/done", "events": ["job.dead"]},
    )
    assert (accepted.status, accepted.duplicate) == ("scheduled", False)
    record = await client("get", accepted.job_id)
    assert record.payload == {"big": 9007199254740993, "f": 1.0, "n": None}
    assert (record.lane, record.priority, record.max_attempts, record.key, record.tags) == (
        *("critical", 7, 3, "k"),
        ["a", "b"],
    )
    assert abs(record.run_at - due) < timedelta(seconds=2)
    assert (await client("status", accepted.job_id)).status == "scheduled"
    assert [event.type for event in (await client("events", accepted.job_id)).events] == ["accepted"]


@pytest.mark.parametrize(
    ("payload", "error"),
    [(b"bytes", TypeError), ({"a": [1.0, float("nan")]}, ValueError), (object(), TypeError)],
)
async def test_payload_that_json_cannot_hold_is_not_sent(
    client: Either, api: Running, payload: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await client("submit", "echo", payload)
    assert await api.queued() == 0


async def test_faults_come_from_the_gateway(client: Either) -> None:
    with pytest.raises(InvalidRequest, match=r"/delay: not a duration") as raised:
        await client("submit", "echo", delay="soon", lane="none")
    assert {fault.pointer for fault in raised.value.faults} == {"/delay", "/lane"}
    with pytest.raises(NotFound, match="no target named"):
        await client("submit", "ecko")


async def test_wait_ends_with_the_job_and_is_held_by_the_gateway(client: Either, api: Running) -> None:
    accepted = await client("submit", "echo")
    waiting = asyncio.create_task(client("wait", accepted.job_id, timeout_s=20))
    store: Any = api.store.client

    async def held() -> bool:
        return bool(await store.exists(f"{api.store.keyspaces[0].prefix}waiters"))

    await until(held)
    await end(api, result='{"ok":true}')
    record = await asyncio.wait_for(waiting, 5)
    assert (record.status, record.result) == ("succeeded", {"ok": True})


async def test_run_gives_the_record_also_of_a_dead_job(client: Either, api: Running) -> None:
    running = asyncio.create_task(client("run", "echo", {"n": 1}, timeout_s=20))

    async def there() -> bool:
        return await api.queued() == 1

    await until(there)
    await end(api, "dead", reason="fatal", error='{"type":"boom","message":"no"}')
    record = await asyncio.wait_for(running, 5)
    assert (record.status, record.reason, record.error) == ("dead", "fatal", {"type": "boom", "message": "no"})


@pytest.mark.parametrize("method", ["run", "wait"])
async def test_wait_has_an_end(client: Either, method: str) -> None:
    what = "echo" if method == "run" else (await client("submit", "echo")).job_id
    with pytest.raises(WaitTimeout, match=r"not over within 0\.05 s") as raised:
        await client(method, what, timeout_s=0.05)
    assert (await client("get", raised.value.job_id)).status == "pending"
    assert isinstance(raised.value, TimeoutError)


async def test_batches_are_cut_by_count_and_by_size_and_keep_their_order(client: Either, api: Running) -> None:
    many = [{"target": "echo", "payload": n} for n in range(1002)]
    results = await client("submit_many", many)
    assert len({result.job_id for result in results}) == 1002
    assert (await client("get", results[1001].job_id)).payload == 1001
    large = [{"target": "echo", "payload": "x" * 400_000} for _ in range(4)]
    assert all(result.error is None for result in await client("submit_many", large))
    assert await api.queued() == 1006


async def test_faulty_jobs_of_a_batch_fail_alone(client: Either, api: Running) -> None:
    jobs = [
        {"target": "echo", "idempotency_key": "a"},
        {"target": "none"},
        {"target": "echo", "idempotency_key": "a"},
        {"target": "echo", "payload": "x" * 1_100_000},
    ]
    first, unknown, again, large = await client("submit_many", jobs)
    assert unknown.error.status == 404
    assert (again.job_id, again.duplicate) == (first.job_id, True)
    assert large.error.status == 413
    assert await api.queued() == 1
    with pytest.raises(TypeError):
        await client("submit_many", [{"target": "echo"}, {"target": "echo", "payload": b"x"}])
    assert await api.queued() == 1


async def test_batch_whose_answer_is_lost_is_queued_once(api: Running, kind: str) -> None:
    async with CuttingProxy(api.port, "answer", cuts=1) as proxy:
        client = make(kind, proxy.url, pauses=[])
        results = await client("submit_many", [{"target": "echo"}] * 5)
        assert len({result.job_id for result in results}) == 5
        assert await api.queued() == 5
        await client.aclose()


async def test_listing_walks_every_page(client: Either, api: Running) -> None:
    results = await client("submit_many", [{"target": "echo", "tags": [f"t{n % 2}"]} for n in range(5)])
    ids = [result.job_id for result in results]
    assert [job.job_id for job in await client("jobs", page_size=2)] == ids
    assert [job.job_id for job in await client("jobs", page_size=1, tag="t1")] == ids[1::2]
    assert await client("jobs", status="dead") == []


async def test_cancel_is_once(client: Either) -> None:
    accepted = await client("submit", "echo")
    assert (await client("cancel", accepted.job_id)).status == "cancelled"
    with pytest.raises(WrongState):
        await client("cancel", accepted.job_id)
    with pytest.raises(NotFound):
        await client("get", "nobody")


async def test_dead_jobs_go_back_one_by_one_and_all_together(client: Either, api: Running) -> None:
    for _ in range(3):
        await client("submit", "echo")
    ids = await end(api, "dead", reason="fatal", error='{"type":"boom","message":"no"}')
    dead = await client("dlq.all", page_size=1, target="echo", reason="fatal")
    assert {job.job_id for job in dead} == set(ids)
    assert (await client("dlq.get", ids[0])).reason == "fatal"
    record = await client("retry", ids[0], max_attempts=9)
    assert (record.status, record.max_attempts) == ("pending", 9)
    with pytest.raises(WrongState):
        await client("retry", ids[0])
    started = await client("dlq.replay", target="echo", rate="50/s", dead_before=datetime.now(UTC))
    state = await client("dlq.replay_state", started.replay_id)
    assert (state.state, state.filter.target, state.rate) == ("running", "echo", "50/s")
    assert (await client("dlq.stop_replay", started.replay_id)).state == "stopped"


async def test_dead_jobs_are_purged_one_by_one_and_all_together(client: Either, api: Running) -> None:
    for _ in range(3):
        await client("submit", "echo")
    ids = await end(api, "dead", reason="fatal")
    assert (await client("stats")).dead == 3
    await client("dlq.purge", ids[0])
    assert await client("dlq.purge_all", reason="stalled") == 0
    assert await client("dlq.purge_all", target="echo") == 2
    assert await client("dlq.all") == []


async def test_targets_and_lanes_are_paused_and_resumed(client: Either) -> None:
    assert [target.name for target in await client("targets.all")] == ["echo", "resize"]
    assert (await client("targets.pause", "echo")).paused
    assert (await client("targets.get", "echo")).blocked == "paused"
    assert not (await client("targets.resume", "echo")).paused
    assert (await client("targets.enable", "echo", replay=True)).disabled_at is None
    assert [lane.lane for lane in await client("lanes.pause", "low") if lane.paused] == ["low"]
    assert not any(lane.paused for lane in await client("lanes.resume", "low"))
    assert [lane.lane for lane in await client("lanes.all")] == ["critical", "default", "low"]


async def test_targets_are_registered_tried_out_and_forgotten(client: Either) -> None:
    made = await client("targets.put", "ship", executor="http", url="https://shop.invalid/", timeout=2)
    assert (made.source, made.executor) == ("api", "http")
    probed = await client("targets.test", "ship", {"n": 1})
    assert (probed.outcome, probed.request.method, probed.error.type) == ("retry", "POST", "dns")
    assert (await client("targets.rotate", "ship", overlap="1h")).secret.startswith("whsec_")
    await client("targets.delete", "ship", force=True)
    with pytest.raises(NotFound):
        await client("targets.get", "ship")
    with pytest.raises(WrongState):
        await client("targets.delete", "echo")


async def test_triggers_are_registered_and_their_deliveries_seen(client: Either, api: Running) -> None:
    assert [trigger.name for trigger in await client("triggers.all")] == ["github"]
    made = await client("triggers.put", "till", verifier="github", secrets=["hush"], routes=[{"target": "echo"}])
    assert (made.source, made.secrets) == ("api", 1)
    assert (await api.client.post("/hooks/till", content=b"{}")).status_code == 401

    async def seen() -> bool:
        return [each.verdict for each in await client("triggers.deliveries", "till", page_size=1)] == ["rejected"]

    await until(seen)
    (delivery,) = await client("triggers.deliveries", "till", verdict="rejected")
    assert (await client("triggers.delivery", "till", delivery.id)).verdict == "rejected"
    with pytest.raises((WrongState, NotFound)):
        await client("triggers.replay", "till", delivery.id)
    await client("triggers.delete", "till")
    with pytest.raises(NotFound):
        await client("triggers.get", "till")


async def test_events_are_followed(client: Either, api: Running) -> None:
    follower = Follower(client, target="echo")
    try:
        await until(follower.follows)
        await client("submit", "resize")
        accepted = await client("submit", "echo")
        while (event := await asyncio.wait_for(follower.seen.get(), 10)).job_id != accepted.job_id:
            assert event.target == "echo"
        assert (event.type, event.target) == ("accepted", "echo")
        assert event.at is not None
    finally:
        await follower.aclose()


async def test_schedules_live_and_go(client: Either) -> None:
    made = await client("schedules.put", "nightly", cron="30 2 * * *", target="echo", payload={"a": 1}, jitter="5s")
    assert (made.payload, made.jitter, made.paused) == ({"a": 1}, 5.0, False)
    assert (await client("schedules.pause", "nightly")).paused
    assert (await client("schedules.resume", "nightly")).next_run_at is not None
    job = await client("schedules.run", "nightly")
    assert (await client("schedules.get", "nightly")).last.job_id == job.job_id
    assert [each.name for each in await client("schedules.all", page_size=1)] == ["nightly"]
    await client("schedules.delete", "nightly")
    with pytest.raises(NotFound):
        await client("schedules.get", "nightly")


async def test_keys_are_made_shown_once_and_deleted(client: Either, api: Running, kind: str) -> None:
    made = await client("apikeys.create", "boss", ["admin"])
    own = make(kind, f"http://127.0.0.1:{api.port}", key=made.key)
    assert [key.name for key in await own("apikeys.all")] == ["boss"]
    assert (await own("signing_keys"))[0].public_key.startswith("whpk_")
    old = (await own("signing_keys"))[0]
    made_keys = await own("rotate_signing_key", overlap="1h")
    assert made_keys[1] == old != made_keys[0]
    assert (await own("ready")).status == "ready"
    await own("apikeys.delete", made.id)
    await own.aclose()


async def test_long_work_is_told_of_by_its_token(client: Either, api: Running) -> None:
    job_id, token = await park(api)
    assert (await client("heartbeat", job_id, token, {"pages": 1})).job_id == job_id
    assert (await client("get", job_id)).progress == {"pages": 1}
    assert (await client("complete", job_id, token, [3])).status == "succeeded"
    with pytest.raises(WrongState):
        await client("fail", job_id, token)
    job_id, token = await park(api)
    ended = await client("fail", job_id, token, message="no paper", type="paper", retry=False, after="1s")
    assert (ended.status, (await client("get", job_id)).error) == ("dead", {"type": "paper", "message": "no paper"})


def test_both_clients_have_the_same_methods() -> None:
    def faces(client: Gateway | AsyncGateway) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for at, part in (("", client), *((name, getattr(client, name)) for name in PARTS)):
            for name, method in inspect.getmembers(part, inspect.ismethod):
                if not name.startswith("_"):
                    parameters = inspect.signature(method).parameters.values()
                    found[f"{at}.{name}"] = [(each.name, each.kind, each.annotation) for each in parameters]
        return found

    ours, theirs = faces(Gateway()), faces(AsyncGateway())
    theirs[".close"] = theirs.pop(".aclose")
    assert ours == theirs
    assert len(ours) > 35


PARTS = ("dlq", "targets", "triggers", "schedules", "lanes", "apikeys")
