"""Routes as a whole: what exists, what it says of itself, what it counts."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.routing import Route

from gateway.api import create_app, models
from gateway.api.endpoint import Endpoint
from gateway.api.operations import OPERATIONS
from gateway.apikeys import SCOPES
from gateway.jobs import Settlement
from gateway.signing import SigningKey
from tests.api.running import Running, claim

BY_TOKEN = {f"/jobs/{{job_id}}/{way}" for way in ("complete", "fail", "heartbeat")}
"""The token of an attempt says who may: test_completion.py."""

SLASHED = "/hooks/{trigger}/"
"""The one path that may have a slash at its end: providers follow no redirect."""

OPEN = {"/hooks/{trigger}", SLASHED, "/livez", "/readyz", "/ready", "/health", *BY_TOKEN}


async def test_every_route_of_the_application_has_a_scope_or_is_known_to_be_open(api: Running) -> None:
    app = create_app(api.settings, api.store, api.registry)
    seen = set()
    for route in app.routes:
        assert isinstance(route, Route)
        assert isinstance(route.endpoint, Endpoint), f"{route.path} is not behind the one door"
        for operation in route.endpoint.operations.values():
            assert (operation.scope in SCOPES) != (route.path in OPEN), f"{operation.method} {route.path}"
        seen.add(route.path)
    assert seen == {operation.path for operation in OPERATIONS} | {"/openapi.json", SLASHED}


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/jobs", "GET, HEAD, POST"),
        ("POST", "/jobs/x", "DELETE, GET, HEAD"),
        ("GET", "/jobs/batch/x/y", None),
        ("DELETE", "/livez", "GET, HEAD"),
        ("GET", "/dlq/x/retry", "POST"),
        ("GET", "/", None),
        ("GET", "/jobs/", None),
        ("POST", "/hooks/github/more", None),
    ],
)
async def test_route_is_405_or_404_as_a_problem_when_it_is_not_there(
    api: Running, method: str, path: str, allow: str | None
) -> None:
    answer = await api.client.request(method, path)
    assert answer.status_code == (405 if allow else 404)
    assert answer.headers.get("allow") == allow
    assert answer.headers["content-type"] == "application/problem+json"
    problem = msgspec.json.decode(answer.content, type=models.Problem)
    assert allow is None or problem.detail == f"{method} is not for this path; it takes {allow}"


@pytest.mark.parametrize(
    "path", ["/targets", "/targets/echo", "/triggers", "/lanes", "/stats", "/apikeys", "/signing-keys", "/jobs/x"]
)
async def test_unknown_parameter_is_a_422_also_where_none_is_known(api: Running, path: str) -> None:
    answer = await api.client.get(f"{path}?limt=5")
    assert answer.status_code == 422
    assert answer.json()["errors"] == [{"pointer": "limt", "detail": "unknown parameter; known: none"}]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/openapi.json"])
async def test_probe_and_scrape_may_have_parameters_of_their_own(api: Running, path: str) -> None:
    assert (await api.client.get(f"{path}?verbose")).status_code == 200


async def test_head_has_the_headers_of_get_and_no_body(api: Running) -> None:
    answer = await api.client.head("/targets")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) == len((await api.client.get("/targets")).content)


async def test_unexpected_failure_is_a_500_problem_that_gives_nothing_away(
    api: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("the secret detail")

    monkeypatch.setattr(api.registry.triggers["github"].verifier, "verify", broken)
    answer = await api.client.post("/hooks/github", content=b"{}")
    assert answer.status_code == 500
    assert "secret detail" not in answer.text
    msgspec.json.decode(answer.content, type=models.Problem)


async def test_installation_is_shown_without_its_secrets(api: Running) -> None:
    targets = (await api.client.get("/targets")).content
    assert [each.name for each in msgspec.json.decode(targets, type=models.Targets).targets] == ["echo", "resize"]
    assert b"the-secret" not in targets
    await api.client.post("/jobs", json={"target": "echo", "lane": "critical"})
    lanes = msgspec.json.decode((await api.client.get("/lanes")).content, type=models.Lanes).lanes
    assert [(each.lane, each.pending) for each in lanes] == [("critical", 1), ("default", 0), ("low", 0)]
    answer = await api.client.get("/signing-keys")
    keys = msgspec.json.decode(answer.content, type=models.SigningKeys).keys
    assert [key.public_key for key in keys] == [SigningKey.parse(api.store.signing_keys[0].reveal()).public]
    assert "whsk_" not in answer.text


async def test_health_answers_while_all_is_well(api: Running) -> None:
    for path in ("/readyz", "/ready", "/health"):
        answer = await api.client.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
    alive = msgspec.json.decode((await api.client.get("/livez")).content, type=models.Alive)
    assert alive.loop_lag_ms >= 0


async def test_metrics_tell_of_jobs_requests_and_refusals(api: Running) -> None:
    await api.client.post("/jobs", json={"target": "echo", "delay": 60})
    await api.client.post("/jobs", json={"target": "echo"})
    worker, ids, tokens = await claim(api.store)
    await worker.exchange([Settlement(ids[0], tokens[0], "dead", reason="fatal")], None)
    await api.client.post("/jobs", content=b"{")
    await api.client.get("/nowhere/at/all")
    text = (await api.client.get("/metrics")).text
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["gateway_jobs_total", "default", "echo", "submitted"] == 2
    assert found["gateway_jobs_total", "dead", "default", "echo"] == 1
    assert found["gateway_lane_depth", "default"] == 0
    assert (found["gateway_jobs_due",], found["gateway_jobs_dead",], found["gateway_jobs_running",]) == (1, 1, 0)
    assert found["gateway_dispatchers",] == 1
    assert found["gateway_http_requests_total", "/jobs", "2xx"] == 2
    assert found["gateway_http_requests_total", "/jobs", "4xx"] == 1
    assert found["gateway_http_requests_total", "4xx", "none"] == 1
    assert found["gateway_rejections_total", "syntax"] == 1
    assert found["gateway_rejections_total", "not_found"] == 1
    assert "/nowhere" not in text


async def test_openapi_tells_every_operation_with_its_schemas(api: Running) -> None:
    document = (await api.client.get("/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    for operation in OPERATIONS:
        method = "post" if operation.method == "*" else operation.method.lower()
        described = document["paths"][operation.path][method]
        assert set(described["responses"]) == {*(str(status) for status in operation.answers), "default"}
        assert ("security" in described) == (operation.scope is not None)
    schemas = document["components"]["schemas"]
    references = re.findall(r'"#/components/schemas/(\w+)"', msgspec.json.encode(document).decode())
    assert set(references) <= set(schemas)
    body = schemas["SubmitBody"]
    assert body["additionalProperties"] is False
    assert {"target", "type", "payload", "run_at", "run_after", "callback", "tags"} <= set(body["properties"])
    ids = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(ids) == len(set(ids))
