"""Runs the application: one process, or several that share a port."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import structlog
import uvicorn
import uvloop
from starlette.applications import Starlette
from uvicorn.config import STARTUP_FAILURE

from gateway.api.app import create_app
from gateway.api.auth import is_loopback
from gateway.api.gate import StoreGate
from gateway.api.protocol import GuardedProtocol
from gateway.api.workers import WORKER_SILENT_S, Workers, ended_by_signals
from gateway.collector import calm_collector
from gateway.errors import ConfigError, StoreUnavailable
from gateway.logs import configure_logging
from gateway.opening import make_store
from gateway.registry import Registry
from gateway.settings import Settings, load
from gateway.settings.environment import REDIS_URL, full_name
from gateway.store import Store
from gateway.store.apikeys import any_key
from gateway.supervisor import SUPERVISOR_PID, stop_signals
from gateway.ties import die_with_parent

KEEP_ALIVE_S = 75
GRACE_S = 10
FORCED_STOP_S = 0.5
BACKLOG = 2048

_WORKER_APP = "gateway.api.server:worker_app"
WORKERS_FOLDER = "GATEWAY_WORKERS_FOLDER"
"""Where workers tell one another what they count; set by their manager."""

log = structlog.get_logger(__name__)


def serve(settings: Settings, *, host: str, port: int, workers: int) -> int:
    """Serves until TERM or INT (a second one stops at once) and returns the exit code; `port` 0 is any free one.

    `settings.redis_url` must be there. Raises ConfigError or StoreMismatch if it can never serve: the address is
    taken, it is open to others while there is no API key, Redis holds data of another kind. Redis may be away.
    """
    settings = _listening_on(settings, host, port)
    registry = Registry.build(settings)
    listener = _listener(host, port)
    with contextlib.closing(listener):
        asyncio.run(_check_alone(settings))
        _warn_of_unknown_url(settings, registry)
        own_port = listener.getsockname()[1]
        at = f"[{host}]" if ":" in host else host
        _open(listener, host, port)
        log.info("gateway listens", url=f"http://{at}:{own_port}", port=own_port, workers=workers)
        if workers > 1:
            return _serve_many(settings, listener, workers)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(serve_on(settings, registry, listener))


def check_serving(settings: Settings, *, host: str, port: int) -> None:
    """Raises what `serve` would raise, without serving: for a command that starts more than a gateway."""
    _listener(host, port).close()
    asyncio.run(_check_alone(_listening_on(settings, host, port)))


def _listening_on(settings: Settings, host: str, port: int) -> Settings:
    own = msgspec.structs.replace(settings.gateway, host=host, port=port)
    return msgspec.structs.replace(settings, gateway=own)


def app_from_environment() -> Starlette:
    """The application as the environment and the working directory's `gateway.toml` configure it: a factory for
    ASGI servers. Raises ConfigError."""
    settings = load(os.environ, Path.cwd())
    registry = Registry.build(settings)
    _warn_of_unknown_url(settings, registry)
    return create_app(settings, open_store(settings), registry, close_store=True)


def worker_app() -> Starlette:
    """The application in a worker process of `serve`, which ends when its parent does."""
    # by its pid, since a manager that is dead already is nobody's parent any more
    die_with_parent(int(os.environ[SUPERVISOR_PID]), death_signal=signal.SIGTERM)
    with ended_by_signals():
        settings = load(os.environ, Path.cwd())
        configure_logging(settings.gateway)
        registry = Registry.build(settings)
    folder = Path(os.environ[WORKERS_FOLDER])
    app = create_app(settings, open_store(settings), registry, close_store=True, workers_folder=folder)
    calm_collector()
    return app


def open_store(settings: Settings) -> Store:
    """The store that the settings name, not connected yet; ConfigError if they name none."""
    if settings.redis_url is None:
        raise ConfigError(f"environment: {REDIS_URL}", "not set; set it to a Redis, or run `gateway up`")
    return make_store(settings, settings.redis_url.reveal())


async def check_start(settings: Settings, store: Store) -> None:
    """Raises ConfigError on an address that others reach while there is no API key, StoreMismatch on foreign data.

    Where Redis is away nobody can tell; then every request needs a key, so that starting is safe.
    """
    gate = StoreGate(store)
    try:
        await gate.require()
        for remark in store.remarks:
            log.warning("Redis is not as it should be", detail=remark.text)
        if is_loopback(settings.gateway.host) or settings.gateway.api_key is not None or await any_key(store):
            return
    except StoreUnavailable as error:
        log.warning("Redis is away; answering 503 until it is back", error=str(error))
        return
    raise ConfigError(
        f"gateway.host: {settings.gateway.host}",
        "other machines can reach this, and there is no API key; make one up "
        "(export GATEWAY_API_KEY=gwk_me_$(openssl rand -hex 16)), or listen on 127.0.0.1",
    )


async def serve_on(settings: Settings, registry: Registry, listener: socket.socket) -> int:
    """Serves in this process alone, and returns the exit code; `listener` is bound."""
    store = open_store(settings)
    try:
        server = Server(uvicorn_config(create_app(settings, store, registry)))
        calm_collector()
        await server.serve([listener])
        return 0 if server.started else 1
    finally:
        await store.aclose()


class Server(uvicorn.Server):
    """A uvicorn server that ends with 0 on a signal, and at once on a second one."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        heeded = stop_signals()
        for sig in heeded:
            loop.add_signal_handler(sig, self.handle_exit, sig, None)
        try:
            yield
        finally:
            for sig in heeded:
                loop.remove_signal_handler(sig)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        if self.force_exit:  # then uvicorn leaves the application as it is; it lets go of Redis all the same
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.lifespan.shutdown(), FORCED_STOP_S)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def uvicorn_config(app: Any, **more: Any) -> uvicorn.Config:
    """How uvicorn runs the application; `more` goes over it."""
    options: dict[str, Any] = {
        "http": GuardedProtocol,
        "loop": "uvloop",
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": KEEP_ALIVE_S,
        "timeout_graceful_shutdown": GRACE_S,
        "backlog": BACKLOG,
        "timeout_worker_healthcheck": WORKER_SILENT_S,
    }
    return uvicorn.Config(app, **(options | more))


def _serve_many(settings: Settings, listener: socket.socket, workers: int) -> int:
    assert settings.redis_url is not None
    # workers read the environment anew, and what the command line said must win there too
    os.environ[full_name("gateway", "host")] = settings.gateway.host
    os.environ[full_name("gateway", "port")] = str(settings.gateway.port)
    os.environ[REDIS_URL] = settings.redis_url.reveal()
    os.environ[SUPERVISOR_PID] = str(os.getpid())
    config = uvicorn_config(_WORKER_APP, factory=True, workers=workers)
    manager = Workers(config, [listener])
    with tempfile.TemporaryDirectory(prefix="gateway-workers-") as folder:
        os.environ[WORKERS_FOLDER] = folder
        manager.run()
    return 1 if any(process.exitcode == STARTUP_FAILURE for process in manager.processes) else 0


def _warn_of_unknown_url(settings: Settings, registry: Registry) -> None:
    for name, trigger in registry.triggers.items():
        if warning := trigger.warning(settings.gateway.public_url):
            log.warning(warning, trigger=name, verifier=trigger.verifier.name)


async def _check_alone(settings: Settings) -> None:
    store = open_store(settings)
    try:
        await check_start(settings, store)
    finally:
        await store.aclose()


def _listener(host: str, port: int) -> socket.socket:
    """A bound socket, not open yet; ConfigError if the address cannot be had."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as exc:
        raise _not_here(host, exc) from exc
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as exc:
        listener.close()
        raise _taken(host, port, exc) from exc
    listener.set_inheritable(True)
    return listener


def _not_here(host: str, exc: OSError) -> ConfigError:
    return ConfigError(f"gateway.host: {host}", f"not an address of this machine: {exc.strerror}")


def _open(listener: socket.socket, host: str, port: int) -> None:
    """From here on nobody is turned away: who comes before a worker is up waits for it."""
    try:
        listener.listen(BACKLOG)
    except OSError as exc:  # two may bind it, of which one listens
        raise _taken(host, port, exc) from exc


def _taken(host: str, port: int, exc: OSError) -> ConfigError:
    if exc.errno not in (errno.EADDRINUSE, errno.EACCES):
        return _not_here(host, exc)
    return ConfigError(
        f"gateway.port: {port}",
        f"cannot listen on {host}:{port}: {exc.strerror}; free it, or choose another (--port, PORT, gateway.port)",
    )
