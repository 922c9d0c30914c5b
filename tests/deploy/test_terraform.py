"""The Terraform module and its example: whole, described, and of the program that they start."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from gateway.api.operations import OPERATIONS
from gateway.figures import StoreFigures
from gateway.settings import load
from gateway.store import Store
from gateway.store.connection import connect
from tests.deploy.terraform import EXAMPLE, GIVEN, MODULE, Configuration, programs, read, references
from tests.servers import Server

AWS = read(MODULE)
FOLDERS = {"aws": AWS, "examples/aws": read(EXAMPLE)}
each_folder = pytest.mark.parametrize("name", FOLDERS)


def everything(found: Configuration) -> dict[str, Any]:
    return {"l": found.locals, "o": found.outputs, "r": found.resources, "m": found.modules, "v": found.variables}


@each_folder
def test_every_reference_leads_to_something(name: str) -> None:
    found = FOLDERS[name]
    known = {f"var.{each}" for each in found.variables} | {f"local.{each}" for each in found.locals}
    known |= set(found.resources) | {f"module.{each}" for each in found.modules}
    used = set(references(everything(found)))
    assert used
    assert sorted(used - known) == []


@each_folder
def test_nothing_is_defined_that_nothing_uses(name: str) -> None:
    found = FOLDERS[name]
    text = re.sub(r"#.*", "", found.text)
    defined = {f"var.{each}" for each in found.variables} | {f"local.{each}" for each in found.locals}
    defined |= {each for each in found.resources if each.startswith("data.")}
    unused = [
        each for each in sorted(defined) if not re.search(rf"(?<![\w.]){re.escape(each)}(?!\w)", _outside(text, each))
    ]
    assert unused == []


def _outside(text: str, address: str) -> str:
    """The text without the variable's own block, where its validation names it."""
    kind, _, name = address.partition(".")
    return re.sub(rf'variable "{name}" \{{.*?\n\}}\n', "", text, flags=re.DOTALL) if kind == "var" else text


@each_folder
def test_variables_and_outputs_say_what_they_are(name: str) -> None:
    found = FOLDERS[name]
    for variable, body in found.variables.items():
        assert len(body["description"]) > 12, variable
        assert "type" in body, variable
        for check in body.get("validation", []):
            assert f"var.{variable}" in str(check["condition"]), variable
            assert check["error_message"].endswith('."'), variable
    for output, body in found.outputs.items():
        assert len(body["description"]) > 12, output


def test_example_gives_what_the_module_asks_for() -> None:
    given = FOLDERS["examples/aws"].modules["event_gateway"]
    assert (EXAMPLE / given["source"].strip('"')).resolve() == MODULE
    passed = {each for each in given if not each.startswith("__")} - {"source"}
    required = {name for name, body in AWS.variables.items() if "default" not in body}
    assert required <= passed <= set(AWS.variables)
    outputs = set(re.findall(r"module\.event_gateway\.(\w+)", FOLDERS["examples/aws"].text))
    assert outputs <= set(AWS.outputs)


@pytest.mark.parametrize("cluster_mode", [False, True])
def test_environment_is_understood_with_either_redis(cluster_mode: bool, tmp_path: Path) -> None:
    for program in programs(AWS, var_cluster_mode=cluster_mode, **GIVEN):
        settings = load(program.environment, tmp_path)
        assert settings.redis_url is not None
        assert settings.redis_url.reveal() == (
            f"rediss+cluster://gateway:{'p' * 40}@redis.internal:6379"
            if cluster_mode
            else f"rediss://gateway:{'p' * 40}@redis.internal:6379/0"
        )
        assert settings.gateway.public_url == "https://hooks.example.com"


def test_load_balancer_asks_and_hides_what_is_there() -> None:
    paths = {operation.path for operation in OPERATIONS}
    group = AWS.resources["aws_lb_target_group.gateway"]
    assert AWS.value(group["health_check"][0]["path"]) in paths
    assert AWS.value(AWS.locals["metrics_path"]) in paths
    (program, _) = programs(AWS, **GIVEN)
    assert program.ports == (AWS.value(group["port"]),)
    settings = load(program.environment, Path())
    assert AWS.value(AWS.resources["aws_lb.this"]["idle_timeout"]) > settings.gateway.hold


async def test_figure_that_dispatchers_are_scaled_by_is_one_that_they_show() -> None:
    with Server() as server:
        store = Store(connect(server.url), namespace="scaled", partitions=1, lanes=("default",))
        try:
            await store.configure()
            registry = CollectorRegistry()
            registry.register(StoreFigures(await store.inspect(), {}))
            shown = generate_latest(registry).decode()
        finally:
            await store.aclose()
    metric = AWS.value(AWS.locals["oldest_metric"])
    assert f'\n{metric}{{lane="default"}} ' in shown
    for alarm in ("oldest_high", "oldest_low"):
        body = AWS.resources[f"aws_cloudwatch_metric_alarm.{alarm}"]
        assert body["metric_name"] == "${local.oldest_metric}"
        assert body["namespace"] == "${local.metric_namespace}"


def test_collector_reads_the_dispatcher_and_writes_the_alarms_metric() -> None:
    text = (MODULE / "collector.yaml").read_text()
    call = re.search(r"templatefile\(\"\$\{path\.module\}/collector\.yaml\", \{(.*?)\}\)", AWS.text, re.DOTALL)
    assert call is not None
    passed = set(re.findall(r"^\s*(\w+)\s*=", call[1], re.MULTILINE))
    assert set(re.findall(r"\$\{(\w+)\}", text)) == passed
    config = yaml.safe_load(re.sub(r"\$\{(\w+)\}", r"<\1>", text))
    pipeline = config["service"]["pipelines"]["metrics"]
    for part in ("receivers", "processors", "exporters"):
        assert set(pipeline[part]) == set(config[part])
    (scrape,) = config["receivers"]["prometheus"]["config"]["scrape_configs"]
    (static,) = scrape["static_configs"]
    (declared,) = config["exporters"]["awsemf"]["metric_declarations"]
    dimensions = AWS.resources["aws_cloudwatch_metric_alarm.oldest_high"]["dimensions"]
    assert [*static["labels"]] == declared["dimensions"][0] == [*dimensions]


def test_only_the_load_balancer_is_reached_from_outside() -> None:
    open_to = {name: body for name, body in AWS.resources.items() if "ingress_rule" in name and "cidr_ipv4" in body}
    assert list(open_to) == ["aws_vpc_security_group_ingress_rule.load_balancer"]
    for service in ("gateway", "dispatcher"):
        network = AWS.resources[f"aws_ecs_service.{service}"]["network_configuration"][0]
        assert network["assign_public_ip"] is False


def test_statements_without_resources_are_those_that_have_none() -> None:
    wide = {
        action.strip('"')
        for name, body in AWS.resources.items()
        if "iam_policy_document" in name
        for statement in body.get("statement", [])
        if '"*"' in statement.get("resources", [])
        for action in statement["actions"]
    }
    assert {action for action in wide if not action.startswith("ssmmessages:")} == {"ecr:GetAuthorizationToken"}


def test_redis_keeps_jobs_and_survives_a_zone() -> None:
    group = AWS.resources["aws_elasticache_replication_group.this"]
    for name in ("multi_az_enabled", "automatic_failover_enabled", "transit_encryption_enabled"):
        assert group[name] is True
    parameters = AWS.resources["aws_elasticache_parameter_group.this"]["parameter"]
    assert [(each["name"], each["value"]) for each in parameters] == [('"maxmemory-policy"', '"noeviction"')]


def test_exceptions_of_checkov_are_argued() -> None:
    skips = re.findall(r"#checkov:skip=(\w+):?(.*)", "\n".join(found.text for found in FOLDERS.values()))
    assert len(skips) == 5
    assert all(len(reason) > 40 and reason.endswith(".") for _, reason in skips)
