"""A primary that Sentinels name: found when a connection is made, and again once there is doubt."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import ConnectionError, RedisError, ResponseError

from gateway.redis_url import Address, RedisUrl
from gateway.store.asking import ask_all
from gateway.store.client import Client

log = structlog.get_logger(__name__)

ASK_S = 0.5
"""How long a Sentinel may take to answer; then the others' answers are used without it, if there are any."""

ASK_MOST_S = 2.0
"""How long the first to answer may take."""

_CONFIRM_S = 0.1
"""How long a Sentinel may take to confirm the primary, if most others did."""

LOOK_S = 1.0
"""So often the Sentinels are asked again while all is well: a primary that was replaced while it lives takes writes
until they have told it, some 10 s later, and everything that it took is lost then."""

_PAUSE_S = 0.05
"""Between two rounds of questions at least, times a jitter, however many calls fail meanwhile."""

_CONFIRM_PAUSE_S = 0.01
"""Between two rounds that confirm the primary; what is written meanwhile shares the next one."""

Named = tuple[int, Address]
"""The epoch of a Sentinel's configuration, and the primary's address in it."""

Facts = dict[bytes, bytes]
"""What a Sentinel tells of a master."""


class Primary:
    """Where the primary is, as the Sentinels say; close it with `aclose()`.

    They are asked all at once, and the answer of the latest configuration counts: what a Sentinel that was cut off
    from the others still believes has an older one.
    """

    def __init__(self, master: str, sentinels: Sequence[Client], *, rng: random.Random, look_s: float = LOOK_S) -> None:
        self.look_s = look_s
        self._master = master
        self._sentinels = tuple(sentinels)
        self._rng = rng
        self._known: Named | None = None
        self._in_doubt = True
        self._asking = asyncio.Lock()
        self._ask_at_s = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._next: asyncio.Task[bool] | None = None
        self._confirms: set[asyncio.Task[bool]] = set()
        self._confirming = asyncio.Lock()

    async def locate(self) -> Address:
        """The primary's address; raises the library's ConnectionError if no Sentinel knows it."""
        async with self._asking:
            if self._known is None or self._in_doubt:
                loop = asyncio.get_running_loop()
                await asyncio.sleep(self._ask_at_s - loop.time())
                self._ask_at_s = loop.time() + _PAUSE_S * self._rng.uniform(1.0, 2.0)
                self._in_doubt = False  # before the answers: a doubt that comes meanwhile is not to be lost
                try:
                    self._known = await self._ask_all()
                except BaseException:
                    self._in_doubt = True
                    raise
                log.info("primary found", master=self._master, host=self._known[1][0], port=self._known[1][1])
            return self._known[1]

    def doubt(self) -> None:
        """Has the Sentinels asked again before the next connection is made."""
        self._in_doubt = True

    def look_again(self, replaced: Callable[[], None]) -> None:
        """Asks the Sentinels again in the background, if they were not asked lately; `replaced` is called if they name
        another server now."""
        if self._looking is not None and not self._looking.done():
            return
        now_s = asyncio.get_running_loop().time()
        if now_s > self._ask_at_s + self.look_s:
            self._ask_at_s = now_s
            self._looking = asyncio.create_task(self._look(replaced))

    async def confirm(self) -> bool:
        """Whether the Sentinels, asked from now on, still take the primary that is known for one that lives.

        Most of them must, and none may be carrying a failover out. A primary that was replaced while it lives has
        replicas for a while yet: what they acknowledge is lost when they are told to follow the new one.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._confirm())
            self._confirms.add(self._next)
            self._next.add_done_callback(self._confirms.discard)
        return await asyncio.shield(self._next)

    async def aclose(self) -> None:
        under_way = [*self._confirms, *([self._looking] if self._looking is not None else [])]
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)
        for sentinel in self._sentinels:
            await sentinel.aclose()

    async def _look(self, replaced: Callable[[], None]) -> None:
        known = self._known
        try:
            found = await self._ask_all()
        except ConnectionError:
            return  # whoever needs a new connection will ask again, and say so
        if known is None or self._in_doubt or self._known is not known:
            return
        # only one that was cut off from the others may have answered: what it believes is older
        if found[0] > known[0]:
            self._known = found
            if found[1] != known[1]:
                log.warning("primary replaced while it lives", master=self._master, host=found[1][0], port=found[1][1])
                replaced()

    async def _ask_all(self) -> Named:
        answers = await ask_all([self._ask(sentinel) for sentinel in self._sentinels], soon_s=ASK_S, late_s=ASK_MOST_S)
        known = [answer for answer in answers if not isinstance(answer, str)]
        if known:
            return max(known)
        raise ConnectionError(
            f"none of the {len(answers)} Sentinels names a primary called {self._master!r}: "
            f"{'; '.join(sorted({str(answer) for answer in answers}))}"
        )

    async def _confirm(self) -> bool:
        async with self._confirming:
            await asyncio.sleep(_CONFIRM_PAUSE_S)
            self._next = None  # who comes from now on wants to know it of a later instant
            known = self._known
            answers = await ask_all(
                [self._describe(sentinel) for sentinel in self._sentinels],
                soon_s=_CONFIRM_S,
                late_s=ASK_S,
                enough=self._are_most,
            )
        told = [answer for answer in answers if not isinstance(answer, str)]
        if known is None or self._in_doubt or any(b"failover_in_progress" in facts[b"flags"] for facts in told):
            return False
        agreeing = [facts for facts in told if _address(facts) == known[1] and b"_down" not in facts[b"flags"]]
        return self._are_most(agreeing)

    def _are_most(self, sentinels: Sequence[object]) -> bool:
        return len(sentinels) > len(self._sentinels) // 2

    async def _ask(self, sentinel: Redis) -> Named | str:
        """Its configuration's epoch and the primary's address, or why there is no answer.

        The address is asked for by itself: while a Sentinel carries a failover out, its description of the master has
        the new epoch and still the old address, which may be that of a server that lives and takes writes.
        """
        facts = await self._describe(sentinel)
        if isinstance(facts, str):
            return facts
        address = await self._tell(sentinel, "GET-MASTER-ADDR-BY-NAME")
        return (
            address
            if isinstance(address, str)
            else (int(facts[b"config-epoch"]), (address[0].decode(), int(address[1])))
        )

    async def _describe(self, sentinel: Redis) -> Facts | str:
        flat = await self._tell(sentinel, "MASTER")
        return flat if isinstance(flat, (str, dict)) else dict(zip(flat[::2], flat[1::2], strict=True))

    async def _tell(self, sentinel: Redis, what: str) -> Any:
        """Its answer, or in a text why there is none."""
        try:
            async with asyncio.timeout(ASK_MOST_S):
                return await sentinel.execute_command("SENTINEL", what, self._master)
        except ResponseError as error:
            return str(error)
        except (RedisError, OSError, TimeoutError) as error:
            return str(error) or "no answer in time"


def _address(facts: Facts) -> Address:
    return facts[b"ip"].decode(), int(facts[b"port"])


class SentinelClient(Client):
    """A client of whichever server is the primary now."""

    primary: Primary

    @classmethod
    def named_by(cls, url: RedisUrl, *, reply_timeout_s: float) -> SentinelClient:
        """The client of the primary that the URL's Sentinels name."""
        client = cls.to(url.server_url(url.addresses[0]), reply_timeout_s=reply_timeout_s, connection=_FollowsPrimary)
        sentinels = [_Sentinel.to(url.sentinel_url(address), reply_timeout_s=ASK_MOST_S) for address in url.addresses]
        client.primary = Primary(url.master, sentinels, rng=random.Random())  # noqa: S311 (jitter)
        return client

    def doubt(self) -> None:
        super().doubt()
        self.primary.doubt()

    async def still(self, generation: int) -> bool:
        """Connections of this generation lead to the primary that is known; is it still one?"""
        return self.generation == generation and await self.primary.confirm()

    def look_around(self) -> None:
        """Has the Sentinels asked once in a while whether another server is the primary now."""
        self.primary.look_again(self.replaced)

    def replaced(self) -> None:
        """Has every connection made anew, to the server that is the primary now."""
        super().doubt()

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        await super().aclose(close_connection_pool)
        await self.primary.aclose()


class _Sentinel(Client):
    """A client of a Sentinel, whose coming and going is not Redis's."""

    holds_data = False


class _FollowsPrimary:
    """Mixed into a connection class: it goes to where the primary is when it is made."""

    client: SentinelClient

    async def connect(self) -> None:
        connection: Any = super()
        own: Any = self
        self.client.look_around()
        if not own.is_connected:
            own.host, own.port = await self.client.primary.locate()
        await connection.connect()
