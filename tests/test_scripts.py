"""The Lua scripts as such: documented, careful before they write, refused at the memory limit or not, reloadable."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from gateway.errors import StoreError, StoreFull
from gateway.jobs import Callback, Options, Settlement
from gateway.store import Store
from gateway.store.leases import extend
from gateway.store.listing import list_jobs
from gateway.store.scripts import INNERMOST, PARTS, PRELUDE, Arg, lua_directory, run, script
from tests.servers import Server
from tests.store.clock import Clock
from tests.store.dump import dump
from tests.store.limits import NOTHING_KEPT
from tests.store.site import LANES, LEASE_MS, Site

FILES = sorted(lua_directory().glob("*.lua"))
SHARED = {*PRELUDE, *(part for shared in (PARTS, INNERMOST) for parts in shared.values() for part in parts)}
NAMES = [file.stem for file in FILES if file.stem not in SHARED]
NEW_WORK = {"submit", "schedule_fire", "delivery_record", "forward", "probe"}
"""What must be refused when the server is full: everything else ends work, or makes room."""

JOB_ID = "01a22780-5329-7d03-8458-4c0287d2a700"
JOB = (JOB_ID, "low", "t", "", 0, 0, 0, 5, "", "", "", 0, "\n{}")
KEYED = (*JOB[:9], "hash", "f", 1000, "\n{}")
SETTLED = (JOB_ID, "1:d.1", "retry", 5, "", "", "")
NUMBERS = ("", "x", "1.5", "-1", "nan", "inf", "1e300")


def pack(*items: object) -> bytes:
    return msgspec.msgpack.encode(items)


def submits(*jobs: Sequence[object]) -> list[Arg]:
    """What submit takes, each job with terms of its own."""
    terms = [[*job[1:3], *job[4:9], job[11]] for job in jobs]
    own = [[job[0], job[3], *job[9:11], job[12], number] for number, job in enumerate(jobs, 1)]
    return [msgspec.msgpack.encode([value for each in table for value in each]) for table in (own, terms)]


GOOD: dict[str, list[Arg]] = {
    "submit": submits(JOB, KEYED),
    "forward": [5, msgspec.msgpack.encode(KEYED)],
    "outbox": [10, 1000, pack((JOB_ID,))],
    "claim": ["d", "d.9", 3, 1, 1, "d.10", "1000,10,1000,low,0,0", 5000],
    "settle": [pack(("1:d.1", JOB_ID)), pack(SETTLED)],
    "exchange": [pack(("1:d.1", JOB_ID)), pack(SETTLED), "d", "d.9", 3, 1, 1, "d.10", "1000,10,1000,low,0,0", 5000],
    "extend": ["d", 1000, 1000, pack((JOB_ID, "1:d.1"))],
    "progress": [pack((JOB_ID, "1:d.1", "{}"))],
    "reap": [10, 2],
    "cancel": [JOB_ID, "nonce"],
    "replay": ["nonce", 0, JOB_ID],
    "purge": [JOB_ID],
    "replay_start": ["r", "{}", 3],
    "replay_some": ["r", "", "", 0, 1_800_000_000_000, 5, 1000, 1, 0, 10],
    "replay_end": ["r", "stopped"],
    "await_end": ["p", "wait", JOB_ID],
    "upkeep": [1000, 10, 1000, 5],
    "follow": [1000],
    "probe": [1000],
    "beat": ["d", 1000],
    "inspect": ["low"],
    "list": ["lane:low", "up", "5", JOB_ID, 3],
    "list_queued": ["low", "t:k", "5", JOB_ID, "", 3],
    "lookup": ["whole", JOB_ID],
    "targets": ["t"],
    "delivery_record": [1000, "deliveries", "t", 3, "{}", "{}\n"],
    "leave": ["d"],
    "configure": [1, "", "10", "-", "low"],
    "register": ["epoch"],
    "flow_control": ["t", "concurrency", 2],
    "lane_control": ["low", 1],
    "target_put": ["t", "{}", 10],
    "heartbeat": [JOB_ID, "1:d.1", ""],
    "notices": ["ops", "low", 5, "00"],
    "target_remove": ["t"],
    "signing_rotate": ["whsk_x", 1000, 4],
    "repair_jobs": ["0", JOB_ID],
    "repair_index": ["1", "lane:low", JOB_ID],
    "repair_flows": ["1", 1000, "t", "k"],
    "repair_lane": ["1", 1000, "low"],
    "repair_states": ["1", 1000],
    "schedule_put": ["n", "{}", "1", "r1", "* * * * *|UTC|0", "api", 0, 60_000, 60_000, 10, 0],
    "schedule_pause": ["n", 1, 60_000, 60_000],
    "schedule_remove": ["n", "api", 0],
    "schedule_named": ["1", "n"],
    "schedule_due": [10],
    "schedule_list": ["n", "", 10],
    "schedule_fire": [
        *("n", "r1", 60_000, 120_000, 120_000, 0, "allow", "low", "t", "", 0, 5, "\n{}"),
        *(pack((JOB_ID, 60_000)), "dc20@0a:host:80"),
    ],
}
"""Arguments that each script takes: from these the wrong ones are made."""

REQUIRED = {name: len(args) for name, args in GOOD.items()} | {
    "replay": 2,
    "schedule_named": 1,
    "await_end": 2,
    "inspect": 0,
    "lookup": 1,
    "targets": 0,
    "flow_control": 1,
    "repair_jobs": 1,
    "repair_index": 2,
    "repair_flows": 3,
}
NUMERIC: dict[str, Sequence[int]] = {
    "claim": (2, 3, 4, 7),
    "exchange": (4, 5, 6, 9),
    "forward": (0,),
    "outbox": (0, 1),
    "extend": (1, 2),
    "delivery_record": (0, 3),
    "reap": (0, 1),
    "upkeep": range(4),
    "follow": (0,),
    "probe": (0,),
    "beat": (1,),
    "list": (4,),
    "list_queued": (5,),
    "replay": (1,),
    "replay_start": (2,),
    "replay_some": range(3, 10),
    "configure": (0,),
    "flow_control": (2,),
    "target_put": (2,),
    "notices": (2,),
    "signing_rotate": (1, 2),
    "schedule_put": (7, 8, 9),
    "schedule_pause": (2, 3),
    "schedule_remove": (2,),
    "schedule_due": (0,),
    "schedule_list": (2,),
    "schedule_fire": (3, 4, 5, 11),
    "repair_flows": (1,),
    "repair_lane": (1,),
    "repair_states": (1,),
}
BATCHES: dict[str, tuple[int, tuple[object, ...]]] = {
    "settle": (1, SETTLED),
    "exchange": (1, SETTLED),
    "extend": (3, (JOB_ID, "1:d.1")),
    "outbox": (2, (JOB_ID,)),
    "schedule_fire": (13, (JOB_ID, 60_000)),
}
RUN = ("1:d.1", JOB_ID)
"""Of settle's first argument: a token, and ids of jobs that it holds."""
MISTYPED_SUBMITS: list[list[Arg]] = [
    [5, msgspec.msgpack.encode((*KEYED[:at], True, *KEYED[at + 1 :]))] for at in range(len(KEYED))
]
WRONG_WAYS: list[list[Arg]] = [
    ["d", "d.9", 3, 1, 1, "", ways, 0]
    for ways in (
        "1000,10,1000",
        "1000,10,1000,low,0,0,default",
        *(f"{number},10,1000,low,0,0" for number in NUMBERS),
        *(f"1000,{number},1000,low,0,0" for number in NUMBERS),
        *(f"1000,10,{number},low,0,0" for number in NUMBERS),
    )
]
OTHERWISE: dict[str, list[list[Arg]]] = {
    "forward": [
        [5, msgspec.msgpack.encode(KEYED), 5],
        [5, b"\xc1"],
        [5, msgspec.msgpack.encode(7)],
        [5, msgspec.msgpack.encode(KEYED[:-1])],
        *MISTYPED_SUBMITS,
    ],
    "purge": [[JOB_ID] * 1001],
    "replay_end": [["r", "running"]],
    "await_end": [["p", "sleep", JOB_ID]],
    "lookup": [["long", JOB_ID]],
    "claim": [
        ["d", "d.9", 3, 1, 3, "", "1000,10,1000,low,0,0", 0],
        ["d", "d.9", 3, 1, 1, "d 10", "1000,10,1000,low,0,0", 0],
        ["d", "d.9", 3, 1, 1, "", "1000,10,1000,low,0,0", 10_001],
        *WRONG_WAYS,
    ],
    "exchange": [[pack(RUN), pack(SETTLED), *ways] for ways in WRONG_WAYS],
    "configure": [[1, "", "x", "", "low"]],
    "flow_control": [["t", "concurrency"], ["t", "speed", 1]],
    "lane_control": [["low", 2], ["low", "yes"]],
    "repair_jobs": [["2", JOB_ID], ["yes", JOB_ID]],
    "repair_index": [["2", "lane:low", JOB_ID]],
    "repair_flows": [["2", 1000, "t"]],
    "repair_lane": [["2", 1000, "low"]],
    "repair_states": [["2", 1000], ["1", "x"]],
    "schedule_put": [
        ["n", "{}", "1", "r1", "timing", "someone", 0, 60_000, 60_000, 10, 0],
        ["n", "{}", "1", "r1", "timing", "api", 2, 60_000, 60_000, 10, 0],
        ["n", "{}", "1", "r1", "timing", "api", 0, 60_000, 60_000, 10, 2],
    ],
    "schedule_pause": [["n", 2, 60_000, 60_000]],
    "schedule_remove": [["n", "nobody", 0]],
    "schedule_named": [["2", "n"]],
    "schedule_fire": [
        ["n", "r1", "soon", 1, 1, 0, "allow", "low", "t", "", 0, 5, "\n{}", pack((JOB_ID, 60_000)), ""],
        ["n", "r1", 60_000, 1, 1, 0, "sometimes", "low", "t", "", 0, 5, "\n{}", pack((JOB_ID, 60_000)), ""],
        ["n", "r1", 60_000, 1, 1, 0, "allow", "low", "t", "", 101, 5, "\n{}", pack((JOB_ID, 60_000)), ""],
        ["n", "r1", 60_000, 1, 1, 0, "allow", "low", "t", "", 0, 5, "\n{}", pack((JOB_ID, 60_000)), "d|x"],
    ],
}
"""Arguments that are wrong in a way of their own."""

NAMED = {"exchange": ("settle", "claim")}
"""What errors name in place of the script: what it is made of."""


def missing(name: str) -> list[list[Arg]]:
    """Too few arguments."""
    return [GOOD[name][:count] for count in range(REQUIRED[name])]


def misnumbered(name: str) -> list[list[Arg]]:
    """A number that is none, is no whole one, or lies below what makes sense."""
    return [_with(GOOD[name], at, text) for at in NUMERIC.get(name, ()) for text in NUMBERS]


def misbatched(name: str) -> list[list[Arg]]:
    """A batch that is none, or whose second job lacks a value or has one of a wrong type or range."""
    wrong: list[list[Arg]] = []
    if name in BATCHES:
        at, item = BATCHES[name]
        wrong += [_with(GOOD[name], at, value) for value in _junk(item)]
        wrong += [_with(GOOD[name], at, pack(item, each)) for each in [item[:-1], (*item, ""), (), *_odd(name, item)]]
    if name in ("settle", "exchange"):
        wrong += [_with(GOOD[name], 0, value) for value in _junk(RUN)]
        wrong += [_with(GOOD[name], 0, pack(RUN, each)) for each in (RUN[:1], (), 7, *_odd("run", RUN))]
    if name == "submit":
        wrong += [_with(GOOD[name], at, value) for at in (0, 1) for value in _junk(KEYED)]
        wrong += [[msgspec.msgpack.encode(value) for value in both] for both in _misshapen()]
        wrong += [submits(JOB, each) for each in _odd(name, KEYED)]
    return wrong


def _misshapen() -> list[list[object]]:
    """A submit that lacks values of a job or of terms, has too many, or a job whose terms or body are not there."""
    job, terms = [JOB_ID, "", "", "", "\n{}", 1], ["low", "t", 0, 0, 0, 5, "", 0]
    numbers: list[list[object]] = [[[*job[:-1], number], terms] for number in (0, 2, 1.5, -1, "1", None)]
    bodies: list[list[object]] = [[[*job[:4], number, 1], terms] for number in (-1, 0, 1, 3, 4, 4.5)]
    return [
        [job],
        [job[:-1], terms],
        [[*job, ""], terms],
        [job, terms[:-1]],
        [job, 1],
        [1, terms],
        *numbers,
        *bodies,
    ]


def _junk(item: Sequence[object]) -> list[bytes]:
    return [b"", b"\xc1", msgspec.msgpack.encode(7), msgspec.msgpack.encode({"a": 1}), pack(item)[:-1]]


def _odd(name: str, item: Sequence[object]) -> list[Sequence[object]]:
    wrong: list[Sequence[object]] = []
    for cell, value in enumerate(item):
        odd: tuple[object, ...] = ("x", -101, 1.5, float("nan"), 2**60) if isinstance(value, int) else (7,)
        wrong += [[*item[:cell], each, *item[cell + 1 :]] for each in (None, True, ["x"], *odd)]
    if name == "submit":
        wrong += [(*KEYED[:11], 0, "\n{}"), (*KEYED[:2], "a|b", *KEYED[3:]), (*KEYED[:3], "a\nb", *KEYED[4:])]
    if name in ("settle", "exchange") and len(item) > 2:
        wrong.append((*SETTLED[:2], "vanished", *SETTLED[3:]))
    return wrong


def _with(args: list[Arg], at: int, value: Arg) -> list[Arg]:
    return [*args[:at], value, *args[at + 1 :]]


@pytest.fixture
async def site(valkey_cluster: Server, namespace: str) -> AsyncIterator[Site]:
    """Jobs in every state, on the cluster."""
    url = f"redis://127.0.0.1:{valkey_cluster.port}/0"
    store = await Store.open(url, namespace=namespace, partitions=4, lanes=LANES)
    site = Site(store, Clock(store, 1_700_000_000_000), 3)
    await settle_in(site)
    yield site
    await store.aclose()


async def settle_in(site: Site) -> None:
    """Jobs in every state; a running one is held by `holder`."""
    options = Options(callback=Callback("https://example.com/"))
    await site.put(3, lane="critical", options=options)
    await site.put(2, lane="low", options=options)
    await site.put(1, delay_ms=60_000)
    await site.run("dead", reason="fatal")
    await site.run("succeeded", result="1")
    await site.run("retry", delay_ms=60_000)
    await site.claim(site.worker("holder"), 1)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_script_opens_with_what_it_does_and_takes_and_returns(file: Path) -> None:
    head = re.match(r"(--.*\n)+", file.read_text())
    assert head, "opens with no comment"
    if file.stem in SHARED:
        return
    for word in ("KEYS ", "ARGV ", "Returns "):
        assert re.search(rf"^-- {word}", head[0], re.MULTILINE), f"its head has no line that begins with {word}"
    assert not re.match(r"-- (KEYS|ARGV|Returns) ", head[0]), "its head does not begin with what it does"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_script_takes_one_key_and_makes_all_others_from_it(file: Path) -> None:
    text = file.read_text()
    assert set(re.findall(r"KEYS\[(\d+)\]", text)) <= {"1"}
    assert "gw:" not in re.sub(r"--.*", "", text), "names a key outside of its partition"


def test_every_script_is_in_the_table_of_arguments() -> None:
    assert sorted(GOOD) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_only_scripts_that_bring_new_work_are_refused_at_the_memory_limit(name: str) -> None:
    first = script(name).source.partition("\n")[0]
    assert first == ("#!lua" if name in NEW_WORK else "#!lua flags=allow-oom")


@pytest.mark.parametrize("name", NAMES)
async def test_script_takes_arguments_that_are_right(site: Site, name: str) -> None:
    await run(site.store.client, name, site.prefix, GOOD[name])


@pytest.mark.parametrize("name", NAMES)
async def test_script_changes_nothing_when_an_argument_is_wrong(site: Site, name: str) -> None:
    before = await dump(site.store)
    for args in [*missing(name), *misnumbered(name), *misbatched(name), *OTHERWISE.get(name, [])]:
        told = await _refusal(site, name, args)
        assert any(each in told for each in NAMED.get(name, (name,))), f"{args!r}: the error does not name the script"
    assert await dump(site.store) == before


async def _refusal(site: Site, name: str, args: list[Arg]) -> str:
    try:
        await run(site.store.client, name, site.prefix, args)
    except StoreError as error:
        return str(error)
    pytest.fail(f"took {args!r}")


async def test_new_work_is_refused_and_the_rest_goes_on_when_the_server_is_full(namespace: str) -> None:
    with Server() as server:
        store = await Store.open(server.url, namespace=namespace, lanes=LANES)
        try:
            site = Site(store, Clock(store, 1_700_000_000_000), 0)
            await settle_in(site)
            await store.client.config_set("maxmemory", "1")
            before = await dump(store)
            for jobs in ([site.job()], [site.job(delay_ms=5)], [site.once("key"), site.job()]):
                with pytest.raises(StoreFull):
                    await store.submit(jobs)
            assert await dump(store) == before
            await _work_on(site)
            await store.client.config_set("maxmemory", "0")
            await site.put()
        finally:
            await store.aclose()


async def _work_on(site: Site) -> None:
    """Every transition but new work; each asserts that it took place."""
    worker = site.worker("full")
    waiting = await site.claim(worker, 3)
    outcomes = [
        Settlement(waiting[0].job_id, waiting[0].token, "succeeded", result='"' + "x" * 10_000 + '"'),
        Settlement(waiting[1].job_id, waiting[1].token, "released"),
    ]
    assert (await worker.exchange(outcomes, None)).settled == ("succeeded", "pending")
    held = [(waiting[2].job_id, waiting[2].token)]
    assert not (await extend(site.store.client, site.prefix, "full", held, lease_ms=1, heartbeat_ms=LEASE_MS)).lost
    while not (lost := dict(await worker.reap(10, max_stalls=0))):
        pass
    assert lost == {waiting[2].job_id: "pending"}
    records = {record.status: record.job_id for record in await site.records()}
    await site.store.replay(records["dead"])  # type: ignore[index]
    assert await site.store.cancel(records["scheduled"]) == "cancelled"  # type: ignore[index]
    removed, _, _ = await worker.upkeep(NOTHING_KEPT, most=100)
    assert removed >= 2
    await worker.leave()
    await site.store.probe()


async def test_flushed_scripts_are_loaded_again_unseen(site: Site) -> None:
    store, worker = site.store, site.worker("flushed")

    async def flush() -> None:
        await store.client.script_flush()
        await store.client.function_flush()

    await flush()
    ids = await site.put(2, lane="critical", priority=100)
    await flush()
    first = await site.claim(worker, 1)
    await flush()
    done = [Settlement(job.job_id, job.token, "dead", reason="fatal") for job in first]
    exchange = await worker.exchange(done, worker.next_claim(1, suspects=True))  # two scripts in one write
    assert exchange.settled == ("dead",)
    assert [job.job_id for job in (*first, *exchange.claimed)] == ids
    await flush()
    held = [(job.job_id, job.token) for job in exchange.claimed]
    renewed = await extend(store.client, site.prefix, "flushed", held, lease_ms=LEASE_MS, heartbeat_ms=LEASE_MS)
    assert not renewed.lost
    await flush()
    assert await worker.reap(10, max_stalls=2) == []
    await flush()
    await store.replay(ids[0])
    await flush()
    assert await store.cancel(ids[0]) == "cancelled"
    await flush()
    assert await site.status(ids[0]) == "cancelled"
    await flush()
    assert (await list_jobs(store, None, limit=3)).next_cursor
    await flush()
    assert (await store.inspect()).running >= 1
    await flush()
    await worker.upkeep(NOTHING_KEPT, most=1)
    await flush()
    await store.configure()
    await flush()
    await worker.leave()
