"""A configuration whose targets have limits, so that their jobs wait in flows."""

from __future__ import annotations

from pathlib import Path

from gateway.settings import Settings, load
from tests.api.running import CONFIG

LIMITED = (
    CONFIG
    + """
[targets.single]
executor = "python"
callable = "json:dumps"
limit = { concurrency = 1 }

[targets.slow]
executor = "python"
callable = "json:dumps"
lane = "low"
limit = { rate = "1/h", burst = 1, per_key = { rate = "2/d", concurrency = 3 } }

[targets.daily]
executor = "python"
callable = "json:dumps"
limit = { quota = "1/d" }

[targets.account]
executor = "python"
callable = "json:dumps"
limit = { per_key = { concurrency = 1 } }

[targets.ledger]
executor = "python"
callable = "json:dumps"
ordered = true
"""
)


def limited_settings(directory: Path, redis_url: str, namespace: str, **environ: str) -> Settings:
    """The settings of LIMITED over one Redis; `environ` as the environment has it."""
    (directory / "gateway.toml").write_text(LIMITED)
    own = {"GATEWAY_REDIS_URL": redis_url, "GATEWAY_GATEWAY_NAMESPACE": namespace}
    return load(own | environ, directory)
