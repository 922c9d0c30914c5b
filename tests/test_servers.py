"""The test servers themselves: what fault tests rely on."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.documents import ROOT
from tests.e2e.installation import Installation
from tests.servers import SLOTS, Server
from tests.waiting import until_sync


def test_the_shared_server_answers_on_its_url(valkey_server: Server, namespace: str) -> None:
    with redis.Redis.from_url(valkey_server.url, decode_responses=True) as client:
        client.set(namespace, "here")
        assert client.get(namespace) == "here"


def test_the_cluster_holds_every_slot_and_refuses_a_script_that_leaves_its_own(valkey_cluster: Server) -> None:
    with valkey_cluster.client() as client:
        assert client.execute_command("CLUSTER INFO")["cluster_slots_ok"] == str(SLOTS)
        script = "redis.call('GET', '{a}x') return redis.call('GET', '{b}x')"
        client.eval(script, 1, "{a}x")  # without a first line `#!lua` the server does not check this at all
        with pytest.raises(redis.ResponseError, match="do not hash to the same slot"):
            client.eval(f"#!lua\n{script}", 1, "{a}x")


def test_a_killed_server_with_an_append_only_file_comes_back_with_its_data() -> None:
    with Server(extra=["--appendonly", "yes"]) as server:
        with server.client() as client:
            client.set("job", "kept")
        server.kill()
        server.start()
        with server.client() as client:
            assert client.get("job") == "kept"


def test_a_suspended_server_keeps_silent_until_it_is_resumed() -> None:
    with Server(tcp=True) as server, server.client(timeout_s=0.1) as client:
        server.suspend()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        server.resume()
        with server.client() as patient:
            assert patient.ping()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can see to that")
def test_a_server_ends_with_a_run_that_is_killed() -> None:
    program = (
        "from tests.servers import Server; server = Server(); server.start(); "
        "print(server.pid, server.directory, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        pid, directory = run.stdout.readline().split()
        command = Path(f"/proc/{pid}/cmdline")
        try:
            assert b"valkey-server" in command.read_bytes()
            run.kill()
            until_sync(lambda: not command.exists() or not command.read_bytes())  # gone, or init's to wait for
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
            shutil.rmtree(directory)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can see to that")
def test_an_installation_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.e2e.installation import Installation; "
        "installation = Installation(Path(sys.argv[1])); installation.configure(); installation.up(); "
        "print('up', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        left = Installation(tmp_path)
        try:
            assert run.stdout.readline() == "up\n"
            assert len(left.processes()) >= 4  # itself, a gateway, a dispatcher, a Valkey
            run.kill()
            until_sync(lambda: left.processes() == [])
        finally:
            run.kill()
            left.close()


def test_a_closed_server_leaves_nothing_behind() -> None:
    with Server() as server:
        directory = server.directory
    assert not directory.exists()
