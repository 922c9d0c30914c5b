"""A Cluster: each command goes to the primary that holds its key's slot, found by asking, and again once in doubt.

A partition is one slot, so a call needs one server and never a set of them. What the Cluster says of a call that it
did not carry out (MOVED) is followed at once. An ASK is not: while a slot moves key by key, either side has only half
of a partition, and a script that ran there would take the other half for missing. Such a call fails as unavailable
until the move is over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from redis.crc import key_slot
from redis.exceptions import ClusterDownError, ConnectionError, MovedError, RedisError

from gateway.redis_url import Address, RedisUrl
from gateway.store.asking import ask_all
from gateway.store.client import MISLED, Client
from gateway.store.link import Arg

log = structlog.get_logger(__name__)

SLOTS = 16384
ASK_S = 0.7
"""How long a node may take to say who holds what; then the others' answers are used without it, if there are any."""

ASK_MOST_S = 2.0
"""How long the first to answer may take."""

FORMER_MOST = 4
"""Nodes that hold nothing any more and are asked all the same: they may be replicas, and the last that are left. Where
nodes come and go, each with a new address, the older ones are gone, and every question would wait for them."""

_MOVES_MOST = 5
_PAUSE_S = 0.05
"""Between two rounds of questions at least, times a jitter, however many calls fail meanwhile."""

_EPOCH = b"cluster_current_epoch:"


@dataclass(frozen=True, slots=True)
class Layout:
    """Who holds what, as one node sees it: the one with the latest epoch is right."""

    epoch: int
    owners: tuple[Address | None, ...]


class Cluster(Client):
    """One client for all of a Cluster; its `servers` have a pool each."""

    url: RedisUrl
    reply_timeout_s: float
    _rng: random.Random
    _nodes: dict[Address, _Node]
    _owners: list[Address | None]
    _asking: asyncio.Lock
    _stale = True
    _ask_at_s = 0.0

    @classmethod
    def around(cls, url: RedisUrl, *, reply_timeout_s: float) -> Cluster:
        """The client of the Cluster that the URL's nodes belong to."""
        cluster = cls.to(url.server_url(url.addresses[0]), reply_timeout_s=reply_timeout_s)
        cluster.url, cluster.reply_timeout_s = url, reply_timeout_s
        cluster._rng = random.Random()  # noqa: S311 (jitter)
        cluster._nodes, cluster._owners, cluster._asking = {}, [None] * SLOTS, asyncio.Lock()
        return cluster

    async def server_of(self, key: str) -> Client:
        """The client of the primary that holds the key's slot; raises the library's errors if none is known."""
        await self._look()
        owner = self._owners[key_slot(key.encode())]
        if owner is None:
            raise ClusterDownError("no node holds the slot")
        return self._node(owner)

    async def servers(self) -> list[Client]:
        """The clients of every primary that holds slots."""
        await self._look()
        return [self._node(owner) for owner in sorted({owner for owner in self._owners if owner is not None})]

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Sends a command where its key is; one without a key goes to the first primary."""
        return await self._routed(args, lambda server: server.execute_command(*args, **options))

    async def call(self, *command: Arg) -> Any:
        """One command where its key is, over the connection to that server which calls share."""
        return await self._routed(command, lambda server: server.call(*command))

    def begin(self, *command: Arg) -> asyncio.Future[list[Any]] | None:
        """As `call`, from outside any task; None as well while it is in doubt where the key is."""
        owner = None if self._stale else self._owners[key_slot(_key_of(command).encode())]
        return None if owner is None else self._node(owner).begin(*command)

    def moved(self, error: MovedError) -> None:
        """Told where a slot is now; more may have moved, so the nodes are asked, too."""
        if error.host:
            self._owners[error.slot_id] = (error.host, error.port)
        self._stale = True

    def doubt(self) -> None:
        """Has the nodes asked who holds what before the next call."""
        super().doubt()
        self._stale = True

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        for node in list(self._nodes.values()):
            await node.aclose()

    async def _routed(self, args: Sequence[Any], send: Callable[[Client], Awaitable[Any]]) -> Any:
        for _ in range(_MOVES_MOST):
            server = await self.server_of(_key_of(args)) if len(args) > 1 else (await self.servers())[0]
            try:
                return await send(server)
            except MovedError as error:  # it was not carried out
                self.moved(error)
        raise ConnectionError("the nodes send each other the slot in a circle")

    def _node(self, address: Address) -> _Node:
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = _Node.to(self.url.server_url(address), reply_timeout_s=self.reply_timeout_s)
            node.whole, node.calls = self, self.calls
        return node

    async def _look(self) -> None:
        """Asks the nodes, if there is doubt and they were not asked just now."""
        if not self._stale:
            return
        async with self._asking:
            loop = asyncio.get_running_loop()
            if not self._stale or (loop.time() < self._ask_at_s and any(self._owners)):
                return
            await asyncio.sleep(self._ask_at_s - loop.time())
            self._ask_at_s = loop.time() + _PAUSE_S * self._rng.uniform(1.0, 2.0)
            # before the answers: a doubt that comes meanwhile is not to be lost
            self._stale = False
            try:
                self._adopt(await self._ask_all())
            except BaseException:
                self._stale = True
                raise

    def _adopt(self, layout: Layout) -> None:
        held = {owner for owner in layout.owners if owner is not None}
        if list(layout.owners) != self._owners:
            log.info("cluster layout", epoch=layout.epoch, primaries=len(held))
        self._owners = list(layout.owners)
        for address in held & self._nodes.keys():  # so that those that held something last are the last
            self._nodes[address] = self._nodes.pop(address)
        former = [address for address in self._nodes if address not in held and address not in self.url.addresses]
        for address in former[: max(0, len(former) - FORMER_MOST)]:
            self._close_later(self._nodes.pop(address).aclose())

    async def _ask_all(self) -> Layout:
        addresses = list(dict.fromkeys([*self._nodes, *self.url.addresses]))
        answers = await ask_all([self._ask(address) for address in addresses], soon_s=ASK_S, late_s=ASK_MOST_S)
        layouts = [answer for answer in answers if isinstance(answer, Layout)]
        if layouts:
            return max(layouts, key=lambda layout: layout.epoch)
        raise ConnectionError(
            f"none of {len(addresses)} nodes says how the Cluster is laid out: "
            f"{'; '.join(sorted({str(answer) for answer in answers}))}"
        )

    async def _ask(self, address: Address) -> Layout | str:
        """The layout as that node sees it, or why there is no answer."""
        node = self._node(address)
        try:
            async with asyncio.timeout(ASK_MOST_S):
                # not in one pipeline: a connection that is made for it may be new, and both answers are small
                info = await node.ask("CLUSTER", "INFO")
                ranges = await node.ask("CLUSTER", "SLOTS")
        except (RedisError, OSError, TimeoutError) as error:
            return str(error) or "no answer in time"
        return Layout(_epoch(info), _owners(ranges, address))


class _Node(Client):
    """One node; what is lost on the way to it puts the whole layout in doubt."""

    whole: Cluster

    def doubt(self) -> None:
        super().doubt()
        self.whole.doubt()

    async def ask(self, *args: Any) -> Any:
        """A command about the Cluster itself, whose failure says nothing of the other nodes."""
        connection = await self.connection_pool.get_connection()
        try:
            await connection.send_command(*args)
            return await connection.read_response()
        except MISLED:
            await connection.disconnect(nowait=True)
            raise
        finally:
            await self.connection_pool.release(connection)


def _key_of(args: Sequence[Any]) -> str:
    """The key that decides where a command goes: of a script the first of its keys."""
    key = args[3] if args[0] in ("FCALL", "EVALSHA", "EVAL") else args[1]
    return key.decode() if isinstance(key, bytes) else str(key)


def _epoch(info: Any) -> int:
    text: bytes = info if isinstance(info, bytes) else str(info).encode()
    line = next((line for line in text.splitlines() if line.startswith(_EPOCH)), _EPOCH + b"0")
    return int(line.removeprefix(_EPOCH))


def _owners(ranges: Sequence[Any], asked: Address) -> tuple[Address | None, ...]:
    """The owner of every slot; a node that knows no address of its own is the one that was asked."""
    owners: list[Address | None] = [None] * SLOTS
    for first, last, primary, *_ in ranges:
        host = (primary[0] or b"").decode()
        owner = (host if host and host != "?" else asked[0], int(primary[1]))
        owners[first : last + 1] = [owner] * (last + 1 - first)
    return tuple(owners)
