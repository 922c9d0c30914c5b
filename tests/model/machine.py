"""The life of a partition as Hypothesis draws it, and its end: whatever happened, all the work gets done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from types import MappingProxyType
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from gateway.jobs import CALLBACK_TARGET, Callback, CallbackEvent, Idempotency, Options, Settlement, Submission
from tests.model import draws
from tests.model.claims import Claim
from tests.model.doctor import examine
from tests.model.drain import drain
from tests.model.draws import Ending, Order
from tests.model.driver import HANDED_MOST, LANES, Driver, Tally
from tests.model.engine import Engine
from tests.model.jobs import Job
from tests.model.transitions import Retention

HEARTBEAT_MS = 20_000
STRICT: Mapping[str, tuple[int, int]] = MappingProxyType({})
EVENTS: tuple[CallbackEvent, ...] = ("job.succeeded", "job.dead", "job.cancelled", "job.retrying")
NOBODY = "00000000-0000-7000-8000-000000000000"


class Life(RuleBasedStateMachine):
    """Subclass it with two engines."""

    engine: ClassVar[Engine]
    beside: ClassVar[Engine]
    tally: ClassVar[Tally]

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(self.engine, self.tally, self.beside)
        self.tally.examples += 1
        self.focus: list[str] = []
        self.last_claim: dict[tuple[str, int], Claim] = {}
        self.following: dict[str, tuple[str, int]] = {}
        self.last_settled: Sequence[Settlement] = ()
        self.last_submitted: list[Submission] = []
        self.last_cancelled: tuple[str, str] | None = None
        self.last_replayed: tuple[str, int, list[str]] | None = None

    @property
    def jobs(self) -> list[Job]:
        return list(self.driver.model.jobs.values())

    @property
    def unlimited(self) -> list[str]:
        """Targets with several keys that have no limits."""
        return [name for name in self.focus if name in ("plain", "late") and name not in self.driver.model.targets]

    @property
    def without_limits(self) -> list[str]:
        """Targets that have none so far."""
        return [name for name in self.focus if name not in self.driver.model.targets]

    @property
    def never_limited(self) -> list[str]:
        """Targets that have none, be they of this life so far or not."""
        return [name for name in ("plain", "other", "late") if name not in self.driver.model.targets]

    def any_with(self, *statuses: str) -> list[Job]:
        return self.driver.model.with_status(*statuses)

    @initialize(focus=draws.FOCUS, limits=draws.LIMITS, dead_most=draws.DEAD_MOST, caps=draws.LANE_CAPS)
    def begin(self, focus: list[str], limits: dict[str, dict[str, int]], dead_most: int, caps: dict[str, int]) -> None:
        self.focus = focus
        self.driver.configure(dead_most, caps)
        for target, fields in limits.items():
            if fields and target in (*focus, CALLBACK_TARGET):
                self.driver.control(target, fields)

    @rule(orders=st.lists(draws.ORDERS, min_size=1, max_size=6))
    def submit(self, orders: list[Order]) -> None:
        self._submit([self._submission(order) for order in orders])

    @rule(hot=draws.HOT)
    def submit_hot(self, hot: tuple[Order, list[int]]) -> None:
        order, keys = hot
        self._submit([self._submission(order._replace(key=key)) for key in keys])

    @rule(
        name=draws.DISPATCHERS,
        n=draws.CLAIM_SIZES,
        suspects=st.booleans(),
        lease_ms=draws.LEASES_MS,
        policy=draws.POLICIES,
        stands_by=st.booleans(),
        ahead_us=draws.AHEAD_US,
    )
    def claim(
        self,
        name: str,
        n: int,
        suspects: bool,
        lease_ms: int,
        policy: dict[str, tuple[int, int]],
        stands_by: bool,
        ahead_us: int,
    ) -> None:
        self._claim(
            name, n, suspects=suspects, lease_ms=lease_ms, policy=policy, stands_by=stands_by, ahead_us=ahead_us
        )

    @precondition(lambda self: self.without_limits)
    @rule(
        orders=st.lists(draws.ORDERS, min_size=2, max_size=6),
        apart_us=draws.APART_US,
        before_us=draws.BEFORE_US,
        name=draws.DISPATCHERS,
        n=draws.CLAIM_SIZES,
        policy=draws.POLICIES,
        others=draws.MOSTLY,
        paused=st.sampled_from(("", "", "", "default", "critical")),
        lost=st.booleans(),
    )
    def claim_ahead(
        self,
        orders: list[Order],
        apart_us: int,
        before_us: list[int],
        name: str,
        n: int,
        policy: dict[str, tuple[int, int]],
        others: bool,
        paused: str,
        lost: bool,
    ) -> None:
        """A dispatcher asks a little before something is due, mostly once there is nothing else."""
        target = self.focus.index(self.without_limits[0])
        limited = [at for at, name in enumerate(self.focus) if name not in self.without_limits]
        for order, of in zip(orders, cycle([target, *limited]), strict=False):
            self._submit([self._submission(order._replace(target=of, delay_ms=700, idempotency=0))])
            self.driver.advance(apart_us)
        if not others:
            self._submit([self._submission(orders[0]._replace(target=target, delay_ms=0, idempotency=0))])
        if paused:
            self.driver.pause_lane(paused, True)
        for us in sorted(before_us, reverse=True):
            dues = [job.due_us for job in self.any_with("scheduled") if job.target not in self.driver.model.targets]
            self.driver.advance(max(0, min(dues, default=0) - us - self.driver.model.now_us))
            if others:
                self._claim("d1", 100, suspects=True, lease_ms=5_000)
            last = self._claim(name, n, suspects=True, lease_ms=5_000, policy=policy, ahead_us=10_000)
            if lost:
                self.driver.advance(apart_us)
                self.driver.claim(last)
        if paused:
            self.driver.pause_lane(paused, False)

    @rule(
        name=draws.DISPATCHERS,
        n=draws.CLAIM_SIZES,
        orders=st.lists(draws.ORDERS, min_size=1, max_size=3),
        lost=st.booleans(),
        late=st.booleans(),
        paused=st.sampled_from(("", "", "", "default")),
    )
    def hand_over(self, name: str, n: int, orders: list[Order], lost: bool, late: bool, paused: str) -> None:
        """A dispatcher takes all there is, and waits for what comes then; it may never hear that it waits. `late`:
        another one that waits too does not come for what it was woken for."""
        if late:
            for _ in range(2):
                self._claim("d2" if name == "d1" else "d1", 100, suspects=True, lease_ms=5_000, stands_by=True)
            self.driver.advance(1_000)
        for size in (100, n):
            last = self._claim(name, size, suspects=True, lease_ms=5_000, stands_by=True)
        if late:
            many = [orders[at % len(orders)] for at in range(HANDED_MOST + 1)]
            self._submit([self._submission(order._replace(delay_ms=0, idempotency=0)) for order in many])
        if paused:
            self.driver.pause_lane(paused, True)
        self._submit([self._submission(order._replace(delay_ms=0)) for order in orders])
        if paused:
            self.driver.pause_lane(paused, False)
        if lost:
            self.driver.claim(last)

    @precondition(lambda self: self.never_limited)
    @rule(
        order=draws.ORDERS,
        count=st.integers(1, 3),
        name=draws.DISPATCHERS,
        n=draws.CLAIM_SIZES,
        others=st.lists(draws.ORDERS, min_size=1, max_size=3),
        before=st.sampled_from(("due", "waits", "", "paused", "lost", "due")),
        after=st.sampled_from(("", "claim", "repeat")),
    )
    def hand_plain(
        self, order: Order, count: int, name: str, n: int, others: list[Order], before: str, after: str
    ) -> None:
        """What a submit brings is for a target without limits, as it mostly is; something may have come before it, and
        the dispatcher not have heard of its first claim."""
        if not self.without_limits:
            self.focus += self.never_limited[:1]
        target = self.focus.index(self.without_limits[0])
        order = order._replace(target=target, delay_ms=0, idempotency=0)
        if before == "due":  # what is due is to go before it, and is in no lane yet where it has limits
            order = order._replace(lane="low", priority=0)
            others = [each._replace(lane="critical", expires_ms=0) for each in self._limited(others)]
            name = "d1" if name == "d3" else name  # one that hears of it, and has waited longest
            for other in ("d1", "d2", "d3"):
                if other != name:
                    self._leave(other)
        self._claim(name, 100, suspects=True, lease_ms=5_000)
        self._submit([self._submission(order)])
        if before == "due":
            self._submit([self._submission(each._replace(delay_ms=700, idempotency=0)) for each in others])
        if before == "waits":  # for one that waits as well and has not come so far
            other = "d2" if name == "d1" else "d1"
            for _ in range(2):
                self._claim(other, 100, suspects=True, lease_ms=5_000, stands_by=True)
            self.driver.advance(1_000)
        for size in (100, n):
            last = self._claim(name, size, suspects=True, lease_ms=5_000, stands_by=True)
        if before == "due":
            self.driver.advance(700_000)
        if before == "waits":
            lanes = ("low", order.lane)
            many = [order._replace(lane=lanes[at % 2], expires_ms=0) for at in range(HANDED_MOST + 1)]
            self._submit([self._submission(each) for each in many])
        if before == "paused":
            self.driver.pause_lane(order.lane, True)
        if before == "lost":
            self.driver.set_registered(False)
        self._submit([self._submission(order) for _ in range(count)])
        if before == "lost":
            self.driver.set_registered(True)
        if before == "paused":
            self.driver.pause_lane(order.lane, False)
        if after == "repeat":
            self.driver.claim(last)
        if after:
            self._claim(name, n, suspects=True, lease_ms=5_000)

    def _limited(self, orders: list[Order]) -> list[Order]:
        """Orders for targets with limits, if there are any whose jobs may be for later."""
        limited = [at for at, name in enumerate(self.focus) if name not in (*self.without_limits, "ordered")]
        return [order._replace(target=of) for order, of in zip(orders, cycle(limited), strict=False)] or orders

    @rule(n=draws.CLAIM_SIZES)
    def claim_more(self, n: int) -> None:
        self._claim("d1", n, suspects=True, lease_ms=5_000)

    @rule(n=draws.CLAIM_SIZES, endings=st.lists(draws.ENDINGS, min_size=1, max_size=4))
    def work(self, n: int, endings: list[Ending]) -> None:
        """Claims, and ends what was claimed in one way and another."""
        self._claim("d2", n, suspects=True, lease_ms=5_000)
        running = [job for job in self.any_with("running") if ":d2." in job.token]
        if running:
            self._settle([_settlement(job, endings[at % len(endings)]) for at, job in enumerate(running)])

    @precondition(lambda self: bool(self.any_with("running")))
    @rule(endings=st.lists(draws.ENDINGS, min_size=1, max_size=6))
    def settle(self, endings: list[Ending]) -> None:
        running = self.any_with("running")
        self._settle([_settlement(running[it.which % len(running)], it) for it in endings])

    @precondition(lambda self: bool(self.any_with("running")))
    @rule(
        endings=st.lists(draws.ENDINGS, min_size=1, max_size=6),
        name=draws.DISPATCHERS,
        n=draws.CLAIM_SIZES,
        policy=draws.POLICIES,
        stands_by=st.booleans(),
        lost=st.booleans(),
    )
    def exchange(
        self,
        endings: list[Ending],
        name: str,
        n: int,
        policy: dict[str, tuple[int, int]],
        stands_by: bool,
        lost: bool,
    ) -> None:
        """What ends makes room for what is claimed in the same call."""
        running = self.any_with("running")
        items = [_settlement(running[it.which % len(running)], it) for it in endings]
        last = self._claim(name, n, suspects=True, lease_ms=5_000, policy=policy, stands_by=stands_by, settling=items)
        if lost:
            self.driver.exchange(items, last)

    @precondition(lambda self: bool(self.any_with("running")))
    @rule(ending=draws.ENDINGS)
    def settle_all(self, ending: Ending) -> None:
        self._settle([_settlement(job, ending) for job in self.any_with("running")])

    @precondition(lambda self: bool(self.any_with("running")))
    @rule(which=draws.INDEX, within_ms=draws.PARKED_MS, least_ms=st.sampled_from((0, 900)))
    def park(self, which: int, within_ms: int, least_ms: int) -> None:
        """A target answers that its work goes on elsewhere."""
        running = self.any_with("running")
        job = running[which % len(running)]
        self._settle([Settlement(job.job_id, job.token, "parked", within_ms, str(least_ms))])

    @precondition(lambda self: bool(self.jobs))
    @rule(which=draws.INDEX, bogus=st.sampled_from((False, False, False, True)))
    def beat(self, which: int, bogus: bool) -> None:
        """A sign of life from elsewhere, of a job for which there is one if there is any."""
        jobs = [job for job in self.jobs if job.within_ms] or self.jobs
        job = jobs[which % len(jobs)]
        self.driver.heartbeat(job.job_id, "1:d9.9" if bogus else job.token or "1:d9.9")

    @precondition(lambda self: bool(self.jobs))
    @rule(which=draws.INDEX, victim=draws.VICTIMS)
    def cancel(self, which: int, victim: str) -> None:
        targets = self.driver.model.targets.values()
        held = {node.held for target in targets for node in target.keys.values()}
        special = {"held": held, "parked": {job.job_id for job in self.jobs if job.within_ms}}
        jobs = [job for job in self.jobs if job.status == victim or job.job_id in special.get(victim, ())]
        jobs = jobs or self.jobs
        self.last_cancelled = (jobs[which % len(jobs)].job_id, self.driver.new_nonce("c"))
        self.driver.cancel(*self.last_cancelled)

    @rule(most=draws.REAP_MOST, max_stalls=draws.MAX_STALLS, crash=st.booleans())
    def reap(self, most: int, max_stalls: int, crash: bool) -> None:
        running = self.any_with("running")
        if crash and running:
            last_us = max(job.lease_ms for job in running) * 1000
            self.driver.advance(max(0, last_us - self.driver.model.now_us))
        self.driver.reap(most, max_stalls)

    @precondition(lambda self: any(job.within_ms for job in self.jobs))
    @rule()
    def forsake(self) -> None:
        """Nobody tells of the end of work that goes on elsewhere."""
        first_us = min(job.lease_ms for job in self.jobs if job.within_ms) * 1000
        self.driver.advance(max(0, first_us - self.driver.model.now_us))
        self.driver.reap(1000, 2)

    @precondition(lambda self: bool(self.jobs))
    @rule(indexes=st.lists(draws.INDEX, min_size=1, max_size=3), max_attempts=draws.REPLAY_ATTEMPTS, dead=draws.MOSTLY)
    def replay(self, indexes: list[int], max_attempts: int, dead: bool) -> None:
        jobs = (dead and self.any_with("dead")) or self.jobs
        ids = [jobs[index % len(jobs)].job_id for index in indexes]
        self.last_replayed = (self.driver.new_nonce("r"), max_attempts, [*ids, NOBODY])
        self.driver.replay(*self.last_replayed)

    @rule(what=st.sampled_from(("submit", "claim", "settle", "cancel", "replay")), which=draws.INDEX)
    def repeat(self, what: str, which: int) -> None:
        """A reply was lost, and the same call comes again; not always at once."""
        if what == "submit" and self.last_submitted:
            self.driver.submit(self.last_submitted)
        elif what == "claim" and self.last_claim:
            claims = list(self.last_claim.values())
            self.driver.claim(claims[which % len(claims)])
        elif what == "settle" and self.last_settled:
            self.driver.settle(self.last_settled)
        elif what == "cancel" and self.last_cancelled:
            self.driver.cancel(*self.last_cancelled)
        elif self.last_replayed:
            self.driver.replay(*self.last_replayed)

    @rule(which=st.integers(0, 3), fields=draws.CHANGES)
    def control(self, which: int, fields: dict[str, int]) -> None:
        now_us = self.driver.model.now_us
        fields = {name: now_us + by if name == "open_until" and by else by for name, by in fields.items()}
        self.driver.control(self.focus[which % len(self.focus)], fields)

    @precondition(lambda self: self.unlimited)
    @rule(hot=draws.HOT, n=draws.CLAIM_SIZES, ending=draws.ENDINGS)
    def gain(self, hot: tuple[Order, list[int]], n: int, ending: Ending) -> None:
        """A target gains limits while jobs of it wait, run and come back."""
        target = self.unlimited[0]
        order, keys = hot
        order = order._replace(target=self.focus.index(target), delay_ms=0, idempotency=0)
        half = len(keys) // 2
        self._submit([self._submission(order._replace(key=key)) for key in keys[:half]])
        self._claim("d1", n, suspects=True, lease_ms=5_000)
        self._submit([self._submission(order._replace(key=key)) for key in keys[half:]])
        self.driver.control(target, {"paused": 0})
        given_back = ending._replace(outcome="released")
        running = enumerate(self.any_with("running"))
        self._settle([_settlement(job, ending if at else given_back) for at, job in running])
        self.driver.advance(ending.delay_ms * 1000)
        self._claim("d2", n, suspects=True, lease_ms=5_000)

    @rule(us=draws.WAITS_US)
    def wait(self, us: int) -> None:
        self.driver.advance(us)

    @rule(what=draws.ASIDES, name=draws.DISPATCHERS, index=draws.INDEX, keep=draws.RETENTIONS)
    def aside(self, what: str, name: str, index: int, keep: Retention) -> None:
        """What happens beside the work."""
        driver, jobs = self.driver, self.jobs
        if what == "leave":
            self._leave(name)
        elif what == "look":
            driver.inspect()
        elif what == "forget":
            driver.forget_scripts()
        elif what == "upkeep":
            driver.upkeep(keep)
        elif what == "extend":
            parked = [job for job in jobs if job.within_ms]
            held = [(job.job_id, job.token or "1:d9.9") for job in (*parked[:2], *jobs[index : index + 4])]
            driver.extend(name, held, 5_000, HEARTBEAT_MS)
        else:
            lane = LANES[index % len(LANES)]
            driver.pause_lane(lane, lane not in driver.model.paused_lanes)

    def teardown(self) -> None:
        """Whatever happened: with every pause lifted, all that waits gets done, and nothing is left of it."""
        if self.driver.sound:
            examine(self.driver)
            drain(self.driver)

    def _leave(self, name: str) -> None:
        self.driver.leave(name)
        self.last_claim = {place: it for place, it in self.last_claim.items() if place[0] != name}

    def _submit(self, jobs: list[Submission]) -> None:
        self.last_submitted = jobs
        self.driver.submit(jobs)

    def _submission(self, it: Order) -> Submission:
        events = tuple(event for event in EVENTS if event[4] in it.events)
        idem = Idempotency(f"h{it.idempotency}", it.fingerprint, 3_000 * it.idempotency) if it.idempotency else None
        target = self.focus[it.target % len(self.focus)]
        key = draws.KEYS_OF[target][it.key % len(draws.KEYS_OF[target])]
        if target == "ordered":  # its jobs have one lane and priority, and no delay
            it = it._replace(lane="default", priority=0, delay_ms=0)
        return Submission(
            self.driver.new_id(), target, b"{}", it.lane, it.priority, key, it.delay_ms, it.expires_ms,
            it.max_attempts, idem, Options(callback=Callback("http://c", events) if events else None),
        )  # fmt: skip

    def _claim(
        self,
        name: str,
        n: int,
        *,
        suspects: bool,
        lease_ms: int,
        policy: Mapping[str, tuple[int, int]] = STRICT,
        stands_by: bool = False,
        ahead_us: int = 0,
        settling: Sequence[Settlement] = (),
    ) -> Claim:
        promote_most = 2 if name == "d3" else 1_000
        # what may stand by is the next claim in the same place
        if name not in self.following:
            self.following[name] = self.driver.new_nonce(name), 1 + n % 2
        nonce, place = self.following.pop(name)
        following = self.driver.new_nonce(name) if stands_by else ""
        if following:
            self.following[name] = following, place
        claim = Claim(
            name, nonce, n, suspects, lease_ms, HEARTBEAT_MS, promote_most, LANES, policy, place, following, ahead_us
        )
        self.last_claim[name, place] = claim
        if settling:
            self.last_settled = settling
            self.driver.exchange(settling, claim)
        else:
            self.driver.claim(claim)
        if self.driver.model.dispatchers[name].standby is None:
            self.following.pop(name, None)
        return claim

    def _settle(self, items: list[Settlement]) -> None:
        self.last_settled = items
        self.driver.settle(items)


def _settlement(job: Job, it: Ending) -> Settlement:
    token = "1:d9.9" if it.bogus else job.token
    if it.outcome == "parked":
        return Settlement(job.job_id, token, it.outcome, 1_000 + it.delay_ms, "900")
    result = '"done"' if it.which % 2 else ""
    return Settlement(job.job_id, token, it.outcome, it.delay_ms, it.reason, result, '{"type":"broken"}')
