"""The life of a partition as Hypothesis draws it, and its end: whatever happened, all the work gets done."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from gateway.jobs import Callback, CallbackEvent, Idempotency, Options, Settlement, Submission
from tests.model import draws
from tests.model.claims import Claim
from tests.model.draws import Ending, Order
from tests.model.drain import drain
from tests.model.driver import LANES, Driver, Tally
from tests.model.engine import Engine
from tests.model.jobs import Job
from tests.model.transitions import Retention

HEARTBEAT_MS = 20_000
STRICT: Mapping[str, tuple[int, int]] = MappingProxyType({})
EVENTS: tuple[CallbackEvent, ...] = ("job.succeeded", "job.dead", "job.cancelled")
LIVE = ("pending", "scheduled", "retrying", "running")


class Life(RuleBasedStateMachine):
    """Subclass it with an engine."""

    engine: ClassVar[Engine]
    tally: ClassVar[Tally]

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(self.engine, self.tally)
        self.tally.examples += 1
        self.last_claim: dict[str, Claim] = {}
        self.last_settled: list[Settlement] = []
        self.last_submitted: list[Submission] = []
        self.last_cancelled: tuple[str, str] | None = None
        self.last_replayed: tuple[str, int, list[str]] | None = None

    @property
    def jobs(self) -> list[Job]:
        return list(self.driver.model.jobs.values())

    def any_with(self, *statuses: str) -> list[Job]:
        return self.driver.model.with_status(*statuses)

    @initialize(limits=draws.LIMITS, dead_most=draws.DEAD_MOST, caps=draws.LANE_CAPS)
    def begin(self, limits: dict[str, dict[str, int]], dead_most: int, caps: dict[str, int]) -> None:
        self.driver.configure(dead_most, caps)
        for target, fields in limits.items():
            if fields:
                self.driver.control(target, fields)

    @rule(orders=st.lists(draws.ORDERS, min_size=1, max_size=5))
    def submit(self, orders: list[Order]) -> None:
        self._submit([self._submission(order) for order in orders])

    @rule(hot=draws.HOT)
    def submit_hot(self, hot: tuple[Order, list[str]]) -> None:
        order, keys = hot
        self._submit([self._submission(order._replace(key=key)) for key in keys])

    @precondition(lambda self: bool(self.last_submitted))
    @rule()
    def submit_again(self) -> None:
        self.driver.submit(self.last_submitted)

    @rule(name=draws.DISPATCHERS, n=draws.CLAIM_SIZES, suspects=st.booleans(), lease_ms=draws.LEASES_MS, policy=draws.POLICIES)
    def claim(self, name: str, n: int, suspects: bool, lease_ms: int, policy: dict[str, tuple[int, int]]) -> None:
        self._claim(name, n, suspects=suspects, lease_ms=lease_ms, policy=policy)

    @rule(n=draws.CLAIM_SIZES)
    def claim_more(self, n: int) -> None:
        self._claim("d1", n, suspects=True, lease_ms=5_000)

    @precondition(lambda self: bool(self.last_claim))
    @rule(which=draws.INDEX)
    def claim_again(self, which: int) -> None:
        claims = list(self.last_claim.values())
        self.driver.claim(claims[which % len(claims)])

    @precondition(lambda self: bool(self.any_with("running")))
    @rule(endings=st.lists(draws.ENDINGS, min_size=1, max_size=4))
    def settle(self, endings: list[Ending]) -> None:
        running = self.any_with("running")
        self._settle([_settlement(running[it.which % len(running)], it) for it in endings])

    @precondition(lambda self: bool(self.any_with("running")))
    @rule(ending=draws.ENDINGS)
    def settle_all(self, ending: Ending) -> None:
        self._settle([_settlement(job, ending) for job in self.any_with("running")])

    @precondition(lambda self: bool(self.last_settled))
    @rule()
    def settle_again(self) -> None:
        self.driver.settle(self.last_settled)

    @precondition(lambda self: bool(self.any_with("running")))
    @rule(name=draws.DISPATCHERS, indexes=st.lists(draws.INDEX, max_size=3), lease_ms=draws.LEASES_MS)
    def extend(self, name: str, indexes: list[int], lease_ms: int) -> None:
        jobs = self.jobs
        held = [(job.job_id, job.token or "1:d9.9") for job in (jobs[index % len(jobs)] for index in indexes)]
        self.driver.extend(name, held, lease_ms, HEARTBEAT_MS)

    @precondition(lambda self: bool(self.any_with(*LIVE)))
    @rule(which=draws.INDEX)
    def cancel(self, which: int) -> None:
        live = self.any_with(*LIVE)
        self._cancel(live[which % len(live)].job_id)

    @precondition(lambda self: bool(self.jobs))
    @rule(which=draws.INDEX)
    def cancel_any(self, which: int) -> None:
        self._cancel(self.jobs[which % len(self.jobs)].job_id)

    @precondition(lambda self: self.last_cancelled is not None)
    @rule()
    def cancel_again(self) -> None:
        assert self.last_cancelled is not None
        self.driver.cancel(*self.last_cancelled)

    @precondition(lambda self: bool(self.any_with("running")))
    @rule(most=draws.REAP_MOST, max_stalls=draws.MAX_STALLS)
    def crash(self, most: int, max_stalls: int) -> None:
        last = max(job.lease_ms for job in self.any_with("running")) * 1000
        self.driver.advance(max(0, last - self.driver.model.now_us))
        self.driver.reap(most, max_stalls)

    @rule(most=draws.REAP_MOST, max_stalls=draws.MAX_STALLS)
    def reap(self, most: int, max_stalls: int) -> None:
        self.driver.reap(most, max_stalls)

    @precondition(lambda self: bool(self.any_with("dead")))
    @rule(indexes=st.lists(draws.INDEX, min_size=1, max_size=3), max_attempts=st.sampled_from((0, 0, 1, 4)))
    def replay(self, indexes: list[int], max_attempts: int) -> None:
        dead = self.any_with("dead")
        self._replay([dead[index % len(dead)].job_id for index in indexes], max_attempts)

    @precondition(lambda self: bool(self.jobs))
    @rule(which=draws.INDEX)
    def replay_any(self, which: int) -> None:
        self._replay([self.jobs[which % len(self.jobs)].job_id, "00000000-0000-7000-8000-000000000000"])

    @precondition(lambda self: self.last_replayed is not None)
    @rule()
    def replay_again(self) -> None:
        assert self.last_replayed is not None
        self.driver.replay(*self.last_replayed)

    @rule(change=draws.CHANGES)
    def control(self, change: tuple[str, dict[str, int]]) -> None:
        target, fields = change
        fields = {name: self.driver.model.now_us + by if name == "open_until" else by for name, by in fields.items()}
        self.driver.control(target, fields)

    @rule(lane=st.sampled_from(LANES), paused=st.booleans())
    def pause_lane(self, lane: str, paused: bool) -> None:
        self.driver.pause_lane(lane, paused)

    @rule(us=draws.WAITS_US)
    def wait(self, us: int) -> None:
        self.driver.advance(us)

    @rule(us=draws.WAITS_US)
    def wait_more(self, us: int) -> None:
        self.driver.advance(us)

    @rule(keep=draws.RETENTIONS)
    def upkeep(self, keep: Retention) -> None:
        self.driver.upkeep(keep)

    @rule(name=draws.DISPATCHERS)
    def leave(self, name: str) -> None:
        self.driver.leave(name)
        self.last_claim.pop(name, None)

    @rule()
    def inspect(self) -> None:
        self.driver.inspect()

    @rule()
    def forget_scripts(self) -> None:
        self.driver.forget_scripts()

    def teardown(self) -> None:
        """Whatever happened: with every pause lifted, all that waits gets done, and nothing is left of it."""
        if self.driver.sound:
            drain(self.driver)

    def _submit(self, jobs: list[Submission]) -> None:
        self.last_submitted = jobs
        self.driver.submit(jobs)

    def _submission(self, it: Order) -> Submission:
        events = tuple(event for event in EVENTS if event[4] in it.events)
        idem = Idempotency(f"h{it.idempotency}", f"f{it.prints}", 3_000 * it.idempotency) if it.idempotency else None
        return Submission(
            self.driver.new_id(), it.target, b"{}", it.lane, it.priority, it.key, it.delay_ms, it.expires_ms,
            it.max_attempts, idem, Options(callback=Callback("http://c", events) if events else None),
        )  # fmt: skip

    def _claim(
        self, name: str, n: int, *, suspects: bool, lease_ms: int, policy: Mapping[str, tuple[int, int]] = STRICT
    ) -> None:
        claim = Claim(name, self.driver.new_nonce(name), n, suspects, lease_ms, HEARTBEAT_MS, LANES, policy)
        self.last_claim[name] = claim
        self.driver.claim(claim)

    def _settle(self, items: list[Settlement]) -> None:
        self.last_settled = items
        self.driver.settle(items)

    def _cancel(self, job_id: str) -> None:
        self.last_cancelled = (job_id, self.driver.new_nonce("c"))
        self.driver.cancel(*self.last_cancelled)

    def _replay(self, job_ids: list[str], max_attempts: int = 0) -> None:
        self.last_replayed = (self.driver.new_nonce("r"), max_attempts, job_ids)
        self.driver.replay(*self.last_replayed)


def _settlement(job: Job, it: Ending) -> Settlement:
    token = "1:d9.9" if it.bogus else job.token
    return Settlement(job.job_id, token, it.outcome, it.delay_ms, it.reason, '"done"', '{"type":"broken"}')
