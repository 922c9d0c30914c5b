"""Deliveries: how many a gateway process takes in a second, beside an endpoint of the same server that only reads."""

from __future__ import annotations

import hmac
import itertools
import secrets

import msgspec

from gateway.cli.bench.push import push
from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.sender import request, send
from gateway.cli.bench.serving import BELOW, READ, SECRET, serving

CONNECTIONS = 50
HOOK = "/hooks/github"

BODY = msgspec.json.encode(push())


async def measure(url: str, *, deliveries: int, repetitions: int, connections: int = CONNECTIONS) -> Report:
    """Interleaved: the bare endpoints, then the trigger, `repetitions` times, each on one process."""
    signature = hmac.digest(SECRET.encode(), BODY, "sha256").hex()
    signed = f"x-hub-signature-256: sha256={signature}\r\nx-github-event: push\r\n"
    run, numbers = secrets.token_hex(8), itertools.count()
    rates: dict[str, list[float]] = {path: [] for path in (READ, BELOW, HOOK)}

    def delivery(path: str) -> bytes:
        return request(path, BODY, headers=f"{signed}x-github-delivery: {run}-{next(numbers)}\r\n")

    async with serving(url) as (gateway_port, bare_port):

        async def rate(path: str, count: int) -> float:
            port = gateway_port if path == HOOK else bare_port
            return count / await send(port, lambda: delivery(path), count, connections=connections)

        for path in rates:
            await rate(path, max(connections, deliveries // 10))
        for _ in range(repetitions):
            for path, each in rates.items():
                each.append(await rate(path, deliveries))
    taken, bare, below = (tuple(rates[path]) for path in (HOOK, READ, BELOW))
    return Report(
        f"{deliveries:,} signed deliveries of {len(BODY):,} B over {connections} connections, one gateway process",
        [
            Figure(f"POST {HOOK}", "deliveries/s", taken, bare),
            Figure("the same, and a bare ASGI application", "deliveries/s", taken, below),
            Figure("bare Starlette endpoint that reads the body", "requests/s", bare),
            Figure("bare ASGI application that reads the body", "requests/s", below),
        ],
    )
