"""How commands find what they speak to, and what they exit with where they do not."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.conftest import ADMIN
from tests.cli.shell import Shell, environment
from tests.documents import free_port
from tests.e2e.installation import Installation
from tests.waiting import until_sync

GATEWAY = str(Path(sys.executable).with_name("gateway"))


def test_without_a_key_and_without_the_scope_it_is_77(installed: Installation, bare: Shell) -> None:
    url = ("--url", str(installed.client.base_url))
    mend = "give --api-key or set GATEWAY_API_KEY"
    assert f"this needs an API key: {mend}" in bare.refused("jobs", "list", *url, code=os.EX_NOPERM)
    wrong = bare.refused("jobs", "list", *url, "--api-key", "gwk_none_0123456789abcdef", code=os.EX_NOPERM)
    assert f"the API key is not right; {mend}" in wrong
    made = installed.client.post("/apikeys", json={"name": "r", "scopes": ["read"]}).json()
    assert bare.json("jobs", "list", *url, "--api-key", made["key"])["more"] in (True, False)
    refused = bare.refused("lanes", "pause", "low", *url, "--api-key", made["key"], code=os.EX_NOPERM)
    assert "lacks the scope 'admin'" in refused
    assert made["key"] not in refused


def test_gateway_that_is_not_there_is_69_and_what_is_none_is_1(bare: Shell) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    began_s = time.monotonic()
    assert f"no gateway answers at {url}/stats" in bare.refused("stats", "--url", url, code=os.EX_UNAVAILABLE)
    assert time.monotonic() - began_s < 20
    for wrong in ("127.0.0.1:8080", "http://127.0.0.1:99999", "http://[::1"):
        assert "is no URL of a gateway" in unboxed(bare.refused("stats", "--url", wrong, code=2))


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(
    "command", [["stats"], ["jobs", "get", "x"], ["jobs", "submit", "echo", "1"], ["targets", "list"]], ids=" ".join
)
def test_answer_of_another_server_is_told_as_one(bare: Shell, command: list[str], more: list[str]) -> None:
    with page_server() as url:
        said = bare.refused(*command, *more, "--url", url, code=1)
    assert "the answer is not that of a gateway of this version" in said
    assert "Traceback" not in said


@contextlib.contextmanager
def page_server() -> Iterator[str]:
    """The URL of a server that has a page for everything."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class Page(BaseHTTPRequestHandler):
    """Answers with the same page, whatever is asked."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """It has nothing to say."""


def unboxed(said: str) -> str:
    """What stands in the box that wrong usage is told in, on one line."""
    return " ".join(said.replace("│", " ").split())


@pytest.mark.parametrize("end", ["\n", " ", "\u00e9"])
def test_key_that_cannot_be_sent_is_refused_and_not_shown(bare: Shell, end: str) -> None:
    said = bare.refused("stats", "--url", "http://127.0.0.1:1", "--api-key", f"gwk_a_hush{end}", code=2)
    assert "character that no key has" in unboxed(said)
    assert "hush" not in said


def test_what_is_no_name_and_no_text_is_refused(bare: Shell) -> None:
    url = ("--url", "http://127.0.0.1:1")
    assert "'' is no name and no id" in unboxed(bare.refused("jobs", "get", "", *url, code=2))
    assert "'../../x' is no name and no id" in unboxed(bare.refused("jobs", "get", "../../x", *url, code=2))
    assert "'a/pause' is no name and no id" in unboxed(bare.refused("targets", "show", "a/pause", *url, code=2))
    assert "not UTF-8 text" in unboxed(bare.refused("jobs", "get", "\udcff", *url, code=2))
    assert "URL too long" in unboxed(bare.refused("jobs", "get", "x" * 70_000, *url, code=2))
    assert "not a duration" in unboxed(bare.refused("jobs", "wait", "x", "--timeout", "\u00b2", *url, code=2))


def test_folder_without_redis_is_78_and_says_what_to_do(bare: Shell) -> None:
    said = bare.refused("jobs", "list", code=os.EX_CONFIG)
    assert "GATEWAY_REDIS_URL" in said
    assert f"no embedded server runs in {bare.folder};" in said
    assert "--url" in said


def test_port_that_another_has_is_78_and_says_how_to_choose(bare: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = bare.refused("up", "--port", port, code=os.EX_CONFIG)
    assert f"cannot listen on 127.0.0.1:{port}: " in said
    assert "choose another (--port, PORT, gateway.port)" in said


def test_address_of_another_machine_is_78_and_no_fault_of_the_port(bare: Shell) -> None:
    said = bare.refused("up", "--host", "192.0.2.1", "--port", str(free_port()), code=os.EX_CONFIG)
    assert "gateway.host: 192.0.2.1: not an address of this machine" in said
    assert "--port" not in said


def test_trigger_that_is_none_because_the_folder_is_another_is_told_so(bare: Shell) -> None:
    told = f"there is no gateway.toml in {bare.folder}"
    assert told in bare.refused("hook-url", "hub", code=1)
    (bare.folder / "gateway.toml").touch()
    assert told not in bare.refused("hook-url", "hub", code=1)


@pytest.mark.parametrize("variable", ["GATEWAY_REDIS_URL", "REDIS_URL"])
def test_redis_that_is_away_is_69_and_says_where_its_url_is_from(tmp_path: Path, variable: str) -> None:
    shell = Shell(tmp_path, **{variable: f"redis://:hush@127.0.0.1:{free_port()}/0"})
    said = shell.refused("stats", code=os.EX_UNAVAILABLE)
    assert "Redis cannot be reached" in said
    assert said.endswith(f" (from {variable})\n")
    assert "hush" not in said
    examined = shell.text("doctor", code=1)
    assert f"(from {variable})" in examined
    assert "hush" not in examined


def test_command_straight_to_redis_logs_nothing(installed: Installation) -> None:
    done = subprocess.run(
        [GATEWAY, "jobs", "submit", "work", '{"do": "return"}'],
        cwd=installed.folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert installed.ended(done.stdout.strip())["status"] == "succeeded"


@pytest.mark.parametrize("command", ["up", "serve"])
@pytest.mark.parametrize("port", ["99999", "-1"])
def test_port_that_is_none_is_wrong_usage(bare: Shell, command: str, port: str) -> None:
    assert "--port" in bare.refused(command, "--port", port, code=2)


def test_wrong_configuration_is_78_also_straight_to_redis(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").write_text("[targets.a]\nexecutor = 3\n")
    shell = Shell(tmp_path, GATEWAY_REDIS_URL="redis://127.0.0.1:1/0")
    assert "gateway.toml: targets.a.executor" in shell.refused("targets", "list", code=os.EX_CONFIG)


def test_url_goes_before_redis(installed: Installation, tmp_path: Path) -> None:
    shell = Shell(
        tmp_path,
        GATEWAY_URL=str(installed.client.base_url),
        GATEWAY_API_KEY=ADMIN,
        GATEWAY_REDIS_URL="redis://127.0.0.1:1/0",
    )
    assert "work" in [target["name"] for target in shell.json("targets", "list")["targets"]]


@pytest.mark.parametrize("way", ["url", "straight"])
def test_tail_follows_all_jobs_until_ctrl_c(installed: Installation, tmp_path: Path, way: str) -> None:
    url = {"GATEWAY_URL": str(installed.client.base_url), "GATEWAY_API_KEY": ADMIN}
    out = tmp_path / "out"
    with out.open("wb") as printed:
        tail = subprocess.Popen(
            [GATEWAY, "jobs", "tail", "--target", "work", "--json"],
            cwd=installed.folder,
            env=environment(**(url if way == "url" else {})),
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
        )

    def followed() -> bool:
        installed.submit("work", {"do": "return"})
        return '"succeeded"' in out.read_text()

    try:
        until_sync(followed, timeout_s=60, every_s=0.2)
        tail.send_signal(signal.SIGINT)
        _, said = tail.communicate(timeout=20)
    finally:
        tail.kill()
    assert "Traceback" not in said
    assert tail.returncode == 130
    events = [json.loads(line) for line in out.read_text().splitlines()]
    assert {event["target"] for event in events} == {"work"}
    assert all(event["job_id"] and event["at"].endswith("Z") for event in events)


def test_reader_that_goes_away_ends_a_command_quietly(installed: Installation) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    done = subprocess.run(
        [GATEWAY, "stats"],
        cwd=installed.folder,
        env=environment(GATEWAY_URL=str(installed.client.base_url), GATEWAY_API_KEY=ADMIN),
        stdout=ours.fileno(),
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    ours.close()
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
