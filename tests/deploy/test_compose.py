"""The compose files: of the schema, with every overlay and profile, and safe as they stand."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.compose import BASE, OVERLAYS, MissingVariable, load, profiles_of
from tests.documents import ROOT

PROFILES = sorted(profiles_of([BASE]))
COMBINED = [
    pytest.param(files, profiles, id=f"{name}+{'+'.join(profiles) or 'none'}")
    for name, files in OVERLAYS.items()
    for size in range(len(PROFILES) + 1)
    for profiles in itertools.combinations(PROFILES, size)
]


def services(files: tuple[Path, ...], profiles: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = load(files, profiles=profiles)["services"]
    return found


def test_every_file_and_what_every_choice_of_them_makes_is_of_the_schema(tmp_path: Path) -> None:
    files = [str(file) for file in {file for files in OVERLAYS.values() for file in files}]
    for at, case in enumerate(COMBINED):
        overlay, profiles = case.values
        merged = tmp_path / f"{at}.json"
        merged.write_text(json.dumps(load(overlay, profiles=profiles)))  # type: ignore[arg-type]
        files.append(str(merged))
    command = [str(Path(sys.executable).with_name("check-jsonschema")), "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("files", "profiles"), COMBINED)
def test_what_a_service_refers_to_is_there(files: tuple[Path, ...], profiles: tuple[str, ...]) -> None:
    project = load(files, profiles=profiles)
    for name, service in project["services"].items():
        for other, needed in service.get("depends_on", {}).items():
            assert other in project["services"] or needed.get("required") is False, f"{name} needs {other}"
            if needed["condition"] == "service_healthy":
                assert "healthcheck" in project["services"][other], f"{name} waits for {other}, which has no check"
        assert set(service.get("networks", [])) <= set(project["networks"]), name
        assert {each["source"] for each in service.get("configs", [])} <= set(project.get("configs", {})), name
        assert {each["source"] for each in service.get("secrets", [])} <= set(project.get("secrets", {})), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            there = (ROOT / source).exists() if source.startswith(".") else source in project["volumes"]
            assert there, f"{name}: {volume}"


@pytest.mark.parametrize(("files", "profiles"), COMBINED)
def test_services_hold_no_rights_and_come_back(files: tuple[Path, ...], profiles: tuple[str, ...]) -> None:
    for name, service in services(files, profiles).items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["restart"] == ("no" if name == "cluster" else "unless-stopped"), name
        assert "latest" not in service["image"], name
        assert ":" in service["image"], f"{name}: an image without a version"


@pytest.mark.parametrize(("files", "profiles"), COMBINED)
def test_only_this_machine_reaches_published_ports(files: tuple[Path, ...], profiles: tuple[str, ...]) -> None:
    for name, service in services(files, profiles).items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


@pytest.mark.parametrize(("files", "profiles"), COMBINED)
def test_servers_keep_what_they_acknowledged_and_are_reached_from_inside_only(
    files: tuple[Path, ...], profiles: tuple[str, ...]
) -> None:
    project = load(files, profiles=profiles)
    servers = {
        name: each for name, each in project["services"].items() if each.get("command", [""])[0] == "valkey-server"
    }
    assert servers
    for name, server in servers.items():
        words = server["command"]
        options = {word: after for word, after in itertools.pairwise(words) if word.startswith("--")}
        assert (options["--appendonly"], options["--maxmemory-policy"]) == ("yes", "noeviction"), name
        assert [volume for volume in server["volumes"] if volume.endswith(":/data")], name
        assert all(project["networks"][network]["internal"] for network in server["networks"]), name
        assert "ports" not in server, name


def test_sentinels_are_three_and_two_must_agree() -> None:
    project = load(OVERLAYS["ha"])
    sentinels = [name for name, each in project["services"].items() if "valkey-sentinel" in str(each["command"])]
    assert sentinels == ["sentinel-1", "sentinel-2", "sentinel-3"]
    assert "sentinel monitor gateway valkey 6379 2\n" in project["configs"]["sentinel"]["content"]
    assert [name for name, each in project["services"].items() if "--replicaof" in each["command"]]


def test_cluster_has_three_primaries_with_a_replica_each() -> None:
    project = load(OVERLAYS["cluster"])
    nodes = {name: each for name, each in project["services"].items() if "--cluster-enabled" in each["command"]}
    addresses = {each["networks"]["cluster"]["ipv4_address"] for each in nodes.values()}
    assert len(nodes) == len(addresses) == 6
    script = project["services"]["cluster"]["command"][-1]
    assert all(f"{address}:6379" in script for address in addresses)
    assert "--cluster-replicas 1" in script
    assert "valkey" not in project["services"], "the single server would run for nothing"


def test_prometheus_reads_processes_that_there_are_with_a_key_that_it_has() -> None:
    project = load(OVERLAYS["standalone"], profiles=["observability"])
    (scrape,) = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    hosts = [target.rpartition(":") for static in scrape["static_configs"] for target in static["targets"]]
    assert {(host, int(port)) for host, _, port in hosts} == {("gateway", 8080), ("dispatcher", 8081)}
    prometheus = project["services"]["prometheus"]
    assert [each["target"] for each in prometheus["secrets"]] == [scrape["authorization"]["credentials_file"]]
    assert project["secrets"]["api_key"] == {"environment": "GATEWAY_API_KEY"}
    assert set(prometheus["networks"]) & set(project["services"]["dispatcher"]["networks"])
    assert project["services"]["dispatcher"]["environment"]["GATEWAY_GATEWAY_DISPATCHER_HOST"] == "0.0.0.0"


def test_compose_asks_for_an_api_key_where_there_is_none() -> None:
    with pytest.raises(MissingVariable, match="GATEWAY_API_KEY is not set"):
        load([BASE], environ={})
