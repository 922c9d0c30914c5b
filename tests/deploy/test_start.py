"""What the deployment's files start, started: it becomes ready by its own check, runs a job, and ends in order."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.deploy import compose, terraform
from tests.deploy.machine import Machine
from tests.deploy.programs import from_compose
from tests.documents import ROOT, commands, free_port
from tests.e2e.installation import Process
from tests.servers import Server, free_ports
from tests.topology.certificates import make_certificates
from tests.waiting import until_sync

pytestmark = pytest.mark.long

REDIS = shutil.which("redis-server")
"""Debian's, which speaks TLS; the embedded server does not."""


def run_job(api: httpx.Client, name: str) -> None:
    """Submits a job to the example's target and waits for its result."""
    job = {"target": "hello", "payload": {"name": name}}
    answer = api.post("/jobs", json=job, headers={"Prefer": "wait=20"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"] == f"Hello, {name}!"


@pytest.mark.parametrize("name", compose.OVERLAYS)
def test_compose_starts_what_runs_a_job(name: str, tmp_path: Path) -> None:
    files = compose.OVERLAYS[name]
    project = compose.load(files)
    gateway, dispatcher = sorted(from_compose(name, files), key=lambda each: each.role, reverse=True)
    with Machine(tmp_path) as machine:
        servers = machine.start_servers(project["services"], project.get("configs", {}))
        if name == "cluster":
            join(machine, project["services"], list(servers))
        running = [(program, machine.run(program)) for program in (gateway, dispatcher)]
        for program, process in running:
            machine.await_ready(program, process)
        with machine.api(gateway) as api:
            assert api.get("/jobs", headers={"Authorization": ""}).status_code == 401
            run_job(api, name)
        for program, process in running:
            assert process.stop(program.stop_s or 0) == 0


@pytest.mark.long
def test_ha_overlay_goes_on_when_its_primary_is_killed(tmp_path: Path) -> None:
    files = compose.OVERLAYS["ha"]
    project = compose.load(files)
    with Machine(tmp_path) as machine:
        servers = machine.start_servers(project["services"], project["configs"])
        running = {each.role: (each, machine.run(each)) for each in from_compose("ha", files)}
        for program, process in running.values():
            machine.await_ready(program, process)
        with machine.api(running["gateway"][0]) as api:
            run_job(api, "before")
            until_sync(lambda: knows_the_others(machine.address("sentinel-1")), timeout_s=60, every_s=0.1)
            servers["valkey"].kill()

            def goes_on() -> bool:
                with contextlib.suppress(httpx.TransportError):
                    return api.post("/jobs", json={"target": "hello", "payload": {"name": "x"}}).status_code == 202
                return False

            until_sync(lambda: api.get("/readyz").status_code == 503, timeout_s=60)
            until_sync(goes_on, timeout_s=60, every_s=0.2)
            run_job(api, "after")
        assert not any(process.ended for _, process in running.values())


def join(machine: Machine, services: dict[str, Any], nodes: list[str]) -> None:
    """What the service `cluster` has `valkey-cli --cluster create` do: three primaries, and a replica for each."""
    written = re.findall(r"172\.30\.0\.\d+(?=:6379)", services["cluster"]["command"][-1])
    addresses = [machine.servers[address] for address in written]
    assert len(addresses) == len(nodes) == 6
    clients = [redis.Redis(address, 6379, socket_timeout=5, decode_responses=True) for address in addresses]
    for client in clients[1:]:
        client.execute_command("CLUSTER MEET", addresses[0], 6379)
    bounds = [0, 5461, 10923, 16384]
    for at, client in enumerate(clients[:3]):
        client.execute_command("CLUSTER ADDSLOTSRANGE", bounds[at], bounds[at + 1] - 1)
    until_sync(lambda: all(client.execute_command("CLUSTER INFO")["cluster_state"] == "ok" for client in clients[:3]))
    until_sync(lambda: all(client.execute_command("CLUSTER INFO")["cluster_known_nodes"] == "6" for client in clients))
    for at, client in enumerate(clients[3:]):
        client.execute_command("CLUSTER REPLICATE", clients[at].execute_command("CLUSTER MYID"))
    for client in clients:
        client.close()


def knows_the_others(sentinel: str) -> bool:
    """Whether a sentinel has heard of the replica and the two other sentinels: until then it cannot act."""
    with redis.Redis(sentinel, 26379, socket_timeout=2, decode_responses=True) as client:
        facts = client.info("sentinel")["master0"]
    return (facts["slaves"], facts["sentinels"]) == (1, 3)


@pytest.mark.parametrize("cluster", [False, True])
def test_terraform_starts_what_runs_a_job(cluster: bool, tmp_path: Path) -> None:
    """Against a server that knows the module's user, with its rights, over TLS where there is a server that speaks it.

    Its authority stands among those that the system trusts, as AWS's does.
    """
    found = terraform.read(terraform.MODULE)
    user = found.resources["aws_elasticache_user.gateway"]
    tls_port, _ = free_ports()
    options, binary = (tls_options(tmp_path, tls_port), Path(REDIS)) if REDIS else ([], None)
    with Server(cluster=cluster, tcp=True, extra=options, binary=binary) as server, Machine(tmp_path) as machine:
        with server.client() as client:
            rights = found.value(user["access_string"]).split()
            client.execute_command("ACL", "SETUSER", found.value(user["user_name"]), f">{'p' * 40}", *rights)
            client.execute_command("ACL", "SETUSER", "default", "off")
        given = terraform.GIVEN | {"var_cluster_mode": cluster, "local_redis_port": tls_port if REDIS else server.port}
        given |= dict.fromkeys((name for name in given if name.endswith("endpoint_address")), "127.0.0.1")
        running = []
        for program in terraform.programs(found, **given):
            if REDIS:
                program.environment["SSL_CERT_FILE"] = str(tmp_path / "ca.pem")
            else:
                plain = program.environment["GATEWAY_REDIS_URL"].replace("rediss", "redis", 1)
                program.environment["GATEWAY_REDIS_URL"] = plain
            running.append((program, machine.run(program)))
        for program, process in running:
            machine.await_ready(program, process)
        with machine.api(running[0][0], key=f"gwk_aws_{'k' * 43}") as api:
            run_job(api, "terraform")
        for program, process in running:
            assert process.stop(program.stop_s or 0) == 0


def tls_options(folder: Path, port: int) -> list[str]:
    """What a server needs to speak TLS there, to nodes of its Cluster as well."""
    make_certificates(folder)
    options = {
        "--tls-port": str(port),
        "--tls-auth-clients": "no",
        "--tls-cluster": "yes",
        "--tls-ca-cert-file": str(folder / "ca.pem"),
        "--tls-cert-file": str(folder / "server.pem"),
        "--tls-key-file": str(folder / "server.key"),
    }
    return [word for pair in options.items() for word in pair]


def test_procfile_runs_a_job_under_honcho(tmp_path: Path) -> None:
    """As the page prints it. Of the Procfile one word is another: tests listen on this machine only."""
    text = (ROOT / "Procfile").read_text()
    assert "--host 0.0.0.0" in text
    (tmp_path / "Procfile").write_text(text.replace("0.0.0.0", "127.0.0.1"))
    for file in (ROOT / "deploy" / "app").glob("*.*"):
        (tmp_path / file.name).write_text(file.read_text())
    write, start, ask = commands(ROOT / "docs" / "systemd.md")[-3:]
    port = free_port()
    bin_folder = Path(sys.executable).parent
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("GATEWAY_", "REDIS_URL", "PORT"))}
    ours = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "GATEWAY_GATEWAY_DISPATCHER_PORT": "0"}

    def shell(text: str) -> str:
        text = text.replace("8080", str(port)).replace("redis://127.0.0.1:6379/0", server.url)
        command = ["bash", "-eu", "-c", text.replace("curl ", "curl -sS --noproxy '*' ")]
        return subprocess.run(
            command, cwd=tmp_path, env=kept | ours, capture_output=True, text=True, timeout=60, check=True
        ).stdout

    with Server() as server:
        shell(write)
        process = Process(shlex.split(start), tmp_path, tmp_path / "honcho.log", ours)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as api:
                until_sync(lambda: is_ready(api, process), timeout_s=60)
            said = shell(ask)
            assert f"gateway http://127.0.0.1:{port}/readyz: well" in said
            assert '"result":"Hello, Ada!"' in said
            process.signal(signal.SIGTERM)
            process.wait(40)
            log = process.log.read_text()
            assert log.count("sending SIGTERM to") >= 2
            assert "SIGKILL" not in log
        finally:
            if not process.ended:
                os.killpg(process.pid, signal.SIGKILL)


def is_ready(api: httpx.Client, process: Process) -> bool:
    assert not process.ended, process.log.read_text()
    try:
        return api.get("/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_health_module_runs_without_the_rest_of_the_program() -> None:
    """It is run for ever, every few seconds: what it does not need it must not import."""
    code = "import sys, gateway.health; print(sorted({'typer', 'aiohttp', 'redis'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
