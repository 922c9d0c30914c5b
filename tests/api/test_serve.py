"""`serve` as its own process: the start, the workers, the end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import httpx
import pytest

from tests.api.running import CONFIG
from tests.servers import Server
from tests.waiting import until_sync

PROGRAM = """
import os, sys, time
{first}
from pathlib import Path
from gateway.api.server import serve
from gateway.errors import GatewayError
from gateway.settings import load
if __name__ == "__main__":
    host, workers = sys.argv[1:]
    try:
        sys.exit(serve(load(os.environ, Path.cwd()), host=host, port=0, workers=int(workers)))
    except GatewayError as error:
        print(f"REFUSED {error}", file=sys.stderr, flush=True)
        sys.exit(78)
"""
ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 120.0
"""Of a machine that runs much else beside: a worker takes one second of a processor to start."""

SLOW = """
if __name__ != "__main__":
    time.sleep(7)
"""
FUNCTION = """
@target("stuck")
def stuck(payload): ...
"""
URL = "https://hooks.example"


@contextlib.contextmanager
def serving(
    directory: Path,
    redis_url: str,
    namespace: str,
    *,
    host: str = "127.0.0.1",
    workers: int = 1,
    more: str = "",
    first: str = "",
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[subprocess.Popen[str]]:
    """The program, ended by its pid if the test did not; `first` is what it runs in each process before all else."""
    (directory / "gateway.toml").write_text(CONFIG + more)
    (directory / "program.py").write_text(PROGRAM.replace("{first}", first))
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "GATEWAY_REDIS_URL": redis_url,
        "GATEWAY_GATEWAY_NAMESPACE": namespace,
        **environment,
    }
    process = subprocess.Popen(
        [sys.executable, "program.py", host, str(workers)],
        cwd=directory,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)
        assert process.stdout is not None
        process.stdout.close()


def port_of(process: subprocess.Popen[str]) -> int:
    """The port that it says it listens on."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"port=.*?(\d{2,5})", line):
            return int(found[1])
    raise AssertionError("the program ended before it listened")


def eventually(url: str) -> httpx.Response:
    """The answer, once the program serves: its port is open before its workers are up."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            answer = httpx.get(url, timeout=WAIT_S)
            if answer.status_code == 200 or time.monotonic() > until:
                return answer
        except httpx.TransportError:
            if time.monotonic() > until:
                raise


@pytest.mark.parametrize("workers", [1, 2])
def test_serve_takes_jobs_and_ends_with_0_on_term(
    valkey_server: Server, namespace: str, tmp_path: Path, workers: int
) -> None:
    with serving(tmp_path, valkey_server.url, namespace, workers=workers) as process:
        base = f"http://127.0.0.1:{port_of(process)}"
        assert eventually(f"{base}/readyz").json() == {"status": "ready"}
        made = [httpx.post(f"{base}/jobs", json={"target": "echo"}, timeout=5) for _ in range(4)]
        assert [answer.status_code for answer in made] == [202] * 4
        assert len(httpx.get(f"{base}/jobs", timeout=5).json()["jobs"]) == 4
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_its_port_is_open_once_it_says_that_it_listens(
    valkey_server: Server, namespace: str, tmp_path: Path, workers: int
) -> None:
    with (
        serving(tmp_path, valkey_server.url, namespace, workers=workers) as process,
        socket.create_connection(("127.0.0.1", port_of(process)), timeout=WAIT_S) as early,
    ):
        early.sendall(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert early.recv(100).startswith(b"HTTP/1.1 200")


def test_a_worker_that_was_killed_is_told_of_and_replaced_and_hup_stops_all(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    with serving(tmp_path, valkey_server.url, namespace, workers=2) as process:
        base = f"http://127.0.0.1:{port_of(process)}"
        assert eventually(f"{base}/readyz").status_code == 200
        killed = workers_of(process)[0]
        os.kill(killed, signal.SIGKILL)
        until_sync(lambda: killed not in workers_of(process) and len(workers_of(process)) == 2, timeout_s=WAIT_S)
        process.send_signal(signal.SIGHUP)  # as of a terminal that closes
        output, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0
    (line,) = (line for line in plain(output).splitlines() if "worker ended" in line)
    assert f" pid={killed}" in line
    assert "exit_code=-9" in line


@pytest.mark.parametrize("where", ["program", "configuration"])
def test_workers_that_still_start_end_at_once_on_term(
    valkey_server: Server, namespace: str, tmp_path: Path, where: str
) -> None:
    stuck = f"""
if os.environ.get("GATEWAY_SUPERVISOR_PID"):
    Path({str(tmp_path / "here")!r}).touch()
    time.sleep({WAIT_S})
"""
    module = f"import os, time\nfrom pathlib import Path\nfrom gateway import target\n{stuck}\n{FUNCTION}"
    (tmp_path / "stuck.py").write_text(module)
    imports = {"GATEWAY_IMPORTS": "stuck"} if where == "configuration" else {}
    first = f"from pathlib import Path\n{stuck}" if where == "program" else ""
    with serving(tmp_path, valkey_server.url, namespace, workers=2, first=first, environment=imports) as process:
        port_of(process)
        until_sync((tmp_path / "here").exists, timeout_s=WAIT_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S / 3) == 0


@pytest.mark.long
def test_worker_that_takes_long_to_start_is_left_to_it(valkey_server: Server, namespace: str, tmp_path: Path) -> None:
    with serving(tmp_path, valkey_server.url, namespace, workers=2, first=SLOW) as process:
        base = f"http://127.0.0.1:{port_of(process)}"
        assert eventually(f"{base}/readyz").status_code == 200
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WAIT_S)
        assert "worker ended" not in output


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Its children but for the one that the library keeps to clean up after it."""
    found = []
    for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    return found


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_serve_refuses_an_address_open_to_others_without_a_key(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    with serving(tmp_path, valkey_server.url, namespace, host="0.0.0.0") as process:
        output, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 78
        assert "REFUSED gateway.host: 0.0.0.0" in output
        assert "GATEWAY_API_KEY" in output


def test_serve_refuses_a_redis_that_may_evict(namespace: str, tmp_path: Path) -> None:
    with (
        Server(extra=("--maxmemory-policy", "allkeys-lru")) as server,
        serving(tmp_path, server.url, namespace) as process,
    ):
        output, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 78
        assert "noeviction" in output


SIGNED_URLS = """
[triggers.sms]
verifier = "twilio"
secrets = ["the-token"]
routes = [{ target = "echo" }]

[triggers.shop]
verifier = "square"
secrets = ["the-key"]
url = "https://hooks.example/shop"
routes = [{ target = "echo" }]

[triggers.crm]
verifier = "hubspot"
versions = ["v1"]
secrets = ["the-secret"]
routes = [{ target = "echo" }]

[triggers.own]
verifier = "hmac"
header = "x-signature"
signed = "{url}{body}"
secrets = ["the-secret"]
routes = [{ target = "echo" }]
"""


@pytest.mark.parametrize(("environment", "named"), [({}, {"sms", "own"}), ({"GATEWAY_GATEWAY_PUBLIC_URL": URL}, set())])
def test_start_names_the_triggers_whose_signed_url_nobody_knows(
    valkey_server: Server, namespace: str, tmp_path: Path, environment: dict[str, str], named: set[str]
) -> None:
    with serving(tmp_path, valkey_server.url, namespace, more=SIGNED_URLS, environment=environment) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(plain(line))
            if "gateway listens" in line:
                break
    said = [line for line in lines if "public_url is not set" in line]
    assert {name for name in ("sms", "shop", "crm", "own") if any(f"trigger={name}" in line for line in said)} == named
