"""The end of a life: every limit lets go in time, so all that waits gets done, and nothing is left behind."""

from __future__ import annotations

from gateway.jobs import Settlement
from tests.model.claims import Claim
from tests.model.driver import LANES, Driver
from tests.model.model import Broken
from tests.model.transitions import Retention

ROUNDS = 2000
LEFT = (
    "counted", "conf", "gist", "credit", "seq", "state", "stats", "test:", "ft:", "fb:", "earlier:", "dispatcher",
    "idle",
)  # fmt: skip


def drain(driver: Driver) -> None:
    """Works all jobs off, waiting as long as the engine says; Broken if it never ends or leaves something."""
    for lane in list(driver.model.paused_lanes):
        driver.pause_lane(lane, False)
    for target in list(driver.model.targets):
        driver.control(target, {"paused": 0, "open_until": 0})
    for _ in range(ROUNDS):
        if not _work(driver):
            break
    else:
        raise Broken(f"{ROUNDS} claims and waits, and still jobs are left")
    driver.advance(100_000_000)
    driver.upkeep(Retention(0, 0, 0, 1_000_000))
    left = [
        name
        for name in (*driver.snapshot.hashes, *driver.snapshot.zsets, *driver.snapshot.strings)
        if not name.startswith(LEFT)
    ]
    if left:
        raise Broken(f"all is done, and there is left: {left}")


def _work(driver: Driver) -> bool:
    """One claim, its jobs done at once, or a wait until the next is due; False when there is nothing more."""
    claim = Claim("d1", driver.new_nonce("d1"), 50, True, 30_000, 30_000, 1_000, LANES)
    taken = driver.claim(claim)
    running = driver.model.with_status("running")
    if running:
        driver.settle([Settlement(job.job_id, job.token, "succeeded") for job in running])
    if taken or running:
        return True
    due = min(driver.snapshot.zset("due").values(), default=None)
    if due is None:
        if waiting := driver.model.with_status("pending"):
            raise Broken(f"nothing runs and nothing is due, and yet there wait {[job.queue for job in waiting]}")
        return False
    driver.advance(max(0, due - driver.model.now_us))
    return True
