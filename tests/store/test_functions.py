"""The scripts that the server keeps as functions: loaded once, by version, and not needed where it takes none."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from gateway.errors import StoreFull, StoreUnavailable
from gateway.jobs import Settlement, Submission
from gateway.keys import JobIds
from gateway.store import Store, Worker, functions, scripts
from gateway.store.readiness import beat
from gateway.store.scripts import Script, script
from tests.servers import Server
from tests.store.limits import NOTHING_KEPT

IDS = JobIds()
LANES = ("default",)
NUMBERS = itertools.count()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of its own: functions are not of a namespace."""
    with Server(tcp=True) as server:
        yield server


@pytest.fixture
async def store(server: Server, namespace: str) -> AsyncIterator[Store]:
    store = await Store.open(server.url, namespace=namespace, lanes=LANES)
    yield store
    await store.aclose()


def job() -> Submission:
    return Submission(IDS.new(1, 0), "t", b"{}")


def worker_of(store: Store) -> Worker:
    return Worker(store.client, store.keyspaces[0], f"d{next(NUMBERS)}", LANES, lease_ms=9000, heartbeat_ms=9000)


async def live(store: Store) -> list[str]:
    """A job's life by all three."""
    worker = worker_of(store)
    await store.submit([job()])
    claimed = (await worker.exchange([], worker.next_claim(1, suspects=True))).claimed
    done = [Settlement(each.job_id, each.token, "succeeded") for each in claimed]
    return list((await worker.exchange(done, worker.next_claim(1, suspects=True))).settled)


async def libraries(store: Store, name: str) -> list[str]:
    found: list[list[Any]] = await store.client.function_list(library=f"gateway_{name}_*")
    return sorted(each[1].decode() for each in found)


async def calls(store: Store, command: str) -> int:
    stats = await store.client.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {}).get("calls", 0))


async def test_function_is_loaded_once_and_called_from_then_on(store: Store) -> None:
    for _ in range(3):
        assert await live(store) == ["succeeded"]
    assert await libraries(store, "claim") == [f"gateway_claim_1_{script('claim').sha}"]
    assert (await calls(store, "function|load"), await calls(store, "function|delete")) == (3, 0)
    assert await calls(store, "fcall") >= 3 * 4


async def test_versions_side_by_side_keep_their_own_functions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = script, _version(1)
    for _ in range(3):
        for each in (ours, theirs):
            monkeypatch.setattr(scripts, "script", each)
            assert await live(store) == ["succeeded"]
    assert await calls(store, "function|load") == 6


async def test_functions_of_versions_long_gone_are_removed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(functions.KEPT + 3):
        monkeypatch.setattr(scripts, "script", _version(number))
        assert await live(store) == ["succeeded"]
    names = {_version(number)("exchange").sha: number for number in range(functions.KEPT + 3)}
    kept = {names[name.rpartition("_")[2]] for name in await libraries(store, "exchange")}
    assert kept == set(range(3, functions.KEPT + 3))


async def test_libraries_of_others_with_names_like_ours_are_left_alone(store: Store) -> None:
    await store.client.function_load(
        "#!lua name=gateway_submit_foo\nredis.register_function('foo', function() return 1 end)"
    )
    assert await live(store) == ["succeeded"]
    assert "gateway_submit_foo" in await libraries(store, "submit")


async def test_no_transition_fails_for_a_hint_that_may_not_be_published(server: Server, namespace: str) -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "mute", "on", ">pw", "~gw:*", "resetchannels", "+@all")
    store = await Store.open(f"redis://mute:pw@127.0.0.1:{server.port}/0", namespace=namespace, lanes=LANES)
    try:
        worker = worker_of(store)
        assert not (await worker.exchange([], worker.next_claim(1, suspects=True))).claimed, "it is idle from now on"
        one = job()
        assert [each.status for each in await store.submit([one])] == ["pending"]
        assert len((await worker.exchange([], worker.next_claim(1, suspects=True))).claimed) == 1
        assert await store.cancel(one.job_id) == "asked"
    finally:
        await store.aclose()


async def test_scripts_are_run_where_the_user_may_load_no_functions(server: Server, namespace: str) -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "small", "on", ">pw", "~gw:*", "&gw:*", "+@all", "-function")
        store = await Store.open(f"redis://small:pw@127.0.0.1:{server.port}/0", namespace=namespace, lanes=LANES)
        try:
            assert await live(store) == ["succeeded"]
            asked = await calls(store, "fcall")
            for _ in range(2):
                assert await live(store) == ["succeeded"]
            assert await calls(store, "fcall") == asked, "was asked again at once"
            client.execute_command("ACL", "SETUSER", "small", "-fcall")
            store.client.functions_from_s = 0.0
            assert await live(store) == ["succeeded"]
        finally:
            await store.aclose()


async def test_work_in_hand_goes_on_when_a_full_server_has_lost_its_functions(store: Store) -> None:
    worker = worker_of(store)
    await store.submit([job(), job()])
    await store.client.function_flush()
    await store.client.config_set("maxmemory", "1")
    try:
        claimed = (await worker.exchange([], worker.next_claim(1, suspects=True))).claimed
        done = [Settlement(each.job_id, each.token, "succeeded") for each in claimed]
        assert (await worker.exchange(done, None)).settled == ("succeeded",)
        with pytest.raises(StoreFull):
            await store.submit([job()])
        store.client.functions_from_s = 0.0
        with pytest.raises(StoreFull):
            await store.submit([job()])
        await worker.upkeep(NOTHING_KEPT, most=10)
    finally:
        await store.client.config_set("maxmemory", "0")
    assert await live(store) == ["succeeded"]


async def test_nothing_of_one_call_is_left_in_the_next_when_a_call_fails(server: Server, store: Store) -> None:
    worker = worker_of(store)
    await live(store)
    prefix = store.keyspaces[0].prefix
    with server.client() as client:
        client.set(f"{prefix}stats", "no hash")  # what the script counts goes there, after all else
        with pytest.raises(Exception, match="WRONGTYPE"):
            await store.submit([job(), job()])
        client.delete(f"{prefix}stats")
        await store.submit([job()])
        assert client.hget(f"{prefix}stats", "submitted:default:t") == "1"
    await worker.leave()


async def test_what_is_kept_beside_conf_follows_it_when_another_version_changes_it(store: Store) -> None:
    prefix, worker = store.keyspaces[0].prefix, worker_of(store)

    async def taken() -> int:
        await store.submit([job()])
        return len((await worker.exchange([], worker.next_claim(9, suspects=True))).claimed)

    assert await taken() == 1
    assert await store.client.exists(f"{prefix}gist")
    await store.control_lane("default", paused=True)
    assert await taken() == 0
    await store.client.hset(f"{prefix}conf", "lanes_paused", ",")  # as a version does that knows nothing of the text
    await beat(store, "", stuck_after_s=60)
    assert await taken() == 2


async def test_replica_is_told_of_as_such_when_it_knows_no_function(server: Server, namespace: str) -> None:
    store = await Store.open(server.url, namespace=namespace, lanes=LANES)
    try:
        with server.client() as client:
            client.replicaof("127.0.0.1", str(server.port))
            with pytest.raises(StoreUnavailable, match="replica"):
                await store.submit([job()])
            client.replicaof("NO", "ONE")
            assert store.client.functions_from_s == 0.0
    finally:
        await store.aclose()


def _version(number: int) -> Any:
    """The loader of another version's scripts: the same, but for a comment."""

    def load(name: str) -> Script:
        it = script(name)
        sha = f"{number:040x}"
        return Script(name, it.source, sha) if it.is_function else it

    return load
