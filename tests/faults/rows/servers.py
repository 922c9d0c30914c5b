"""Rows about the server: killed, stopped, out of memory or disk, its file torn, a foreign script in its way."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import redis

from gateway.errors import StoreError
from gateway.jobs import Submission
from gateway.keys import Keyspace
from gateway.store import Store, Worker
from gateway.store.scripts import script
from tests.faults.load import Load, short
from tests.faults.rows import EVERYWHERE, SENTINEL, Injected, row
from tests.faults.rows.failover import LAGGING, REPLICA
from tests.faults.stage import Setup, Stage
from tests.proxy import Proxy, load_scripts
from tests.servers import Server
from tests.waiting import until_sync

SLOTS = 6
BOTH = 2 * SLOTS
"""What both dispatchers run: their leases may run out while Redis is away, and then all of it runs again."""

BATCHES = 10
"""Jobs in the two batches that may be under way at once."""


PUT_OFF_NS = 2_000_000_000
"""For so long a server with `everysec` puts off what it has to append, while an fsync is under way."""

ANSWERED_NS = 200_000_000
"""An answer that Redis gave just before its end is noted so much later at most."""


def safe_load(stage: Stage) -> Load:
    """A load that survives if a busy machine has the server replaced, which some of these faults are close to."""
    return stage.load() if stage.place.topology == "standalone" else stage.load(headers=REPLICA)


def survived(stage: Stage, injected: Injected) -> Injected:
    """What a fault on any one server may cost, by `safe_load`."""
    injected.forked = stage.place.topology != "standalone"
    injected.in_flight = injected.times * (BOTH + (LAGGING if injected.forked else 0))
    return injected


def any_server(stage: Stage) -> Server:
    """The one that holds a partition drawn at random."""
    return stage.place.holding(Keyspace("default", stage.draw.randrange(stage.place.partitions)).prefix)


@row("4", "kill -9 of Redis (AOF everysec), started again", on=EVERYWHERE)
def kill_server(stage: Stage) -> Injected:
    """In a group: before anybody takes its place."""
    injected = Injected("kill -9 under load", 3)
    put_off: list[tuple[int, int]] = []
    with safe_load(stage):
        for _ in range(injected.times):
            stage.await_acks(60)
            stage.pause(0.0, 0.2)
            server = any_server(stage)
            with stage.fault("kill -9"):
                is_put_off, asked_ns = puts_off_writes(server), time.monotonic_ns()
                server.kill()
                if is_put_off:
                    put_off.append((asked_ns - PUT_OFF_NS, time.monotonic_ns()))
                stage.pause(0.0, 0.5 if stage.place.topology == "standalone" else 0.1)
                server.start()
        stage.await_acks(60)
    return unwritten(stage, survived(stage, injected), put_off)


def puts_off_writes(server: Server) -> bool:
    """Whether an fsync is under way, during which the server answers, and keeps what it would append to itself."""
    with server.client() as client:
        return bool(client.info("persistence").get("aof_pending_bio_fsync"))


def unwritten(stage: Stage, injected: Injected, put_off: Sequence[tuple[int, int]]) -> Injected:
    """What was not written yet when a server was killed, from when to when: what was acknowledged then may be gone, and
    what ended then may run again."""
    for first_ns, last_ns in put_off:
        events = [each for each in stage.history().events if first_ns <= each.ns]
        injected.unwritten |= {each.job for each in events if each.kind == "ack" and each.ns <= last_ns + ANSWERED_NS}
        injected.in_flight += sum(each.kind == "end" and each.ns <= last_ns for each in events)
    if put_off:
        injected.notes = f"{len(put_off)} of the kills came while an fsync was under way"
    return injected


@row("5", "the end of the AOF is torn off")
def tear_file(stage: Stage) -> Injected:
    server = stage.place.server
    with stage.load():
        stage.await_acks(100)
        with stage.fault("torn"):
            server.kill()
            file = _aof(server)
            with file.open("r+b") as opened:
                opened.truncate(file.stat().st_size - 7)
            server.start()
        stage.await_acks(60)
    return Injected("kill -9, 7 bytes cut off", 1, in_flight=BOTH, lost_most=BATCHES)


@row("6", "the AOF is damaged in the middle")
def damage_file(stage: Stage) -> Injected:
    """Redis refuses to start: the gateway stays, says 503, and nobody spins; then the file is put back."""
    server = stage.place.server
    injected = Injected("kill -9, 16 bytes overwritten, put back 4 s later", 1, in_flight=BOTH)
    with stage.load():
        stage.await_acks(100)
        with stage.fault("damaged"):
            server.kill()
            file, kept = _aof(server), server.directory / "kept.aof"
            shutil.copy(file, kept)
            with file.open("r+b") as opened:
                data = opened.read()
                opened.seek(data.index(b"\r\n*", len(data) // 2))  # inside of a value it would not be noticed
                opened.write(b"\x00" * 16)
            with contextlib.suppress(RuntimeError):
                server.start()
                injected.expect(False, "Redis started on a damaged file")
            _expect_calm(stage, injected)
            shutil.copy(kept, file)
            server.start()
        stage.await_acks(60)
    return injected


def _expect_calm(stage: Stage, injected: Injected) -> None:
    """While Redis is away: not ready, still alive, and no process busy."""
    processes = [*stage.dispatchers, *([stage.api] if stage.api else [])]
    before_s = [_cpu_s(process.pid) for process in processes]
    began_s = time.monotonic()
    until_sync(lambda: time.monotonic() > began_s + 3, timeout_s=60)
    used = [(_cpu_s(process.pid) - before) / 3 for process, before in zip(processes, before_s, strict=True)]
    injected.expect(max(used) < 0.3, f"busy while Redis is away: {used} of a core")
    injected.expect(not stage.ready(), "ready without Redis")
    injected.expect(stage.installation.client.get("/livez").status_code == 200, "not alive without Redis")
    injected.notes = f"busiest process {max(used):.0%} of a core meanwhile"


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@row("7", "Redis keeps nothing on disk, and is killed", setup=Setup(server=()))
def forget_everything(stage: Stage) -> Injected:
    server = stage.place.server
    with stage.load() as load:
        stage.await_acks(100)
        with stage.fault("kill -9"):
            server.kill()
            before = len(load.acknowledged)
            server.start()
        stage.await_acks(60)
    injected = Injected("kill -9, started empty", 1, in_flight=BOTH, lost_most=before + BATCHES)
    injected.notes = "all that was there is lost, as must be; what came later is not"
    return injected


@row("9", "too few replicas", on=SENTINEL)
def lose_replicas(stage: Stage) -> Injected:
    group = stage.place.sentinels
    primary = group.primary
    with primary.client() as client:
        client.config_set("min-replicas-to-write", 1)
        client.config_set("min-replicas-max-lag", 1)
    with stage.load() as load:
        stage.await_acks(60)
        refused = load.refused
        with stage.fault("no replica"):
            for server in group.servers:
                if server is not primary:
                    server.kill()
            until_sync(lambda: load.refused > refused + 3, timeout_s=60)
            for server in group.servers:
                if not server.started:
                    server.start()
        stage.await_acks(60)
    injected = Injected("min-replicas-to-write 1, both replicas killed and started again", 1, in_flight=BOTH)
    injected.expect(load.refused > refused, "nothing was refused")
    return injected


@row("10", "Redis is at maxmemory (noeviction)", on=EVERYWHERE)
def fill_memory(stage: Stage) -> Injected:
    """New work is refused, what is there goes on to its end, and room alone brings it all back."""
    injected, headers = Injected("maxmemory below what is used, then above it", 2), {}
    if stage.place.topology == "cluster":  # filling three servers keeps each of them busy, and may have one replaced
        injected, headers = survived(stage, injected), REPLICA
    with stage.load(batch=20, headers=headers) as load, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.client()) for server in stage.place.servers()]
        ballast = [_own_key(stage, client) for client in clients]
        for client, key in zip(clients, ballast, strict=True):
            _limit_memory(client, 0)
            client.eval("redis.call('SET', KEYS[1], string.rep('x', 2e7))", 1, key)
        for _ in range(2):
            stage.await_acks(100)
            refused = load.refused
            with stage.fault("full"):
                for client in clients:
                    _limit_memory(client, -10_000_000)
                until_sync(lambda: load.refused > refused + 5, timeout_s=60)  # noqa: B023
                until_sync(lambda: _idle(stage), timeout_s=60, every_s=0.1)
                for client in clients:
                    _limit_memory(client, 5_000_000)
        stage.await_acks(60)
        for key in ballast:
            with stage.place.holding(key).client() as client:
                client.delete(key)
        stage.await_acks(60)
    injected.expect(load.torn == 0, f"{load.torn} requests got no answer")
    return injected


def _limit_memory(client: redis.Redis, beyond: int) -> None:
    """Sets the limit so far beyond what is used now; 0: none."""
    client.config_set("maxmemory", max(1, client.info("memory")["used_memory"] + beyond) if beyond else 0)


def _own_key(stage: Stage, client: redis.Redis) -> str:
    """A key that this server holds."""
    port = client.connection_pool.connection_kwargs.get("port")
    prefixes = (Keyspace("ballast", partition).prefix for partition in range(1000))
    return next(prefix for prefix in prefixes if not port or stage.place.holding(prefix).port == port)


def _idle(stage: Stage) -> bool:
    """Nothing runs and nothing waits, but what is due later."""
    for partition in range(stage.place.partitions):
        prefix = Keyspace("default", partition).prefix
        with stage.place.holding(prefix).client() as client:
            waiting = client.hgetall(f"{prefix}waiting")
            if any(int(n) for field, n in waiting.items() if ":" not in field) or client.zcard(f"{prefix}leases"):
                return False
    return True


@row(
    "11",
    "a wrong eviction policy",
    on=EVERYWHERE,
    setup=Setup(server=("--maxmemory-policy", "allkeys-lru"), serve=False),
)
def wrong_policy(stage: Stage) -> Injected:
    injected = Injected("allkeys-lru at the start", 2)
    for command in (("serve", "--port", "0"), ("dispatch",)):
        process = stage.installation.start(*command, env={"GATEWAY_REDIS_URL": stage.url})
        injected.expect(process.wait(60) == 78, f"{command[0]} did not refuse to start")
        injected.expect("noeviction" in process.log.read_text(), f"{command[0]} does not name the mend")
    injected.notes = "both commands refuse to start, with the mend"
    return injected


@row(
    "13",
    "a foreign script keeps Redis busy",
    on=EVERYWHERE,
    setup=Setup(server=("--appendonly", "yes", "--lua-time-limit", "100")),
)
def busy_server(stage: Stage) -> Injected:
    """In a group: not for so long that it is replaced."""
    times, most_s = 3, 2.0 if stage.place.topology == "standalone" else 0.8
    with safe_load(stage):
        for _ in range(times):
            stage.await_acks(60)
            server = any_server(stage)
            with stage.fault("BUSY"), server.client() as client:
                script = threading.Thread(target=_spin, args=(server,))
                script.start()
                stage.pause(0.5, most_s)
                with contextlib.suppress(redis.ResponseError):  # a Sentinel may have done it already
                    client.execute_command("SCRIPT KILL")
                script.join(10)
        stage.await_acks(60)
    return survived(stage, Injected(f"`while true do end` for 0.5 to {most_s:.1f} s, then SCRIPT KILL", times))


def _spin(server: Server) -> None:
    with server.client(timeout_s=30) as client, contextlib.suppress(redis.RedisError):
        client.eval("while true do end", 0)


@row("14", "Redis stands still", on=EVERYWHERE)
def suspend_server(stage: Stage) -> Injected:
    """In a group: not for so long that it is replaced, which is row 8b."""
    stops = (0.3, 1.0, 1.0, 3.0) if stage.place.topology == "standalone" else (0.3, 0.6, 0.6)
    with safe_load(stage):
        for stop_s in stops:
            stage.await_acks(60)
            stage.pause(0.0, 0.1)
            with stage.fault("SIGSTOP"), suspended(any_server(stage)):
                time.sleep(stop_s)  # the fault itself
        stage.await_acks(60)
    return survived(stage, Injected(f"SIGSTOP for {', '.join(map(str, stops))} s", len(stops)))


@contextlib.contextmanager
def suspended(server: Server) -> Iterator[None]:
    """The server stands still while the block runs."""
    server.suspend()
    try:
        yield
    finally:
        server.resume()


REPEATED = {"submit": 2, "cancel": 2, "lookup": 1, "inspect": 1, "reap": 1}
"""How often each script reaches the server when its first reply is lost: what is safe to repeat is asked once more."""


@row("14b", "the reply of a call is lost", setup=Setup(dispatchers=0))
def lose_replies(stage: Stage) -> Injected:
    """Nothing but our own policy may send a call again: each reaches the server as often as that says."""
    wrong = stage.background.run(_lose_replies(stage), timeout_s=60)
    with stage.load(short):
        stage.dispatchers.append(stage.installation.dispatch(stage.url))
        stage.await_acks(50)
    injected = Injected(f"the replies of {', '.join(REPEATED)}", len(REPEATED))
    injected.breaches += wrong
    return injected


async def _lose_replies(stage: Stage) -> list[str]:
    wrong: list[str] = []
    async with Proxy(stage.place.server) as proxy:
        store = await Store.open(proxy.url, namespace="elsewhere", lanes=("default",))
        try:
            job = Submission(store.new_id(1), "work", b"{}")
            worker = Worker(store.client, store.keyspaces[0], "d", store.lanes, lease_ms=9000, heartbeat_ms=9000)
            calls: dict[str, Callable[[], Awaitable[object]]] = {
                "submit": lambda: store.submit([job]),
                "cancel": lambda: store.cancel(job.job_id),
                "lookup": lambda: store.find(job.job_id),
                "inspect": store.inspect,
                "reap": lambda: worker.reap(5, max_stalls=1),
            }
            for name, call in calls.items():
                await load_scripts(store, name)
                proxy.lose_reply_to(script(name).sha)
                before = await _evaluated(store)
                with contextlib.suppress(StoreError):
                    await call()
                sent = await _evaluated(store) - before
                if sent != REPEATED[name]:
                    wrong.append(f"row: {name} reached the server {sent} times, not {REPEATED[name]}")
        finally:
            await store.aclose()
    return wrong


async def _evaluated(store: Store) -> int:
    stats = await store.client.info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("evalsha", "fcall"))


@row("17", "the disk is full", setup=Setup(disk_mb=12))
def fill_disk(stage: Stage) -> Injected:
    server = stage.place.server
    injected = Injected("the server's disk filled, and freed later", 1, in_flight=BOTH)
    with stage.load(short, batch=10) as load:
        stage.await_acks(60)
        with stage.fault("full"):
            ballast = server.directory / "ballast"
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 4096)
            until_sync(lambda: load.refused > 5, timeout_s=60)
            injected.expect(not stage.ready(), "ready, and no write is taken")
            injected.expect(stage.installation.client.get("/livez").status_code == 200, "not alive")
            ballast.unlink()
        stage.await_acks(60)
    return injected


def _aof(server: Server) -> Path:
    """The file that the server appends to."""
    return max((server.directory / "appendonlydir").glob("*.incr.aof"), key=lambda file: file.stat().st_mtime)
