"""`gateway up`, `serve` and `dispatch`: the processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import structlog
import typer
import uvloop

from gateway.api.server import check_serving
from gateway.api.server import serve as serve_api
from gateway.cli.environment import Imports, load_settings, redis_url, with_redis
from gateway.dispatch.process import run_dispatcher
from gateway.registry import Registry
from gateway.secret import Secret
from gateway.settings import Settings
from gateway.settings.environment import REDIS_URL, full_name
from gateway.store.embedded import DATA_DIR, EmbeddedValkey
from gateway.supervisor import Child, Supervisor, follow_supervisor, kill_children

log = structlog.get_logger(__name__)

Host = Annotated[str | None, typer.Option(help="The address to listen on; default: gateway.host, 127.0.0.1.")]
Port = Annotated[int | None, typer.Option(help="The port to listen on; default: PORT or gateway.port, 8080.")]
Workers = Annotated[int, typer.Option(min=1, max=256, help="Gateway processes that share the port.")]
Processes = Annotated[int, typer.Option(min=1, max=256, help="Dispatcher processes, restarted if they end.")]
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
    settings = load_settings(imports)
    _heed_signals()
    _check_registry(settings)
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


def serve(host: Host = None, port: Port = None, workers: Workers = 1, imports: Imports = None) -> None:
    """The HTTP side: takes jobs and webhooks in."""
    follow_supervisor(os.environ)
    settings = with_redis(load_settings(imports))
    gateway = settings.gateway
    raise typer.Exit(
        serve_api(settings, host=host or gateway.host, port=gateway.port if port is None else port, workers=workers)
    )


def dispatch(processes: Processes = 1, imports: Imports = None) -> None:
    """The working side: claims jobs and runs them. TERM drains; a second one stops at once."""
    follow_supervisor(os.environ)
    settings = with_redis(load_settings(imports))
    if processes > 1:
        raise typer.Exit(asyncio.run(_supervise(_dispatchers(settings, redis_url(settings), processes))))
    uvloop.run(run_dispatcher(settings, redis_url=redis_url(settings)))
    # a synchronous callable that never returns holds its thread, and with it an ordinary exit
    kill_children()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def program(*arguments: str) -> list[str]:
    """This program with other arguments; `-P`, so that a folder named `gateway` in the working directory is not it."""
    return [sys.executable, "-P", "-m", "gateway", *arguments]


def _heed_signals() -> None:
    """Until the supervisor takes the signals over, one ends this process in order: what was started is stopped."""
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, lambda number, frame: sys.exit(128 + number))


def _check_registry(settings: Settings) -> None:
    """Says what is wrong once, here, and not by each child; raises ConfigError."""
    if not Registry.build(settings).targets:
        log.warning(
            "no targets are configured, so there is nothing to run",
            mend='write a gateway.toml here: [targets.hello] executor = "command" argv = ["cat"]',
        )


def _everything(
    settings: Settings, url: str, host: str | None, port: int | None, workers: int, processes: int
) -> list[Child]:
    arguments = ["serve", "--workers", str(workers)]
    arguments += ["--host", host] if host else []
    arguments += ["--port", str(port)] if port is not None else []
    gateway = Child("gateway", program(*arguments), {REDIS_URL: url}, stage=0)
    return [gateway, *_dispatchers(settings, url, processes)]


def _dispatchers(settings: Settings, url: str, processes: int) -> list[Child]:
    first = settings.gateway.dispatcher_port
    port = full_name("gateway", "dispatcher_port")
    return [
        Child(
            f"dispatcher-{index + 1}",
            program("dispatch"),
            {REDIS_URL: url, port: str(first + index if first else 0)},
            stage=1,
        )
        for index in range(processes)
    ]


async def _supervise(children: list[Child], embedded: EmbeddedValkey | None = None) -> int:
    watch = asyncio.create_task(embedded.watch()) if embedded else None
    try:
        return await Supervisor(children).run()
    finally:
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
