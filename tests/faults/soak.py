"""`python -m tests.faults.soak [--minutes 30] [--seed N]`: random faults for long; memory, descriptors, connections and
keys must stay flat.

Prints a line every few seconds. The last quarter is compared with the second: the first one is for caches to fill. What
was acknowledged is long past its retention in the end, so the scripts' exact counters say whether all of it was taken
in once and came to an end.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.store import Store
from tests.faults.checker import Facts, check, check_end
from tests.faults.history import STOOD_STILL
from tests.faults.load import mixed
from tests.faults.places import placed
from tests.faults.rows.servers import suspended
from tests.faults.rows.targets import rss_mb
from tests.faults.stage import Setup, Stage, on_stage
from tests.store.site import LANES

SAMPLE_S = 5.0
GROWTH_MOST = 1.15
SETUP = Setup(
    slots=8,
    dispatchers=3,
    proxied=True,
    gateway={"max_stalls": 100, "idempotency_window": "20s"},
    config='\n[retention]\nfinished_max = 500\nfinished = "30s"\n',
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What could grow: of the gateway and of one dispatcher, which live through all of it, and of Redis."""

    gateway_mb: float
    gateway_descriptors: int
    dispatcher_mb: float
    dispatcher_descriptors: int
    connections: int
    keys: int
    redis_mb: float


def sample(stage: Stage) -> Sample:
    assert stage.api is not None
    lasting = stage.dispatchers[0]
    with stage.place.server.client() as client:
        connections = int(client.info("clients")["connected_clients"])
        memory = int(client.info("memory")["used_memory"])
        keys = client.dbsize()
    own = (rss_mb(pid := stage.api.pid), descriptors(pid), rss_mb(lasting.pid), descriptors(lasting.pid))
    return Sample(*own, connections, keys, memory / 1e6)


def descriptors(pid: int) -> int:
    """Open files of a process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def any_seat(stage: Stage) -> int:
    """A dispatcher that may end: any but the first, which is watched."""
    return stage.draw.randrange(1, len(stage.dispatchers))


def kill_dispatcher(stage: Stage) -> None:
    seat = any_seat(stage)
    stage.dispatchers[seat].kill()
    stage.replace_dispatcher(seat)


def suspend_dispatcher(stage: Stage) -> None:
    victim = stage.draw.choice(stage.dispatchers)
    with stage.fault(STOOD_STILL):
        victim.signal(signal.SIGSTOP)
        stage.pause(0.5, 2.0)
        victim.signal(signal.SIGCONT)


def drain_dispatcher(stage: Stage) -> None:
    seat = any_seat(stage)
    stage.dispatchers[seat].stop()
    stage.replace_dispatcher(seat)


def kill_server(stage: Stage) -> None:
    stage.place.server.kill()
    stage.pause(0.0, 1.0)
    stage.place.server.start()


def suspend_server(stage: Stage) -> None:
    with suspended(stage.place.server):
        stage.pause(0.2, 2.0)


def flush_scripts(stage: Stage) -> None:
    with stage.place.server.client() as client:
        client.script_flush()
        client.function_flush()


def kill_clients(stage: Stage) -> None:
    with stage.place.server.client() as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def tear(stage: Stage) -> None:
    assert stage.proxy is not None
    stage.background.run(stage.proxy.reset())


def delay(stage: Stage) -> None:
    assert stage.proxy is not None
    stage.proxy.toxics.latency_s = 0.03
    stage.pause(1.0, 3.0)
    stage.proxy.toxics.latency_s = 0.0


FAULTS: tuple[Callable[[Stage], None], ...] = (
    kill_dispatcher, suspend_dispatcher, drain_dispatcher, kill_server, suspend_server, flush_scripts, kill_clients,
    tear, delay,
)  # fmt: skip


def soak(stage: Stage, minutes: float) -> list[Sample]:
    """Faults at random, a few seconds apart, and a sample every so often."""
    samples: list[Sample] = []
    until_s = time.monotonic() + minutes * 60
    next_s = 0.0
    struck = 0
    with stage.load(mixed, every_s=0.1) as load:
        while time.monotonic() < until_s:
            stage.draw.choice(FAULTS)(stage)
            struck += 1
            stage.pause(1.0, 4.0)
            if time.monotonic() > next_s:
                samples.append(sample(stage))
                next_s = time.monotonic() + SAMPLE_S
                print(f"{struck} faults, {len(load.acknowledged)} acknowledged, {samples[-1]}", flush=True)
    return samples


def growth(samples: list[Sample]) -> list[str]:
    """What grew between the second quarter and the last."""
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    said = []
    for name in Sample.__dataclass_fields__:
        before, after = (statistics.median(getattr(each, name) for each in part) for part in (early, late))
        print(f"{name}: {before:,.1f} → {after:,.1f}")
        if after > before * GROWTH_MOST + 5:
            said.append(f"{name} grew from {before:,.1f} to {after:,.1f}")
    return said


async def check_counts(stage: Stage, acknowledged: int, facts: Facts) -> None:
    """Each acknowledged job was taken in once, and each came to one end; callbacks aside."""
    store = await Store.open(stage.place.url, lanes=LANES)
    try:
        counters = (await store.inspect()).counters
    finally:
        await store.aclose()
    for events in (("submitted",), ("succeeded", "dead", "cancelled")):
        own = (name for name in counters if name.split(":")[0] in events and not name.endswith(":gateway.callback"))
        count = sum(counters[name] for name in own)
        print(f"{' or '.join(events)}: {count:,} of {acknowledged:,} acknowledged")
        if count != acknowledged:
            facts.breach("I1", f"{count} jobs {' or '.join(events)}, {acknowledged} were acknowledged")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with placed("standalone", SETUP.server) as place, on_stage(place, SETUP, seed=seed) as stage:
        samples = soak(stage, given.minutes)
        acknowledged = stage.acked
        # retention has taken most of them away: what is left is checked, not what was
        for load in stage.loads:
            load.acknowledged, load.tags = [], {}
        facts = check(stage, lost_most=acknowledged)
        asyncio.run(check_counts(stage, acknowledged, facts))
        check_end(stage, facts)
    said = [*growth(samples), *facts.breaches]
    print(f"{acknowledged} acknowledged in {given.minutes:g} minutes; {'; '.join(said) or 'all flat'}")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
