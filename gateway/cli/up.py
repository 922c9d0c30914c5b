"""`gateway up`: everything in one."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import structlog
import typer

from gateway.api.server import check_serving
from gateway.cli.dispatch import Processes, dispatchers, program
from gateway.cli.environment import Imports, load_process_settings, redis_url, tell_redis, where_from
from gateway.cli.ports import check_ports_apart
from gateway.cli.serve import Host, Port, Workers
from gateway.registry import Registry
from gateway.secret import Secret
from gateway.settings import GatewaySettings, Settings
from gateway.settings.environment import REDIS_URL
from gateway.store.embedded import DATA_DIR, EmbeddedValkey
from gateway.supervisor import Child, Supervisor, stop_signals

log = structlog.get_logger(__name__)

DataDir = Annotated[Path, typer.Option(help="Where the embedded server keeps its data.")]


def up(
    data_dir: DataDir = DATA_DIR,
    host: Host = None,
    port: Port = None,
    workers: Workers = 1,
    processes: Processes = 1,
    imports: Imports = None,
) -> None:
    """Everything in one: an embedded Valkey (unless a Redis is configured), a gateway and a dispatcher."""
    settings = load_process_settings(imports)
    _heed_signals()
    _check_ports(settings.gateway, host, port, processes)
    _check_registry(settings)
    tell_redis(settings, data_dir)
    embedded = EmbeddedValkey(data_dir) if settings.redis_url is None else None
    try:
        if embedded is not None:
            settings = msgspec.structs.replace(settings, redis_url=Secret(embedded.start()))
        gateway = settings.gateway
        check_serving(settings, host=host or gateway.host, port=gateway.port if port is None else port)
        children = _everything(settings, redis_url(settings), host, port, workers, processes)
        code = asyncio.run(_supervise(children, embedded))
    finally:
        if embedded is not None:
            embedded.stop()
    raise typer.Exit(code)


def _heed_signals() -> None:
    """Until the supervisor takes the signals over, one ends this process in order: what was started is stopped."""
    for sig in stop_signals():
        signal.signal(sig, lambda number, frame: sys.exit(128 + number))


def _check_ports(own: GatewaySettings, host: str | None, port: int | None, processes: int) -> None:
    """Raises ConfigError where the children would want the same port."""
    came = where_from()
    if port is not None:
        own, came = msgspec.structs.replace(own, port=port), came | {("gateway", "port"): "--port"}
    check_ports_apart(msgspec.structs.replace(own, host=host or own.host), came, processes=processes)


def _check_registry(settings: Settings) -> None:
    """Says what is wrong once, here, and not by each child; raises ConfigError."""
    if not Registry.build(settings).targets:
        log.warning(
            "no targets are configured, so there is nothing to run",
            mend="`gateway config init` writes a gateway.toml with one to try",
        )


def _everything(
    settings: Settings, url: str, host: str | None, port: int | None, workers: int, processes: int
) -> list[Child]:
    arguments = ["serve", "--workers", str(workers)]
    arguments += ["--host", host] if host else []
    arguments += ["--port", str(port)] if port is not None else []
    gateway = Child("gateway", program(*arguments), {REDIS_URL: url}, stage=0)
    return [gateway, *dispatchers(settings, url, processes)]


async def _supervise(children: list[Child], embedded: EmbeddedValkey | None = None) -> int:
    watch = asyncio.create_task(embedded.watch()) if embedded else None
    try:
        return await Supervisor(children).run()
    finally:
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
