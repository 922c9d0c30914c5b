"""A configuration file with a schedule."""

from __future__ import annotations

from pathlib import Path

from gateway.settings import Settings, load

FILE = """
[schedules.nightly]
cron = "30 2 * * *"
timezone = "Europe/Berlin"
target = "echo"
payload = { full = true, since = 2026-01-01 }
catch_up = "all(3)"
overlap = "forbid"
jitter = "5m"
"""


def settings_with(directory: Path, redis_url: str, namespace: str, toml: str) -> Settings:
    (directory / "gateway.toml").write_text(toml)
    return load({"GATEWAY_REDIS_URL": redis_url, "GATEWAY_GATEWAY_NAMESPACE": namespace}, directory)
