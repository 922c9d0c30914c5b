"""What a measurement ran on: its figures say nothing without."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

from gateway.store.connection import connect

_PACKAGES = ("event-gateway", "redis", "hiredis", "uvloop")


async def describe(url: str) -> str:
    """The machine, and the versions of what was measured, in one line."""
    return ", ".join(
        [f"{os.cpu_count()} cores of {_processor()}", platform.platform(terse=True), *await _versions(url)]
    )


async def _versions(url: str) -> list[str]:
    client = connect(url)
    try:
        server = await client.info("server")
    finally:
        await client.aclose()
    name = server.get("server_name", "redis")
    return [
        f"Python {platform.python_version()}",
        *(f"{package} {version(package)}" for package in _PACKAGES),
        f"{name} {server.get(f'{name}_version', server['redis_version'])}",
    ]


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
