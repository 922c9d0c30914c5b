"""Repair: nothing is found where nothing is wrong, and whatever is broken is whole afterwards."""

from __future__ import annotations

import random

import pytest

from gateway.store.repair import SENTENCES, Damage, find_damage
from tests.store.audit import audit
from tests.store.damage import UNFINISHED, Damager, populate, work_off
from tests.store.dump import dump
from tests.store.site import Site

SEEDS = 8
STRIKES = 4


async def damages(site: Site, *, mend: bool = False) -> list[Damage]:
    return [damage async for damage in find_damage(site.store, mend=mend)]


@pytest.mark.parametrize("seed", range(3))
async def test_repair_finds_and_changes_nothing_when_nothing_is_wrong(site: Site, seed: int) -> None:
    await populate(site, random.Random(seed))
    before = await dump(site.store)
    assert await damages(site) == []
    assert await damages(site, mend=True) == []
    assert await dump(site.store) == before


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_store_is_whole_again_when_it_was_damaged_at_random(site: Site, seed: int) -> None:
    draw = random.Random(seed)
    await populate(site, draw)
    before = {record.job_id: str(record.status) for record in await site.records()}
    damager = Damager(site, draw, sorted(before.items()))
    for _ in range(STRIKES):
        await damager.strike()
    print(f"seed {seed}: {damager.done}")
    seen = await damages(site)
    assert await damages(site) == seen, "a look alone changed something"
    await damages(site, mend=True)
    assert await damages(site) == []
    await audit(site)
    after = {record.job_id: str(record.status) for record in await site.records()}
    assert after.keys() == before.keys(), "a job was lost, or came from nowhere"
    assert {job_id for job_id in before if after[job_id] != before[job_id]} <= damager.lost
    await work_off(site)
    ended = {record.job_id: str(record.status) for record in await site.records()}
    unfinished = {job_id for job_id, status in after.items() if status in UNFINISHED}
    assert {ended[job_id] for job_id in unfinished} <= {"succeeded"}
    assert await damages(site) == []


async def test_job_that_lost_its_line_is_what_its_index_says(site: Site) -> None:
    late = (await site.put(delay_ms=60_000))[0]
    await site.put(3)
    good = await site.run("succeeded", result="1")
    dead = await site.run("dead", reason="fatal")
    running = (await site.take(site.worker(), 1))[0]
    await site.store.client.delete(f"{site.prefix}state")
    words = sorted([damage.word for damage in await damages(site, mend=True)])
    assert words == [
        "misplaced",
        "state_lost",
        "state_lost",
        "state_lost",
        "unplaced",
        "waiting_wrong",
    ]
    assert await damages(site) == []
    now = [await site.status(job_id) for job_id in (late, good, dead, running)]
    assert now == ["scheduled", "succeeded", "dead", "pending"]


async def test_job_whose_payload_was_lost_is_kept_for_someone_to_look_at(site: Site) -> None:
    job_id = (await site.put(delay_ms=60_000))[0]
    await site.store.client.delete(f"{site.prefix}b:{job_id}")
    await damages(site, mend=True)
    found = (await site.store.find(job_id)).record
    assert (found.status, found.reason, found.target, found.payload) == ("dead", "fatal", "resize", b"")
    assert b'"type":"damaged"' in found.error


async def test_counts_of_states_are_set_right(site: Site) -> None:
    await site.put(1)
    await site.run("dead", reason="fatal")
    key = f"{site.prefix}states"
    await site.store.client.hset(key, mapping={"dead:low": 3, "retrying:low": -1})
    await site.store.client.hdel(key, "dead:default")
    assert [damage.word for damage in await damages(site, mend=True)] == ["state_miscounted"] * 3
    assert await site.store.client.hgetall(key) == {b"dead:default": b"1"}
    assert await damages(site) == []


async def test_finished_job_whose_facts_were_lost_is_forgotten(site: Site) -> None:
    ids = await site.put(2)
    await site.run("succeeded")
    await site.run("dead", reason="fatal")
    for job_id in ids:
        await site.store.client.delete(f"{site.prefix}b:{job_id}")
    await site.store.client.hdel(f"{site.prefix}state", ids[1])
    words = {damage.word for damage in await damages(site, mend=True)}
    assert words == {"no_record", "remains", "state_miscounted"}
    assert await site.records() == []
    assert not [key async for key in site.store.client.scan_iter(match=f"{site.prefix}[jbre]:*", count=10_000)]


async def test_counts_are_left_alone_when_there_is_too_much_to_count(site: Site) -> None:
    await site.put(5)
    await site.store.client.hset(f"{site.prefix}waiting", "default:resize", "9")
    found = [damage async for damage in find_damage(site.store, mend=True, look_most=4)]
    assert [(damage.word, damage.known) for damage in found] == [("uncounted", False)]
    assert [damage.word for damage in await damages(site, mend=True)] == ["waiting_wrong"]


def test_every_word_of_the_scripts_has_a_sentence() -> None:
    assert all("{0}" in sentence for sentence in SENTENCES.values())
