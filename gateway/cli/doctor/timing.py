"""Do the clocks agree, and is Redis near?"""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncIterator, Callable

from gateway.cli.doctor.finding import Finding, Level, Patient
from gateway.store.examine import round_trips, server_times

SKEW_S = 5.0
SKEW_MOST_S = 60.0
SLOW_S = 0.02
"""Far above a network of one's own; every claim, settlement and submit waits for it."""

_PINGS = 20


async def check_clock(patient: Patient, clock: Callable[[], float] = time.time) -> AsyncIterator[Finding]:
    """Schedules, leases and retries go by Redis's clock, signatures by this machine's: are they the same?"""
    for at_s in await server_times(patient.store):
        apart_s = abs(at_s - clock())
        if apart_s <= SKEW_S:
            yield Finding("ok", f"Redis's clock and this machine's agree ({apart_s:.1f} s apart)")
            continue
        mend = "run an NTP service (chrony, systemd-timesyncd) on both; signed deliveries are refused at 300 s"
        level: Level = "fault" if apart_s > SKEW_MOST_S else "warning"
        yield Finding(level, f"Redis's clock and this machine's are {apart_s:.0f} s apart: {mend}")


async def check_latency(patient: Patient, clock: Callable[[], float] = time.perf_counter) -> AsyncIterator[Finding]:
    """How long does a round trip to Redis take?"""
    took = await round_trips(patient.store, _PINGS, clock)
    median_s = statistics.median(took)
    figures = f"{median_s * 1000:.2f} ms in the median, {max(took) * 1000:.2f} ms at most, of {_PINGS}"
    if median_s > SLOW_S:
        yield Finding("warning", f"a round trip to Redis takes {figures}: move the gateway and Redis closer together")
    else:
        yield Finding("ok", f"a round trip to Redis takes {figures}")
