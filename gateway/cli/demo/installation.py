"""The processes of `gateway up`, for as long as the demo lasts: a Valkey, a gateway and a dispatcher."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from gateway.cli.dispatch import program
from gateway.errors import GatewayError
from gateway.settings.environment import REDIS_URL
from gateway.store.embedded import EmbeddedValkey
from gateway.supervisor import SUPERVISOR_PID

HERE = Path(__file__).parent
START_S = 20.0
STOP_S = 10.0
LOG_LINES = 12


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that takes jobs in; `github_secret` is what its trigger expects deliveries to be signed with."""

    url: str
    github_secret: str


@contextlib.contextmanager
def running_gateway(receiver_url: str, *, sources: Path = HERE) -> Iterator[Gateway]:
    """A fresh installation in a temporary folder; both are gone when the block ends, however it ends.

    `sources` holds `demo.toml` and `demo_tasks.py`. Raises GatewayError if it does not start; an error in the block
    gets the end of the logs as a note.
    """
    with tempfile.TemporaryDirectory(prefix="gateway-demo-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        _write_files(folder, sources, receiver_url)
        valkey = EmbeddedValkey(folder / "data", temporary=True)
        stack.callback(valkey.stop)
        gateway = Gateway(f"http://127.0.0.1:{_free_port()}", secrets.token_hex(20))
        environ = _environment(gateway, redis_url=valkey.start())
        processes = {
            command: stack.enter_context(_running(command, folder, environ)) for command in ("serve", "dispatch")
        }
        try:
            _await_ready(gateway.url, processes)
            yield gateway
        except (GatewayError, httpx.HTTPError) as error:
            error.add_note(_log_tails(folder))
            raise


def _write_files(folder: Path, sources: Path, receiver_url: str) -> None:
    facts = {"receiver": receiver_url, "python": json.dumps(sys.executable)[1:-1]}
    configuration = string.Template((sources / "demo.toml").read_text()).substitute(facts)
    (folder / "gateway.toml").write_text(configuration)
    (folder / "demo_tasks.py").write_text((sources / "demo_tasks.py").read_text())


def _environment(gateway: Gateway, *, redis_url: str) -> dict[str, str]:
    """Ours, without what would configure another gateway; the processes end when this one does."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_") and name != "PORT"}
    return ours | {
        REDIS_URL: redis_url,
        "GATEWAY_GATEWAY_PORT": gateway.url.rpartition(":")[2],
        "GATEWAY_GATEWAY_DISPATCHER_PORT": "0",
        "DEMO_GITHUB_SECRET": gateway.github_secret,
        SUPERVISOR_PID: str(os.getpid()),
    }


@contextlib.contextmanager
def _running(command: str, folder: Path, environ: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """`gateway <command>` in the folder, in a session of its own so that Ctrl-C reaches only the demo."""
    with (folder / f"{command}.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603  no shell, and no argument from outside
            program(command),
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for end in (process.terminate, process.terminate, process.kill):
            end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
                break


def _await_ready(url: str, processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s:
        for command, process in processes.items():
            if process.poll() is not None:
                raise GatewayError(f"`gateway {command}` ended with exit code {process.returncode}")
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/readyz", timeout=1.0, trust_env=False).status_code == 200:
                return
        time.sleep(0.05)
    raise GatewayError(f"the gateway was not ready within {START_S:g} s")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _log_tails(folder: Path) -> str:
    logs = ((log.stem, log.read_text(errors="replace").splitlines()[-LOG_LINES:]) for log in folder.glob("*.log"))
    return "\n".join(f"  the end of the log of `gateway {name}`:\n    " + "\n    ".join(lines) for name, lines in logs)
