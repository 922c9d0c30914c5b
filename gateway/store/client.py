"""The client library's connections as they are used here: no retry of its own, none trusted that may be stale.

Every retry of the library is off: it repeats commands by itself, and a command whose reply was lost may have taken
effect. What is repeated is decided script by script.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

import structlog
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.exceptions import (
    ClusterDownError,
    ConnectionError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
)

from gateway.folding import BACK
from gateway.store.calls import Calls
from gateway.store.link import Arg, Command, Link, alike
from gateway.store.pooled import HeedsCancel, KnowsStale
from gateway.store.refusals import is_unknown, kind_of

log = structlog.get_logger(__name__)

C = TypeVar("C", bound="Client")

CONNECT_TIMEOUT_S = 1.5
"""A server that is there takes connections at once, so this is for a process, or a machine, that is busy itself."""

REPLY_TIMEOUT_S = 1.5
"""Above what any script of ours takes; a gateway answers 503 within 2 s of Redis going silent."""

STUCK_S = 10.0
"""So long nothing but failures, and the pool of connections is made anew: whatever it is that holds them."""

BLIP_S = 0.2
"""A shorter failure is a connection that was lost, not an outage."""

QUIET_S = 30.0
"""After so long without a failure nobody can say when it was that the server came back."""

MISLED = (ConnectionError, TimeoutError, OSError, ReadOnlyError, ClusterDownError)
"""After one of these the server may be gone, or be another one: its connections are made anew before they are used."""

DRIVER = DriverInfo()
"""What `CLIENT LIST` shows; made once, since the library looks its own version up on disk for it."""

ANSWERED = (NoScriptError, MovedError)
"""No fault: what is called anew at once."""


class Client(Redis):
    """A client of one server. Calls fail with the library's errors; `failed` and `progressed` are told of each."""

    generation = 0
    """Connections of an earlier one are stale: each is made anew when it is next used."""

    stuck_s = STUCK_S
    blip_s = BLIP_S

    calls: Calls
    """What was asked through this client."""

    functions_from_s = 0.0
    """The server takes no functions before this instant, by `monotonic` (functions.py)."""

    holds_data = True
    """Whether this is a server that anybody misses; a Sentinel is not."""

    _failing_since_s: float | None = None
    _away_s: tuple[float, float] | None = None
    """The first and the last failure since the last reply."""

    _make_pool: Callable[[], ConnectionPool]
    _closing: set[asyncio.Task[None]]
    _link: Link | None = None
    _retired: list[Link]
    """Those that still wait for replies."""

    _linking: asyncio.Lock
    _dials = 0
    _undialled: tuple[int, Exception] | None = None
    """Which dial was the last that brought no link, and why."""

    _closes = 0
    """How often it was closed: who waits for a connection then gets none."""

    _reply_timeout_s: float

    @classmethod
    def to(cls: type[C], url: str, *, reply_timeout_s: float = REPLY_TIMEOUT_S, connection: type | None = None) -> C:
        """A client with a pool of its own, which connects on first use; `connection` is mixed into its connections."""
        client = cast(
            "C",
            cls.from_url(
                url,
                retry=Retry(NoBackoff(), 0),
                retry_on_error=[],
                socket_timeout=reply_timeout_s,
                socket_connect_timeout=CONNECT_TIMEOUT_S,
                driver_info=DRIVER,
            ),
        )
        pool: Any = client.connection_pool
        bases = (HeedsCancel, KnowsStale, *([connection] if connection else []), pool.connection_class)
        pool.connection_class = type("Connection", bases, {"client": client})
        kind, options = pool.connection_class, dict(pool.connection_kwargs)
        client._make_pool = lambda: ConnectionPool(kind, **options)
        client._closing = set()
        client._retired = []
        client._linking = asyncio.Lock()
        client._reply_timeout_s = reply_timeout_s
        client.calls = Calls()
        return client

    async def server_of(self, key: str) -> Client:
        """The client of the server that holds the key."""
        return self

    async def still(self, generation: int) -> bool:
        """Whether what connections of a generation wrote was written where it counts, as far as anybody can tell."""
        return True

    async def servers(self) -> list[Client]:
        """The clients of every server that holds data."""
        return [self]

    def moved(self, error: MovedError) -> None:
        """Told by a server where a slot is now; a client of one server has nowhere else to go."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        library: Any = super()
        try:
            reply = await library.execute_command(*args, **options)
        except (RedisError, OSError) as error:
            self.failed(error)
            raise
        except asyncio.CancelledError:  # most likely since it took too long
            self.calls.failed("cancelled")
            raise
        if self._away_s is not None:
            self.progressed()
        return reply

    async def call(self, *command: Arg) -> Any:
        """One command over the connection that calls share; fails as `execute_command` does."""
        try:
            reply = (await self.send([command]))[0]
        except (RedisError, OSError) as error:
            self.failed(error)
            raise
        except asyncio.CancelledError:
            self.calls.failed("cancelled")
            raise
        if isinstance(reply, RedisError):
            self.failed(reply)
            raise reply
        if self._away_s is not None:
            self.progressed()
        return reply

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Commands in one write over the connection that calls share: their replies, errors among them.

        Never one that blocks: every later call would wait for it.
        """
        self.look_around()
        link = self._ready() or await self._linked()
        return await link.send(commands)

    def begin(self, *command: Arg) -> asyncio.Future[list[Any]] | None:
        """As `call`, from outside any task: the reply comes in a list, an error as one. None if there is no connection
        yet that calls share."""
        self.look_around()
        link = self._ready()
        if link is None:
            return None
        try:
            sent = link.send([command])
        except ConnectionError:
            return None
        sent.add_done_callback(self._heard)
        return sent

    def look_around(self) -> None:
        """Told of each call before it is sent; a client of one server looks for no other."""

    async def dial(self) -> Any:
        """A connection that the library makes and that is of none of its pools: it is the caller's to close."""
        pool: Any = self.connection_pool
        connection = pool.connection_class(**pool.connection_kwargs)
        try:
            await connection.connect()
            # who takes it over would never hear of an end that the library has heard of
            if connection._reader.at_eof() or connection._writer.transport.is_closing():
                raise ConnectionError("the server closed the connection")
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    def progressed(self) -> None:
        """Told of a reply, whatever it says."""
        self._failing_since_s = None
        if self._away_s is not None:
            (began_s, last_s), self._away_s = self._away_s, None
            now_s = asyncio.get_running_loop().time()
            if self.holds_data and now_s - began_s >= self.blip_s and now_s - last_s < QUIET_S:
                log.warning(BACK, after_s=round(now_s - began_s, 1))

    def failed(self, error: Exception) -> None:
        """Told of a call that failed; where that may be its connection's fault, none of them is trusted any more."""
        if not isinstance(error, ANSWERED) and not is_unknown(error):
            self.calls.failed(kind_of(error))
        if not isinstance(error, MISLED):
            self.progressed()
            return
        self.doubt()
        now_s = asyncio.get_running_loop().time()
        began_s, last_s = self._away_s or (now_s, now_s)
        self._away_s = (began_s if now_s - last_s < QUIET_S else now_s, now_s)
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        elif now_s - self._failing_since_s > self.stuck_s:
            log.warning("nothing but failures for long; connecting anew", error=str(error), for_s=self.stuck_s)
            self._failing_since_s = now_s
            self._rebuild()

    def doubt(self) -> None:
        """Has every connection made anew before it is used again."""
        self.generation += 1

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        self._closes += 1
        links, self._retired, self._link = [*self._retired, self._link], [], None
        for link in links:
            if link is not None:
                await link.aclose()
        await super().aclose(close_connection_pool)
        if self._closing:
            await asyncio.wait(self._closing)

    def _heard(self, sent: asyncio.Future[list[Any]]) -> None:
        error = sent.exception() or sent.result()[0]
        if isinstance(error, (RedisError, OSError)):
            self.failed(error)
        elif self._away_s is not None:
            self.progressed()

    def _ready(self) -> Link | None:
        """The connection that calls share, if there is one that can be trusted."""
        link = self._link
        return link if link is not None and link.usable and link.made_in == self.generation else None

    async def _linked(self) -> Link:
        before = self._dials
        closes = self._closes
        async with self._linking:
            self._check_open(closes)
            if (ready := self._ready()) is not None:
                return ready
            link = self._link
            # one dial speaks for all who wait: a server that takes connections and says nothing would be asked by each
            # of them in turn, and the last one wait for all of them
            if self._undialled is not None and self._undialled[0] > before:
                raise alike(self._undialled[1])
            if link is not None:
                link.retire()
                self._retired = [each for each in (*self._retired, link) if each.usable]
            self._link, made_in = None, self.generation
            self._dials += 1
            try:
                connection = await self.dial()
            except (RedisError, OSError) as error:
                self._undialled = (self._dials, alike(error))
                raise
            if closes != self._closes:
                await connection.disconnect(nowait=True)
            self._check_open(closes)
            self._link = Link(connection, timeout_s=self._reply_timeout_s, made_in=made_in)
            return self._link

    def _check_open(self, closes: int) -> None:
        """Raises ConnectionError if the client was closed since it had been so often."""
        if closes != self._closes:
            raise ConnectionError("the connection is closed")

    def _rebuild(self) -> None:
        """A fresh pool; the old one's connections are closed, also those that somebody never gave back."""
        old, self.connection_pool = self.connection_pool, self._make_pool()
        self._close_later(old.aclose())

    def _close_later(self, closing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
