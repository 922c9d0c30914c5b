"""Rows about our own processes: killed, stopped, drained, and many jobs that come due at once."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime, timedelta

from gateway.keys import Keyspace
from tests.e2e.installation import Process
from tests.faults.history import STOOD_STILL
from tests.faults.load import short, steady
from tests.faults.rows import EVERYWHERE, SENTINEL, STANDALONE, Injected, row
from tests.faults.stage import Setup, Stage
from tests.waiting import until_sync

SLOTS = 6
HERD = 10_000
HERD_SLOTS = 50


def runs_of(stage: Stage, pid: int) -> tuple[int, int]:
    """How many runs a process began, and ended."""
    history, mine = stage.history(), f"{pid}."
    began, ended = (sum(event.run.startswith(mine) for event in history.of(kind)) for kind in ("start", "end"))
    return began, ended


def await_runs(stage: Stage, pid: int, *, began: int = 0, ended: int = 0) -> None:
    """Returns once a process began, or ended, so many runs more."""
    before = runs_of(stage, pid)

    def enough() -> bool:
        now = runs_of(stage, pid)
        return now[0] >= before[0] + began and now[1] >= before[1] + ended

    until_sync(enough, timeout_s=60)


@row("1", "kill -9 of a dispatcher in the middle of a batch", on=EVERYWHERE, setup=Setup(slots=SLOTS))
def kill_dispatcher(stage: Stage) -> Injected:
    kills = 6
    with stage.load(steady):
        for at in range(kills):
            victim = stage.dispatchers[at % 2]
            victim.await_line("dispatcher started")
            await_runs(stage, victim.pid, began=1, ended=int(at % 3 == 2))
            if at % 3 == 1:
                stage.pause(0.0, 0.15)
            with stage.fault("kill -9"):
                victim.kill()
            stage.replace_dispatcher(at % 2)
        stage.await_acks(50)
    return Injected("kill -9 at the begin, in the midst and at the end of runs", kills, in_flight=kills * SLOTS)


@row("2", "a dispatcher stands still for longer than its lease", on=EVERYWHERE, setup=Setup(slots=SLOTS))
def suspend_dispatcher(stage: Stage) -> Injected:
    stops, victim = 2, stage.dispatchers[0]
    with stage.load(steady):
        for _ in range(stops):
            await_runs(stage, victim.pid, began=3)
            with stage.fault(STOOD_STILL):
                victim.signal(signal.SIGSTOP)
                time.sleep(2.5)  # the fault itself
                victim.signal(signal.SIGCONT)
            stage.await_acks(50)
        await_runs(stage, victim.pid, began=1)
    injected = Injected("SIGSTOP for 2.5 leases, then SIGCONT", stops, in_flight=stops * SLOTS)
    refused = len(victim.lines("outcome refused"))
    injected.notes = f"{refused} late outcomes refused"
    injected.expect(refused > 0, "no late outcome was refused")
    return injected


@row(
    "3",
    "a dispatcher is asked to stop while it works",
    on=EVERYWHERE,
    setup=Setup(slots=SLOTS, gateway={"drain": "2s"}),
)
def drain_dispatcher(stage: Stage) -> Injected:
    drains, codes = 4, []
    with stage.load(steady):
        for at in range(drains):
            victim = stage.dispatchers[at % 2]
            victim.await_line("dispatcher started")
            await_runs(stage, victim.pid, began=2)
            with stage.fault("SIGTERM"):
                codes.append(victim.stop())
            stage.replace_dispatcher(at % 2)
        stage.await_acks(50)
    injected = Injected("SIGTERM under load, 2 s to drain", drains)
    injected.expect(codes == [0] * drains, f"exit codes {codes}")
    return injected


@row(
    "3b",
    "dispatchers that wait for single jobs are killed, stand still, and are asked to stop",
    on=(*STANDALONE, *SENTINEL),
    setup=Setup(slots=2, dispatchers=3, lease="10s", gateway={"drain": "2s"}),
)
def strike_waiting(stage: Stage) -> Injected:
    """A submit hands its job straight to the one that has waited longest, whatever becomes of that one."""
    strikes, codes = 12, []
    with stage.load(short, batch=1):
        for at in range(strikes):
            seat = at % 3
            victim = stage.dispatchers[seat]
            await_standby(stage, victim)
            stage.pause(0.0, 0.05)
            if at % 4 == 0:
                with stage.fault(STOOD_STILL):
                    victim.signal(signal.SIGSTOP)
                    stage.pause(0.5, 3.0)
                    victim.signal(signal.SIGCONT)
                continue
            with stage.fault("SIGTERM" if at % 2 else "kill -9"):
                if at % 2:
                    codes.append(victim.stop())
                else:
                    victim.kill()
            stage.replace_dispatcher(seat)
        stage.await_acks(50)
    kills = strikes // 4
    injected = Injected("SIGSTOP for 0.5 to 3 s, SIGTERM, kill -9", strikes, in_flight=kills * 2)
    injected.expect(codes == [0] * len(codes), f"exit codes {codes}")
    return injected


def await_standby(stage: Stage, dispatcher: Process) -> None:
    """Returns once its next claim is left with the server, for a submit to make."""
    key = f"{Keyspace('default', 0).prefix}standby:{dispatcher.await_line('dispatcher started')['dispatcher']}"
    with stage.place.holding(key).client() as client:
        until_sync(lambda: client.exists(key) == 1, timeout_s=60, every_s=0.001)


@row("21", "wall clocks jump", on=EVERYWHERE, setup=Setup(dispatchers=0))
def jump_clock(stage: Stage) -> Injected:
    """Leases, retries and delays go by Redis's clock: nothing may be early, late or lost."""
    folder = stage.installation.folder
    (folder / "clock").mkdir()
    (folder / "clock" / "sitecustomize.py").write_text(_CLOCK)
    (folder / "offset").write_text("0")
    env = {"GATEWAY_REDIS_URL": stage.url, "PYTHONPATH": str(folder / "clock")}
    stage.dispatchers = [stage.installation.start("dispatch", env=env) for _ in range(2)]
    for each in stage.dispatchers:
        each.await_line("dispatcher started")
    jumps = ("3600", "-3600", "0", "86400")
    with stage.load():
        for offset in jumps:
            stage.await_acks(60)
            with stage.fault(f"{offset}_s"):
                (folder / "offset").write_text(offset)
        stage.await_acks(60)
    injected = Injected("±1 h and +1 d on every dispatcher's wall clock", len(jumps))
    injected.expect(stage.reclaimed() == 0, f"{stage.reclaimed()} jobs were taken back, and no dispatcher was lost")
    return injected


_CLOCK = """
import time

_time, _time_ns = time.time, time.time_ns

def _offset():
    try:
        return int(open("offset").read() or 0)
    except (OSError, ValueError):
        return 0

time.time = lambda: _time() + _offset()
time.time_ns = lambda: _time_ns() + _offset() * 1_000_000_000
"""


@row(
    "26", "a herd: all due at one instant, then all leases run out at one", on=EVERYWHERE, setup=Setup(slots=HERD_SLOTS)
)
def herd(stage: Stage) -> Injected:
    due = datetime.now(UTC) + timedelta(seconds=15)
    job = {"target": "work", "payload": {"s": 0}, "run_at": due.isoformat()}
    load = stage.load(steady)
    for _ in range(HERD // 500):
        ids = stage.installation.submit_many([job] * 500)
        stage.recorder.note("ack", ids)
        load.acknowledged += ids
    until_sync(lambda: datetime.now(UTC) > due, timeout_s=60)
    began_s = time.monotonic()
    until_sync(lambda: len(stage.history().of("end")) >= HERD, timeout_s=120, every_s=0.1)
    took_s = time.monotonic() - began_s
    with load:
        until_sync(lambda: len(stage.history().of("start")) > HERD + 2 * HERD_SLOTS, timeout_s=60, every_s=0.1)
        with stage.fault("kill -9 of all"):
            for at, victim in enumerate(stage.dispatchers):
                victim.kill()
                stage.replace_dispatcher(at)
        stage.await_acks(50)
    injected = Injected(f"{HERD:,} jobs due at once; kill -9 of every dispatcher at once", 2, in_flight=2 * HERD_SLOTS)
    injected.notes = f"the {HERD:,} were done {took_s:.1f} s after they were due"
    return injected
