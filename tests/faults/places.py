"""Where the data is: one server, a primary that Sentinels name, or a Cluster."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.groups import ClusterGroup, SentinelGroup
from tests.servers import Server

Topology = Literal["standalone", "sentinel", "cluster"]
TOPOLOGIES: tuple[Topology, ...] = ("standalone", "sentinel", "cluster")
CLUSTER_PARTITIONS = 6


@dataclass(frozen=True, slots=True)
class Place:
    """One of the topologies; `group` is what it consists of."""

    topology: Topology
    group: Server | SentinelGroup | ClusterGroup
    partitions: int

    @property
    def url(self) -> str:
        return self.group.url

    @property
    def server(self) -> Server:
        """The one server."""
        assert isinstance(self.group, Server), f"there is no one server on {self.topology}"
        return self.group

    @property
    def sentinels(self) -> SentinelGroup:
        assert isinstance(self.group, SentinelGroup)
        return self.group

    @property
    def cluster(self) -> ClusterGroup:
        assert isinstance(self.group, ClusterGroup)
        return self.group

    def holding(self, key: str) -> Server:
        """The server that holds a key."""
        return self.group.owner(key) if isinstance(self.group, ClusterGroup) else self.servers()[0]

    def servers(self) -> list[Server]:
        """Every living server that takes writes."""
        if isinstance(self.group, Server):
            return [self.group]
        return [self.group.primary] if isinstance(self.group, SentinelGroup) else self.group.primaries()


@contextlib.contextmanager
def placed(topology: Topology, options: Sequence[str], *, disk_mb: int = 0) -> Iterator[Place]:
    """Starts the servers, and ends them; with `disk_mb` the one server's folder is a disk of its own."""
    if topology == "standalone":
        server = Server(extra=options)
        with _disk(server.directory, disk_mb) if disk_mb else contextlib.nullcontext(), server:
            yield Place(topology, server, 1)
    elif topology == "sentinel":
        with SentinelGroup(extra=options) as sentinels:
            yield Place(topology, sentinels, 1)
    else:
        with ClusterGroup(extra=options) as cluster:
            yield Place(topology, cluster, CLUSTER_PARTITIONS)


@contextlib.contextmanager
def _disk(folder: Path, size_mb: int) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=700", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        shutil.rmtree(folder, ignore_errors=True)
