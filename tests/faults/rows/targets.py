"""Rows about targets and payloads: silent, hostile or unreachable ones, programs that will not end, jobs that kill."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tests.faults.load import short, steady
from tests.faults.rows import EVERYWHERE, Injected, row
from tests.faults.stage import Setup, Stage
from tests.waiting import until_sync

SLOTS = 30
HTTP = """
[targets.{name}]
executor = "http"
url = "{url}"
timeout = "1s"
breaker = false
retry = {{ policy = "fixed", base = "50ms", cap = "1s", max_attempts = 2 }}
limit = {{ concurrency = 10 }}
"""
RECEIVER = "http://127.0.0.1:{receiver}"
HOSTILE = ("bomb", "headers", "endless", "truncated", "informational", "redirect")


def http_targets(**urls: str) -> str:
    """Targets that are called over HTTP, by name."""
    made = ""
    for name, url in urls.items():
        # formatted once more later, for the receiver's port: only the URL's braces are meant
        made += HTTP.format(name=name, url="URL").replace("{", "{{").replace("}", "}}").replace("URL", url)
    return made


def submit(stage: Stage, *jobs: dict[str, Any]) -> list[str]:
    """Submits jobs beside the load, and counts them as acknowledged."""
    ids = stage.installation.submit_many(list(jobs))
    stage.recorder.note("ack", ids)
    stage.loads[0].acknowledged += ids
    return ids


def await_over(stage: Stage, ids: list[str]) -> list[dict[str, Any]]:
    """The records of jobs, once all of them are over."""
    return [stage.installation.ended(job_id, timeout_s=60) for job_id in ids]


def slowest_s(stage: Stage, since_ns: int) -> float:
    """The 99th percentile of how long plain jobs waited between their acknowledgement and their first run."""
    starts = stage.history().by_job("start")
    waits = sorted(
        starts[event.job][0].ns - event.ns
        for event in stage.history().of("ack")
        if event.ns > since_ns and event.job in starts
    )
    return max(0, waits[len(waits) * 99 // 100]) / 1e9


@row(
    "18",
    "targets that never answer, or a byte at a time",
    on=EVERYWHERE,
    setup=Setup(slots=SLOTS, config=http_targets(hole=f"{RECEIVER}/hole", drip=f"{RECEIVER}/drip")),
)
def silent_targets(stage: Stage) -> Injected:
    with stage.load(short):
        stage.await_acks(50)
        with stage.fault("silence"):
            begin = stage.recorder.note("fault")
            ids = submit(stage, *[{"target": name, "payload": {}} for name in ("hole", "drip") for _ in range(40)])
            stage.await_acks(300)
            worst_s = slowest_s(stage, begin)
        records = await_over(stage, ids)
    injected = Injected("80 jobs for silent targets beside the load", len(ids))
    ends = {(record["status"], record["error"]["type"]) for record in records}
    injected.expect(ends == {("dead", "timeout")}, f"ended as {ends}")
    injected.expect(worst_s < 1.0, f"other targets' jobs waited {worst_s:.2f} s")
    injected.notes = f"p99 of other targets' wait {worst_s * 1000:.0f} ms"
    return injected


@row(
    "19",
    "hostile targets",
    on=EVERYWHERE,
    setup=Setup(slots=SLOTS, dispatchers=1, config=http_targets(**{name: f"{RECEIVER}/{name}" for name in HOSTILE})),
)
def hostile_targets(stage: Stage) -> Injected:
    with stage.load(short):
        stage.await_acks(50)
        pid = stage.dispatchers[0].pid
        before_mb = rss_mb(pid)
        ids = submit(stage, *[{"target": name, "payload": {}} for name in HOSTILE for _ in range(5)])
        records = await_over(stage, ids)
        grown_mb = rss_mb(pid) - before_mb
    injected = Injected("bombs, 10 MB of headers, endless and torn bodies, redirects home", len(ids))
    injected.expect(grown_mb < 60, f"the dispatcher grew by {grown_mb:.0f} MB")
    injected.expect(all(record["status"] in ("dead", "succeeded") for record in records), "not over")
    hit = stage.receiver.requests
    injected.expect(not any(each.path == "/forbidden" for each in hit), "a redirect was followed")
    injected.notes = f"the dispatcher grew by {max(0.0, grown_mb):.0f} MB"
    return injected


def rss_mb(pid: int) -> float:
    """Resident memory of a process."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@row(
    "20",
    "names that do not exist, and addresses that must not be reached",
    on=EVERYWHERE,
    setup=Setup(
        slots=SLOTS,
        config=http_targets(
            nowhere="http://no-such-host.invalid/", inside="http://10.1.2.3/", meta="http://169.254.169.254/"
        ),
    ),
)
def unreachable_targets(stage: Stage) -> Injected:
    with stage.load(short):
        stage.await_acks(50)
        begin = stage.recorder.note("fault")
        ids = submit(
            stage, *[{"target": name, "payload": {}} for name in ("nowhere", "inside", "meta") for _ in range(10)]
        )
        stage.await_acks(200)
        worst_s = slowest_s(stage, begin)
        records = await_over(stage, ids)
    injected = Injected("30 such jobs beside the load", len(ids))
    ends = {(record["target"], record["reason"], record["error"]["type"]) for record in records}
    right = {("nowhere", "exhausted", "dns"), ("inside", "fatal", "egress_denied"), ("meta", "fatal", "egress_denied")}
    injected.expect(ends == right, f"ended as {ends}")
    injected.expect(worst_s < 1.0, f"other targets' jobs waited {worst_s:.2f} s")
    return injected


PROGRAM = Path(__file__).with_name("program.py")
PROGRAMS = ("fork", "escape", "flood", "deaf")
COMMANDS = "".join(
    f"""
[targets.{name}]
executor = "command"
argv = ["{sys.executable}", "{PROGRAM}", "{name}"]
timeout = "1s"
retry = {{{{ policy = "fixed", base = "50ms", cap = "1s", max_attempts = 1 }}}}
"""
    for name in PROGRAMS
)


@row(
    "22", "programs that fork, escape, flood and do not hear", on=EVERYWHERE, setup=Setup(slots=SLOTS, config=COMMANDS)
)
def stubborn_programs(stage: Stage) -> Injected:
    with stage.load(short):
        stage.await_acks(50)
        ids = submit(stage, *[{"target": name, "payload": {}} for name in PROGRAMS for _ in range(3)])
        records = await_over(stage, ids)
        stage.await_acks(50)
    injected = Injected("12 of them, each killed at its deadline", len(ids))
    ends = {(record["target"], record["status"]) for record in records}
    injected.expect({status for _, status in ends} <= {"dead", "succeeded"}, f"ended as {ends}")
    left: list[int] = []

    def gone() -> bool:
        left[:] = programs()
        return not left

    try:
        until_sync(gone, timeout_s=60)
    except TimeoutError:
        injected.expect(False, f"programs are left: {left}")
    return injected


def programs() -> list[int]:
    """Every living process of the programs above, found without the code under test."""
    found = []
    for proc in Path("/proc").glob("[0-9]*"):
        try:
            if str(PROGRAM).encode() in (proc / "cmdline").read_bytes():
                found.append(int(proc.name))
        except OSError:
            continue
    return found


@row(
    "24",
    "poison: a job that kills whoever runs it, results that no JSON can say",
    on=EVERYWHERE,
    setup=Setup(slots=4, gateway={"max_stalls": 2}),
)
def poison(stage: Stage) -> Injected:
    deaths = 0
    whats = ("nan", "set", "bytes", "surrogate")
    deep: Any = 0
    for _ in range(60):
        deep = [deep]
    with stage.load(steady):
        stage.await_acks(30)
        ids = submit(stage, *[{"target": "misbehave", "payload": {"what": what}} for what in whats])
        odd = submit(stage, {"target": "work", "payload": {"deep": deep, "big": 2**64, "float": 1.0}})
        killer = submit(stage, {"target": "end_process", "payload": {}})[0]
        until_s = time.monotonic() + 90
        while stage.installation.record(killer)["status"] != "dead":
            assert time.monotonic() < until_s, stage.installation.record(killer)
            for at, dispatcher in enumerate(stage.dispatchers):
                if dispatcher.ended:
                    deaths += 1
                    stage.replace_dispatcher(at)
            time.sleep(0.1)
        stage.await_acks(30)
    injected = Injected("a job that ends its process; NaN, sets, bytes and surrogates as results", 1 + len(ids))
    injected.in_flight = (deaths + 1) * 4 + 3
    record = stage.installation.record(killer)
    injected.expect(record["reason"] == "stalled", f"the killer died of {record['reason']}")
    ends = {(each["status"], bool(each.get("error"))) for each in await_over(stage, ids)}
    injected.expect(ends == {("dead", True)}, f"results that are none ended as {ends}")
    injected.expect(await_over(stage, odd)[0]["status"] == "succeeded", "a deep payload did not succeed")
    injected.notes = f"the killer took {deaths} dispatchers with it and died; its bystanders did not"
    return injected
