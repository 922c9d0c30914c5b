"""How long a lane's jobs have waited, also those that wait behind a limit, a key, a pause or a breaker."""

from __future__ import annotations

import pytest

from tests.store.site import Site

T = "paid"


async def waited_ms(site: Site, lane: str = "default") -> int:
    return (await site.store.inspect()).lanes[lane].waited_ms


@pytest.mark.parametrize(
    ("limits", "key"),
    [
        ({"concurrency": 1}, ""),
        ({"ordered": 1}, "k"),
        ({"key_concurrency": 1}, "k"),
        ({"interval": 3_600_000_000, "burst": 1}, ""),
        ({"quota": 1, "window": 86_400_000_000}, ""),
    ],
)
async def test_job_behind_a_limit_has_waited(site: Site, limits: dict[str, int], key: str) -> None:
    await site.store.control_flow(T, limits)
    await site.put(3, target=T, key=key)
    assert len(await site.take(site.worker())) == 1
    await site.clock.advance(7_000)
    assert await waited_ms(site) == 7_000


@pytest.mark.parametrize("fields", [{"paused": 1}, {"breaker": 5, "open_until": 4 * 10**15}])
async def test_job_of_a_target_that_is_stopped_has_waited(site: Site, fields: dict[str, int]) -> None:
    await site.store.control_flow(T, fields)
    await site.put(target=T)
    await site.clock.advance(7_000)
    assert await site.take(site.worker()) == []
    assert await waited_ms(site) == 7_000


async def test_blocked_job_counts_beside_a_younger_one_that_is_ready(site: Site) -> None:
    await site.store.control_flow(T, {"concurrency": 1})
    await site.put(2, target=T)
    await site.take(site.worker())
    await site.clock.advance(5_000)
    await site.put(target="free")
    await site.clock.advance(1_000)
    assert await waited_ms(site) == 6_000
    assert await waited_ms(site, "low") == 0


async def test_a_part_of_the_queues_is_looked_at_where_there_are_very_many(site: Site) -> None:
    await site.store.control_flow(T, {"key_concurrency": 1, "paused": 1})
    for number in range(500):
        await site.submit(site.job(T, key=f"k{number}"))
    await site.clock.advance(3_000)
    assert await waited_ms(site) == 3_000
