"""`gateway doctor` as a user runs it: what it finds wrong, and what it exits with."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.shell import Done, Shell
from tests.servers import Server

TARGET = '[targets.resize]\nexecutor = "python"\ncallable = "json:dumps"\n'


def doctor(folder: Path, url: str, namespace: str, *arguments: str) -> Done:
    ports = {"PORT": "0", "GATEWAY_GATEWAY_DISPATCHER_PORT": "0"}
    shell = Shell(folder, GATEWAY_REDIS_URL=url, GATEWAY_GATEWAY_NAMESPACE=namespace, **ports)
    return shell.run("doctor", *arguments)


def test_doctor_finds_nothing_when_all_is_well(tmp_path: Path, namespace: str) -> None:
    (tmp_path / "gateway.toml").write_text(TARGET)
    with Server(extra=["--appendonly", "yes"]) as server:
        done = doctor(tmp_path, server.url, namespace)
    assert done.code == 0, done.stderr
    told = [line.split()[:2] for line in done.stdout.splitlines()]
    assert {check for level, check in told if level != "ok"} <= {"persistence:", "dispatchers:"}
    assert {"configuration:", "redis:", "data:"} <= {check for level, check in told if level == "ok"}


def test_doctor_warns_of_a_trigger_whose_signed_url_nobody_knows(
    tmp_path: Path, valkey_server: Server, namespace: str
) -> None:
    trigger = '[triggers.{}]\nverifier = "twilio"\nsecrets = ["t"]\nroutes = [{{ target = "resize" }}]\n{}\n'
    own = trigger.format("sms", "") + trigger.format("told", 'url = "https://hooks.example/sms"')
    (tmp_path / "gateway.toml").write_text(TARGET + own)
    done = doctor(tmp_path, valkey_server.url, namespace, "--json")
    assert done.code == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    warned = [each["detail"] for each in found if (each["level"], each["check"]) == ("warning", "configuration")]
    assert [each.partition(":")[0] for each in warned] == ["triggers.sms"]
    assert "set public_url in [gateway]" in warned[0]


def test_doctor_tells_every_fault_and_goes_on_when_a_check_fails(tmp_path: Path, namespace: str) -> None:
    (tmp_path / "gateway.toml").write_text(TARGET.replace("python", "pithon"))
    done = doctor(tmp_path, f"unix://{tmp_path}/none.sock", namespace, "--json")
    assert done.code == 1
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["check"] for each in found if each["level"] == "fault"] == ["configuration", "redis"]
    assert "pithon" in found[0]["detail"]


def test_doctor_mends_only_when_it_is_asked_to(tmp_path: Path, valkey_server: Server, namespace: str) -> None:
    (tmp_path / "gateway.toml").write_text(TARGET + "limit = { concurrency = 1 }")
    assert doctor(tmp_path, valkey_server.url, namespace).code == 0
    prefix = f"gw:{{{namespace}:0}}:"
    with valkey_server.client() as client:
        client.hset(f"{prefix}ft:resize", "running", "3")
        client.zadd(f"{prefix}leases", {"01a22780-5329-7d03-8458-4c0287d2a700": 1})
    for _ in range(2):
        done = doctor(tmp_path, valkey_server.url, namespace)
        assert done.code == 1
        assert done.stdout.count("fault    data:") == 2
        assert "gateway doctor --repair" in done.stdout
    done = doctor(tmp_path, valkey_server.url, namespace, "--repair", "--stopped")
    assert done.code == 0, done.stdout
    assert "is in leases, and there is no such job" in done.stdout
    assert "nothing is wrong any more" in done.stdout
    assert doctor(tmp_path, valkey_server.url, namespace).code == 0
