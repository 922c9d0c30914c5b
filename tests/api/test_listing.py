"""Listings of jobs that wait in flows: all of them, whatever holds them back, each once, while others come and go."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.jobs import Settlement
from gateway.store import Store, listing
from tests.api.limited import limited_gateway, limited_settings, submit
from tests.api.running import Running, claim, running

KEYED = ("account", "ledger", "slow")


@pytest.fixture(params=["one", "cluster"])
async def api(request: pytest.FixtureRequest, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    async with limited_gateway(request, namespace, tmp_path) as gateway:
        yield gateway


async def place(api: Running, target: str, *, lane: str, **fields: Any) -> str:
    """A job in that lane; an ordered target's is in its own, since no other one may be asked for."""
    if target == "ledger":
        return await submit(api, target, **{name: fields[name] for name in fields if name == "key"})
    return await submit(api, target, lane=lane, **fields)


async def page(api: Running, query: str, cursor: str | None = None) -> tuple[list[str], str | None]:
    answer = await api.client.get(f"/jobs?{query}" + (f"&cursor={cursor}" if cursor else ""))
    assert answer.status_code == 200, answer.text
    return [job["job_id"] for job in answer.json()["jobs"]], answer.json()["next_cursor"]


async def listed(api: Running, query: str) -> list[str]:
    """The ids of all pages, in order."""
    found, cursor = await page(api, query)
    for _ in range(500):
        if cursor is None:
            return found
        more, cursor = await page(api, query, cursor)
        found += more
    raise AssertionError("the pages do not end")


async def work(api: Running, rng: random.Random, most: int) -> None:
    """Claims in each partition, and settles some of it."""
    for partition in range(api.store.partitions):
        worker, ids, tokens = await claim(api.store, partition)
        for job_id, token in list(zip(ids, tokens, strict=True))[:most]:
            outcome: Any = rng.choice(["succeeded", "dead", "retry", "released"])
            await worker.exchange([Settlement(job_id, token, outcome, delay_ms=60_000, reason="fatal")], None)


@pytest.mark.parametrize("limit", [1, 7, 100])
async def test_every_pending_job_is_listed_once_whatever_holds_it_back(api: Running, limit: int) -> None:
    ids = []
    for at in range(30):
        ids.append(await place(api, KEYED[at % 3], key=f"k{at % 4}", lane=("critical", "low")[at % 2]))
        ids.append(await submit(api, ("single", "daily", "echo")[at % 3]))
    await api.client.post("/targets/single/pause")
    rng = random.Random(5)
    await work(api, rng, 2)
    pending = [
        job_id for job_id in ids if (await api.client.get(f"/jobs/{job_id}/status")).json()["status"] == "pending"
    ]
    assert len(pending) > 20
    found = await listed(api, f"status=pending&limit={limit}")
    assert sorted(found) == sorted(pending)
    assert sorted(await listed(api, f"limit={limit}")) == sorted(ids)


async def test_flow_jobs_come_by_target_key_and_turn(api: Running) -> None:
    late = [await submit(api, "ledger", key=key) for key in ("b", "a", "b", "a")]
    plain = await submit(api, "echo")
    first = [await submit(api, "account", key="z", priority=priority) for priority in (0, 5)]
    wanted = [plain, first[1], first[0], late[1], late[3], late[0], late[2]]
    assert await listed(api, "status=pending&limit=2") == wanted
    assert await listed(api, "status=pending&lane=default&limit=3") == wanted
    assert await listed(api, "status=pending&lane=low") == []


async def test_filter_by_target_looks_only_at_its_queues(api: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "WINDOW", 5)
    for _ in range(12):
        await submit(api, "account", key="x")
    wanted = [await submit(api, "ledger", key="x", tags=["red"]) for _ in range(3)]
    found, _ = await page(api, "status=pending&target=ledger&limit=3")
    assert found == wanted
    assert await listed(api, "status=pending&target=single") == []
    assert await listed(api, "target=ledger&tag=red&limit=2") == wanted


async def test_short_page_still_carries_a_cursor_when_the_window_is_looked_through(
    api: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "WINDOW", 4)
    for at in range(15):
        await submit(api, "account", key=f"k{at}")
    wanted = await submit(api, "account", key="k9", tags=["red"])
    found, cursor = await page(api, "status=pending&tag=red")
    assert (found, cursor is None) == ([], False)
    assert await listed(api, "status=pending&tag=red") == [wanted]


@pytest.mark.parametrize("seed", range(3))
async def test_jobs_that_stay_are_each_met_once_while_others_come_and_go(api: Running, seed: int) -> None:
    rng = random.Random(seed)
    staying = [await place(api, target, key=f"{rng.randrange(4)}", lane="low") for target in KEYED * 8]
    await api.client.post("/targets/single/pause")
    staying += [await submit(api, "single", lane="low") for _ in range(4)]
    for name in KEYED:
        await api.client.post(f"/targets/{name}/pause")
    passing: list[str] = []
    found, cursor = await page(api, "status=pending&limit=3")
    for _ in range(100):
        if cursor is None:
            break
        for _ in range(2):
            key, priority = f"{rng.randrange(6)}", rng.choice([-1, 0, 1])
            passing.append(await place(api, rng.choice(KEYED), key=key, lane="low", priority=priority))
            if rng.random() < 0.8:
                gone = passing.pop(rng.randrange(len(passing)))
                assert (await api.client.delete(f"/jobs/{gone}")).status_code == 200
        more, cursor = await page(api, "status=pending&limit=3", cursor)
        found += more
    assert cursor is None, "the pages do not end"
    assert sorted(job_id for job_id in found if job_id in set(staying)) == sorted(staying)


@pytest.mark.parametrize("seed", range(2))
async def test_index_of_queues_names_just_those_that_are_not_empty(api: Running, seed: int) -> None:
    rng = random.Random(seed)
    ids: list[str] = []
    for _ in range(20):
        for _ in range(rng.randrange(4)):
            target = rng.choice([*KEYED, "single", "daily"])
            key = {"key": f"{rng.randrange(3)}"} if rng.random() < 0.7 else {}
            ids.append(await place(api, target, lane=rng.choice(["critical", "low"]), **key))
        if rng.random() < 0.6:
            await work(api, rng, rng.randrange(4))
        if ids and rng.random() < 0.4:
            await api.client.delete(f"/jobs/{rng.choice(ids)}")
        if rng.random() < 0.2:
            await api.client.post(f"/targets/{rng.choice(KEYED)}/{rng.choice(['pause', 'resume'])}")
        await check_index(api.store)


async def check_index(store: Store) -> None:
    """Fails unless `flows:<lane>` is what a look through every key finds."""
    client: Any = store.client
    for keyspace in store.keyspaces:
        found = [
            key.decode().removeprefix(keyspace.prefix)
            async for key in client.scan_iter(f"{keyspace.prefix}*", count=10_000)
        ]
        for lane in store.lanes:
            filled = {key.removeprefix(f"flow:{lane}:") for key in found if key.startswith(f"flow:{lane}:")}
            index = await client.zrange(f"{keyspace.prefix}flows:{lane}", 0, -1)
            assert {each.decode() for each in index} == filled


async def test_jobs_of_a_lane_that_is_configured_no_more_are_listed(
    api: Running, namespace: str, tmp_path: Path
) -> None:
    ids = [await submit(api, "echo", lane="low"), await submit(api, "account", key="a", lane="low")]
    assert api.settings.redis_url is not None
    settings = limited_settings(
        tmp_path,
        api.settings.redis_url.reveal(),
        namespace,
        GATEWAY_GATEWAY_PARTITIONS=str(api.store.partitions),
    )
    async with running(settings) as later:
        later.store.lanes = ("critical", "default")
        assert await listed(later, "status=pending") == ids


@pytest.mark.parametrize("query", ["status=retrying&limit=1", "limit=1"])
async def test_cursor_may_stand_at_the_timer_of_a_flow(
    api: Running, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(listing, "WINDOW", 1)
    key = "k" * 128
    ids = [await submit(api, "slow", key=key) for _ in range(2)]
    await work(api, random.Random(1), 0)
    assert set(await listed(api, query)) == (set(ids) if "status" not in query else set())
