"""Groups of real servers: a primary with replicas and Sentinels, and a Cluster; failed over and laid out at will."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry

from gateway.store.launch import server_binary
from tests.servers import SLOTS, Server, ending_with_us, free_ports
from tests.waiting import until_sync

MASTER = "jobs"
DOWN_AFTER_MS = 1500
"""Sentinels first ask a server that was promoted just now after the lesser of this and 1 s: had they to have an answer
by then, they would often replace it as well."""

NODE_TIMEOUT_MS = 1000
READY_S = 30.0


class Sentinel:
    """One `--sentinel` process in a folder of its own; `configure` is what its file says beside its port."""

    def __init__(self, configure: Sequence[str]) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="gwtest-", dir="/tmp"))
        self.log = self.directory / "sentinel.log"
        self.port, _ = free_ports()
        lines = [f"port {self.port}", "bind 127.0.0.1", f"dir {self.directory}", *configure]
        (self.directory / "sentinel.conf").write_text("\n".join(lines) + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def started(self) -> bool:
        """Is there a process of it?"""
        return self._process is not None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                ending_with_us([str(server_binary()), str(self.directory / "sentinel.conf"), "--sentinel"]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def facts(self) -> dict[str, str]:
        """What it knows of the primary; empty while it does not answer."""
        with contextlib.suppress(redis.RedisError), plain_client(self.port) as client:
            flat: Any = client.execute_command("SENTINEL", "MASTER", MASTER)
            facts = dict(flat) if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
            # in the midst of a failover the description still has the old address
            address: Any = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
            return facts | {"port": str(address[1])}
        return {}


class SentinelGroup:
    """A primary, two replicas and three Sentinels that watch them. Use it as a context manager."""

    def __init__(self, *, extra: Sequence[str] = (), replicas: int = 2) -> None:
        self._extra = ("--repl-diskless-sync-delay", "0", "--replica-priority", "1", *extra)
        self.servers = [Server(tcp=True, extra=self._extra)]
        self._replicas = replicas
        self.sentinels: list[Sentinel] = []

    @property
    def url(self) -> str:
        """What the product's configuration takes."""
        return f"redis+sentinel://{','.join(f'127.0.0.1:{each.port}' for each in self.sentinels)}/{MASTER}/0"

    @property
    def primary(self) -> Server:
        """The server that says it is the primary, as the most recent of the Sentinels' configurations names it."""
        facts = max((each.facts() for each in self.sentinels), key=lambda each: int(each.get("config-epoch", -1)))
        return next(each for each in self.servers if str(each.port) == facts["port"])

    def __enter__(self) -> SentinelGroup:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for sentinel in self.sentinels:
            sentinel.close()
        for server in self.servers:
            server.close()

    def _start(self) -> None:
        first = self.servers[0]
        first.start()
        for _ in range(self._replicas):
            replica = Server(tcp=True, extra=[*self._extra, "--replicaof", "127.0.0.1", str(first.port)])
            self.servers.append(replica)
            replica.start()
        quorum = 2
        configure = [
            f"sentinel monitor {MASTER} 127.0.0.1 {first.port} {quorum}",
            f"sentinel down-after-milliseconds {MASTER} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {MASTER} 3000",
            f"sentinel parallel-syncs {MASTER} 2",
        ]
        self.sentinels = [Sentinel(configure) for _ in range(3)]
        for each in self.sentinels:
            each.start()
        self.await_ready()

    def await_ready(self) -> None:
        """Returns once the Sentinels agree on the primary, know each other, and every replica is in step."""

        def ready() -> bool:
            found = [each.facts() for each in self.sentinels if each.started]
            agreed = len({facts.get("port") for facts in found}) == 1
            well = all(facts.get("flags") == "master" and facts["num-slaves"] == str(self._replicas) for facts in found)
            others = all(facts.get("num-other-sentinels") == "2" for facts in found)
            return agreed and well and others and all(_in_step(server, found[0]["port"]) for server in self.servers)

        until_sync(ready, timeout_s=READY_S)

    def _agree(self) -> bool:
        """Do all Sentinels, each for itself, name the same server, and does none carry out a failover?"""
        found = [each.facts() for each in self.sentinels]
        same = len({(facts.get("config-epoch"), facts.get("port")) for facts in found}) == 1
        return same and all(facts.get("flags") == "master" for facts in found) and is_primary(self.primary)

    def fail_over(self, *, kill: bool = True) -> float:
        """Takes the primary away (or asks the Sentinels for another), and waits: seconds until one was promoted."""
        old = self.primary
        began_s = time.monotonic()
        if kill:
            old.kill()
        else:
            with plain_client(self.sentinels[0].port) as client:
                client.execute_command("SENTINEL", "FAILOVER", MASTER)
        self.await_other_primary(old)
        return time.monotonic() - began_s

    def detach_replicas(self) -> None:
        """From now on no replica gets what is written; it is still one, and may be promoted."""
        nowhere, _ = free_ports()
        for server in self.servers:
            if server is not self.primary:
                with plain_client(server.port) as client:
                    client.execute_command("REPLICAOF", "127.0.0.1", nowhere)

    def await_other_primary(self, old: Server) -> None:
        """Returns once another server has been promoted."""
        until_sync(lambda: self.primary is not old and is_primary(self.primary), timeout_s=READY_S)

    def bring_back(self) -> None:
        """Starts whatever was killed again, as replicas, and waits until all is in order."""
        for sentinel in self.sentinels:
            if not sentinel.started:
                sentinel.start()
        # one that has not heard of the failover yet would take the old primary's return for a fault, and begin another
        until_sync(self._agree, timeout_s=READY_S)
        primary = self.primary
        for server in self.servers:
            if not server.started:
                server.start()
            if server is not primary and not _follows(server, str(primary.port)):
                with plain_client(server.port) as client:  # the Sentinels would, but only after some 10 s
                    client.execute_command("REPLICAOF", "127.0.0.1", primary.port)
        self.await_ready()


class ClusterGroup:
    """A Cluster of three primaries with a replica each. Use it as a context manager."""

    def __init__(self, *, extra: Sequence[str] = (), primaries: int = 3, replicas: int = 1) -> None:
        timing = ("--cluster-node-timeout", str(NODE_TIMEOUT_MS), "--repl-diskless-sync-delay", "0")
        options = (*timing, "--cluster-replica-validity-factor", "0", *extra)
        self.nodes = [Server(cluster=True, every_slot=False, extra=options) for _ in range(primaries * (1 + replicas))]
        self._primaries = primaries

    @property
    def url(self) -> str:
        """What the product's configuration takes: two of the nodes, the others are found."""
        return f"redis+cluster://{','.join(f'127.0.0.1:{each.port}' for each in self.nodes[:2])}"

    def __enter__(self) -> ClusterGroup:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for each in self.nodes:
            each.close()

    def _start(self) -> None:
        for at, node in enumerate(self.nodes, 1):
            node.start()
            _ask(node, "CLUSTER", "SET-CONFIG-EPOCH", at)
        first = self.nodes[0]
        for at, node in enumerate(self.nodes[: self._primaries]):
            begin, end = (SLOTS * at // self._primaries, SLOTS * (at + 1) // self._primaries - 1)
            _ask(node, "CLUSTER", "ADDSLOTSRANGE", begin, end)
        for node in self.nodes[1:]:
            _ask(node, "CLUSTER", "MEET", "127.0.0.1", first.port, first.bus_port)
        until_sync(lambda: all(len(self._known(node)) == len(self.nodes) for node in self.nodes), timeout_s=READY_S)
        for at, node in enumerate(self.nodes[self._primaries :]):
            primary = self.nodes[at % self._primaries]
            until_sync(lambda node=node, primary=primary: _replicates(node, self.id_of(primary)), timeout_s=READY_S)  # type: ignore[misc]
        self.await_ready()

    def id_of(self, node: Server) -> str:
        return str(_ask(node, "CLUSTER", "MYID"))

    def owner(self, key: str) -> Server:
        """The primary that holds a key's slot, as the living nodes see it."""
        for node in self.nodes:
            if node.started:
                for first, last, primary, *_ in _ask(node, "CLUSTER", "SLOTS"):
                    if first <= key_slot(key.encode()) <= last:
                        return next(each for each in self.nodes if each.port == primary[1])
        raise AssertionError("no living node knows who holds the slot")

    def primaries(self) -> list[Server]:
        """The living nodes that are no replicas."""
        return [node for node in self.nodes if node.started and is_primary(node)]

    def await_ready(self) -> None:
        """Returns once every slot is held and every living replica is in step with its primary."""

        def ready() -> bool:
            return all(self._is_well(node) for node in self.nodes if node.started)

        until_sync(ready, timeout_s=READY_S)

    def fail_over(self, primary: Server) -> float:
        """kill -9 of a primary: seconds until its replica has its slots."""
        mine = self.id_of(primary)
        began_s = time.monotonic()
        primary.kill()
        self.await_taken_over(mine)
        return time.monotonic() - began_s

    def await_taken_over(self, node_id: str, *, besides: Server | None = None) -> None:
        """Returns once a node has no slot any more in the eyes of the living, one that stands still left aside."""
        living = [node for node in self.nodes if node.started and node is not besides]
        until_sync(lambda: self._taken_over(node_id, living), timeout_s=READY_S)

    def bring_back(self) -> None:
        """Starts whatever was killed again, and waits until all is in order."""
        for node in self.nodes:
            if not node.started:
                node.start()
        self.await_ready()

    def move_slot(self, slot: int, to: Server) -> None:
        """Moves a slot as a whole, as Valkey 9 can (CLUSTER MIGRATESLOTS), and waits until it is there."""
        source = next(node for node in self.primaries() if slot in self.slots_of(node))
        _ask(source, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", self.id_of(to))
        until_sync(lambda: slot in self.slots_of(to), timeout_s=READY_S)

    def begin_move(self, key: str, to: Server) -> Callable[[], None]:
        """Begins to move a key's slot as older servers do, key by key; what it returns moves the keys and ends it."""
        slot, source = key_slot(key.encode()), self.owner(key)
        _ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        _ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(to))

        def end() -> None:
            with plain_client(source.port) as client:
                while keys := client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100):
                    client.execute_command("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
            for node in (to, source, *self.primaries()):
                _ask(node, "CLUSTER", "SETSLOT", slot, "NODE", self.id_of(to))

        return end

    def slots_of(self, node: Server) -> set[int]:
        found: set[int] = set()
        for first, last, primary, *_ in _ask(node, "CLUSTER", "SLOTS"):
            if primary[1] == node.port:
                found.update(range(first, last + 1))
        return found

    def _known(self, node: Server) -> list[str]:
        return [line for line in str(_ask(node, "CLUSTER", "NODES")).splitlines() if "handshake" not in line]

    def _is_well(self, node: Server) -> bool:
        with contextlib.suppress(redis.RedisError), plain_client(node.port) as client:
            facts: Any = client.execute_command("CLUSTER", "INFO")
            state = facts if isinstance(facts, dict) else dict(line.split(":") for line in str(facts).split())
            role = client.info("replication")
            linked = role["role"] == "master" or role["master_link_status"] == "up"
            return state["cluster_state"] == "ok" and linked
        return False

    def _taken_over(self, node_id: str, living: Sequence[Server]) -> bool:
        for node in living:
            with contextlib.suppress(redis.RedisError):
                lines = str(_ask(node, "CLUSTER", "NODES")).splitlines()
                line = next(line for line in lines if line.startswith(node_id))
                holds = len(line.split()) > 8
                ok = "cluster_state:ok" in str(_ask(node, "CLUSTER", "INFO")) or self._is_well(node)
                if holds or not ok:
                    return False
        return True


def plain_client(port: int, *, timeout_s: float = 5.0) -> redis.Redis:
    """A client of one server without retries; use it in a `with`."""
    return redis.Redis(
        port=port,
        socket_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        single_connection_client=True,
    )


def is_primary(server: Server) -> bool:
    """Does the server say that it is a primary? False while it does not answer."""
    with contextlib.suppress(redis.RedisError), plain_client(server.port) as client:
        return bool(client.info("replication")["role"] == "master")
    return False


def _in_step(server: Server, primary_port: str) -> bool:
    """Is it the primary, or a replica of it that has all that it has?"""
    return is_primary(server) if str(server.port) == primary_port else _follows(server, primary_port, linked=True)


def _follows(server: Server, primary_port: str, *, linked: bool = False) -> bool:
    """Is it a replica of that primary (and does it hear it)? False while it does not answer."""
    with contextlib.suppress(redis.RedisError), plain_client(server.port) as client:
        facts = client.info("replication")
        up = facts.get("master_link_status") == "up" or not linked
        return up and str(facts.get("master_port")) == primary_port
    return False


def _ask(node: Server, *args: Any) -> Any:
    with plain_client(node.port) as client:
        return client.execute_command(*args)


def _replicates(node: Server, primary_id: str) -> bool:
    with contextlib.suppress(redis.ResponseError):  # it does not know that node yet
        _ask(node, "CLUSTER", "REPLICATE", primary_id)
        return True
    return False
