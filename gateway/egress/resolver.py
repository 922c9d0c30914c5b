"""Looks names up, bounded in time and threads, and denies a name if any of its addresses is denied."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult

from gateway.egress.addresses import Allowed, check_address

Lookup = Callable[[str], Awaitable[Sequence[str]]]
"""Address texts of a host name; raises OSError (`socket.gaierror`) if there are none."""

LOOKUP_TIMEOUT_S = 5.0
LOOKUP_THREADS = 32


class SystemLookup:
    """`getaddrinfo` in threads of its own, since a call cannot be ended: a name that hangs holds one, never more."""

    def __init__(self, threads: int = LOOKUP_THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lookup")
        self._running: dict[str, asyncio.Future[list[str]]] = {}

    async def __call__(self, host: str) -> list[str]:
        found = self._running.get(host)
        if found is None:
            found = asyncio.get_running_loop().run_in_executor(self._pool, _addresses, host)
            self._running[host] = found
            found.add_done_callback(lambda done: self._forget(host, done))
        return await asyncio.shield(found)

    def _forget(self, host: str, done: asyncio.Future[list[str]]) -> None:
        del self._running[host]
        if not done.cancelled():
            done.exception()  # seen, even when every waiter has given up

    def close(self) -> None:
        """Starts no further lookups; those under way end in their own time."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _addresses(host: str) -> list[str]:
    infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return [str(info[4][0]) for info in infos]


class GuardedResolver(AbstractResolver):
    """Answers aiohttp with addresses that may all be reached, or raises AddressDenied or `socket.gaierror`."""

    def __init__(self, lookup: Lookup, allowed: Allowed, *, timeout_s: float = LOOKUP_TIMEOUT_S) -> None:
        self._lookup = lookup
        self._allowed = allowed
        self._timeout_s = timeout_s

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        try:
            async with asyncio.timeout(self._timeout_s):
                addresses = await self._lookup(host)
        except TimeoutError as exc:
            raise socket.gaierror(socket.EAI_AGAIN, f"no answer within {self._timeout_s:g} s") from exc
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        for address in addresses:
            check_address(address, self._allowed, name=host)
        return [_answer(host, address, port) for address in addresses]

    async def close(self) -> None:
        return None


def _answer(host: str, address: str, port: int) -> ResolveResult:
    return ResolveResult(
        hostname=host,
        host=address,
        port=port,
        family=socket.AF_INET6 if ":" in address else socket.AF_INET,
        proto=0,
        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
    )
