"""When an exchange leaves beside one that is under way, and what comes of two whose replies are lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway.dispatch.claims import ClaimLoop
from gateway.dispatch.slots import Slots
from gateway.errors import StoreError
from gateway.jobs import Claimed, Settlement, Submission
from gateway.keys import JobIds
from gateway.store import ClaimRequest, Exchange, Store, Worker
from gateway.store.scripts import script
from tests.dispatch.running import client_of, dispatching, settings_for
from tests.dispatch.tasks import Stage
from tests.proxy import Proxy, load_scripts
from tests.servers import Server
from tests.waiting import ended, until, until_so

IDS = JobIds()


@dataclass(eq=False)
class Under:
    """A call that was carried out; its answer is handed on once it may go."""

    settlements: Sequence[Settlement]
    claim: ClaimRequest | None
    go: asyncio.Event = field(default_factory=asyncio.Event)
    lost: bool = False


class Held(Worker):
    """A worker whose answers are let go, or lost, one by one; `sent` has the nonces of its claims, and `before` what is
    to happen before which of them."""

    under: list[Under]
    sent: list[str]
    before: dict[int, Callable[[], Awaitable[object]]]
    wake: Callable[[], None]

    def begin(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> None:
        """All leave by `exchange`."""

    async def exchange(self, settlements: Sequence[Settlement], claim: ClaimRequest | None) -> Exchange:
        call = Under(settlements, claim)
        self.sent.append(claim.nonce if claim else "")
        if change := self.before.get(len(self.sent)):
            await change()
        answer = await super().exchange(settlements, claim)
        self.under.append(call)
        await call.go.wait()
        self.under.remove(call)
        if call.lost:
            raise StoreError("the reply was lost")
        return answer


@contextlib.asynccontextmanager
async def claiming(server: Server, namespace: str, slots: Slots, *, jobs: int) -> AsyncIterator[Held]:
    """A claim loop on a lane with so many jobs, each of which succeeds at its first step."""
    store = await Store.open(server.url, namespace=namespace, lanes=("default",))
    await store.submit([Submission(IDS.new(1, 0), "t", b"{}") for _ in range(jobs)])
    worker = Held(store.client, store.keyspaces[0], "d", store.lanes, lease_ms=30_000, heartbeat_ms=30_000)
    worker.under, worker.sent, worker.before = [], [], {}

    def start(claimed: Sequence[Claimed], asked_s: float) -> None:
        asyncio.get_running_loop().call_soon(finish, claimed)

    def finish(claimed: Sequence[Claimed]) -> None:
        for one in claimed:
            slots.give_back(1)
            loop.settle(Settlement(one.job_id, one.token, "succeeded"))

    loop = ClaimLoop(worker, slots, start=start, settled=lambda done, statuses: None, rng=random.Random(1))
    worker.wake = loop.wake
    running = asyncio.create_task(loop.run())
    try:
        yield worker
    finally:
        await ended(running)
        await store.aclose()


async def under_way(worker: Held, count: int) -> None:
    """Returns once so many calls wait for their answers."""
    await until_so(lambda: len(worker.under) == count)


async def two_under_way(worker: Held) -> None:
    """Answers the first call, and returns once two wait for their answers."""
    await under_way(worker, 1)
    worker.under[0].go.set()
    await under_way(worker, 2)


async def alone(worker: Held, *, sent: int = 0) -> None:
    """Returns once so many calls have left in all, and only one is under way, and not answered."""
    await until_so(lambda: len(worker.sent) >= sent and len(worker.under) == 1 and not worker.under[0].go.is_set())


def reserved(worker: Held) -> int:
    """The slots that the calls under way have reserved."""
    return sum(claim.n for claim in claims(worker))


def claims(worker: Held) -> list[ClaimRequest]:
    return [call.claim for call in worker.under if call.claim is not None]


async def test_claim_leaves_beside_another_when_the_last_one_came_back_full(
    valkey_server: Server, namespace: str
) -> None:
    slots = Slots(10)
    async with claiming(valkey_server, namespace, slots, jobs=30) as worker:
        await two_under_way(worker)
        assert [(claim.n, claim.place) for claim in claims(worker)] == [(5, 1), (5, 2)]
        assert slots.free == 0, "asked for more than there are slots"
        assert [len(call.settlements) for call in worker.under] == [0, 5]


async def test_answers_that_come_together_go_on_one_after_the_other(valkey_server: Server, namespace: str) -> None:
    async with claiming(valkey_server, namespace, Slots(10), jobs=50) as worker:
        await two_under_way(worker)
        before = [claim.nonce for claim in claims(worker)]
        for call in worker.under:
            call.go.set()
        await until_so(lambda: len(worker.under) == 2 and not {claim.nonce for claim in claims(worker)} & set(before))
        assert [len(call.settlements) for call in worker.under] == [5, 5]
        assert {claim.place for claim in claims(worker)} == {1, 2}


async def test_outcomes_wait_for_the_call_under_way_when_there_is_little_to_do(
    valkey_server: Server, namespace: str
) -> None:
    async with claiming(valkey_server, namespace, Slots(10), jobs=5) as worker:
        await under_way(worker, 1)
        worker.under[0].go.set()
        await alone(worker)
        for _ in range(20):
            await asyncio.sleep(0)
        (call,) = worker.under
        assert not call.settlements
        call.go.set()
        await alone(worker)
        assert len(worker.under[0].settlements) == 5


async def test_lost_calls_are_repeated_in_turn_and_alone_when_two_were_under_way(
    valkey_server: Server, namespace: str
) -> None:
    async with claiming(valkey_server, namespace, Slots(10), jobs=200) as worker:
        await under_way(worker, 1)
        worker.under[0].go.set()
        for _ in range(8):  # how long each waits before it leaves again is up to chance
            await under_way(worker, 2)
            lost, before = [claim.nonce for claim in claims(worker)], len(worker.sent)
            for call in list(worker.under):
                call.lost = True
                call.go.set()
            for count in (1, 2):
                await alone(worker, sent=before + count)
                worker.under[0].go.set()
            assert worker.sent[before : before + 2] == lost


async def test_jobs_of_one_answer_start_before_the_next_call_is_answered_when_the_other_brought_none(
    valkey_server: Server, namespace: str
) -> None:
    slots = Slots(10)
    async with claiming(valkey_server, namespace, slots, jobs=8) as worker:
        other = Worker(worker.client, worker.keyspace, "o", worker.lanes, lease_ms=30_000, heartbeat_ms=30_000)
        store = await Store.open(valkey_server.url, namespace=namespace, lanes=("default",))
        async with contextlib.aclosing(store):
            taken = asyncio.Event()

            async def take_rest() -> None:
                assert len((await other.exchange((), other.next_claim(9, suspects=False))).claimed) == 3

            async def bring_more() -> None:
                await until_so(lambda: len(worker.under) == 1)
                await store.submit([Submission(IDS.new(1, 0), "t", b"{}") for _ in range(3)])
                taken.set()

            worker.before = {2: take_rest, 3: bring_more}
            await under_way(worker, 1)
            worker.under[0].go.set()
            await taken.wait()
            await under_way(worker, 2)
            assert [len(call.settlements) for call in worker.under] == [0, 5]
            both = list(worker.under)
            worker.wake()
            for call in both:
                call.go.set()
            # with the next call unanswered, what the second one brought has run
            await until_so(lambda: len(worker.sent) > 3 and slots.free == 10 - reserved(worker))


async def lose_one(stage: Stage, proxy: Proxy, number: int) -> None:
    """Has an exchange's reply lost once some more jobs have run, and returns when it is: so many are then."""
    ran = len(stage.log)
    await until_so(lambda: len(stage.log) >= ran + 60, every_s=0.002)
    proxy.lose_reply_to(script("exchange").function)
    await until_so(lambda: proxy.lost >= number)


async def test_jobs_run_once_when_replies_to_calls_beside_each_other_are_lost(
    valkey_server: Server, namespace: str, tmp_path: Path, stage: Stage
) -> None:
    count = 2000
    async with (
        Proxy(valkey_server) as proxy,
        # of its own, since the dispatcher's connection goes with each reply that is lost
        client_of(settings_for(tmp_path, valkey_server.url, namespace)) as client,
        dispatching(settings_for(tmp_path, proxy.url, namespace, slots=20)) as running,
    ):
        store = client.store
        await load_scripts(store, "claim", "settle", "exchange", "submit")
        await running.client.ended(await running.client.submit("echo"))
        proxy.delay_s = 0.002  # so that the next call leaves meanwhile
        payload = b'{"stage":"%s","label":"x"}' % namespace.encode()
        jobs = [Submission(store.new_id(1), "mark", payload) for _ in range(count)]
        await store.submit(jobs)
        for lost in range(1, 6):
            await lose_one(stage, proxy, lost)

        async def over() -> bool:
            return (await store.inspect()).counters.get("succeeded:default:mark", 0) == count

        await until(over)
        counters = (await store.inspect()).counters
        assert len(stage.log) == count
        assert counters.get("reclaimed:default:mark", 0) == 0
        assert running.sample("gateway_leases_lost_total") == 0
