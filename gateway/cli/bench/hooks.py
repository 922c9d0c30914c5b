"""Deliveries: how many a gateway process takes in a second, beside an endpoint of the same server that only reads."""

from __future__ import annotations

import hmac
import itertools
import secrets

import msgspec

from gateway.cli.bench.push import push
from gateway.cli.bench.report import Figure, Report
from gateway.cli.bench.sender import request, send
from gateway.cli.bench.serving import READ, SECRET, serving

CONNECTIONS = 50

BODY = msgspec.json.encode(push())


async def measure(url: str, *, deliveries: int, repetitions: int) -> Report:
    """Interleaved: the bare endpoint, then `/hooks/github`, `repetitions` times, each on one process."""
    bare: list[float] = []
    taken: list[float] = []
    signature = hmac.digest(SECRET.encode(), BODY, "sha256").hex()
    signed = f"x-hub-signature-256: sha256={signature}\r\nx-github-event: push\r\n"
    run, numbers = secrets.token_hex(8), itertools.count()

    def delivery(path: str) -> bytes:
        return request(path, BODY, headers=f"{signed}x-github-delivery: {run}-{next(numbers)}\r\n")

    async with serving(url) as (gateway_port, bare_port):

        async def rate(port: int, path: str, count: int) -> float:
            return count / await send(port, lambda: delivery(path), count, connections=CONNECTIONS)

        sides = ((bare_port, READ, bare), (gateway_port, "/hooks/github", taken))
        for port, path, _ in sides:
            await rate(port, path, max(CONNECTIONS, deliveries // 10))
        for _ in range(repetitions):
            for port, path, rates in sides:
                rates.append(await rate(port, path, deliveries))
    return Report(
        f"{deliveries:,} signed deliveries of {len(BODY):,} B over {CONNECTIONS} connections, one gateway process",
        [
            Figure("POST /hooks/github", "deliveries/s", tuple(taken), tuple(bare)),
            Figure("bare endpoint that reads the body", "requests/s", tuple(bare)),
        ],
    )
