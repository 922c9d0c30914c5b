"""Deliveries over HTTP: verified, routed, queued once."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.api import models
from gateway.jobs import Record
from plugins.github import GithubVerifier
from tests.api.running import Running, running, settings_for
from tests.servers import Server

BODY = b'{"ref":"refs/heads/main","n":9007199254740993,"f":1.0,"a":[],"o":{}}'


@pytest.fixture(params=["1", "4"])
async def api(
    valkey_server: Server, namespace: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Running]:
    environ = {"GATEWAY_GATEWAY_PARTITIONS": str(request.param)}
    async with running(settings_for(tmp_path, valkey_server.url, namespace, **environ)) as gateway:
        yield gateway


async def deliver(
    api: Running,
    body: bytes = BODY,
    *,
    path: str = "/hooks/github",
    event: str = "push",
    guid: str = "g-1",
    secret: bytes = b"the-secret",
) -> httpx.Response:
    signature = hmac.new(secret, body, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Event": event, "X-GitHub-Delivery": guid}
    return await api.client.post(path, content=body, headers=headers)


async def records(api: Running, answer: httpx.Response) -> list[Record]:
    found = await api.store.find_many([job["job_id"] for job in answer.json()["jobs"]])
    assert None not in found
    return [each.record for each in found if each]


async def samples(api: Running, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a metric by their labels' values, in the order of the labels' names."""
    text = (await api.client.get("/metrics")).text
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


async def test_delivery_becomes_a_job_per_route_when_it_verifies(api: Running) -> None:
    answer = await deliver(api)
    assert answer.status_code == 202, answer.text
    msgspec.json.decode(answer.content, type=models.DeliveryAnswer)
    assert answer.json()["duplicate"] is False
    assert [job["target"] for job in answer.json()["jobs"]] == ["echo", "resize"]
    whole, part = await records(api, answer)
    assert whole.payload == BODY
    assert (part.payload, part.key, part.lane) == (b'{"ref":"refs/heads/main"}', "refs/heads/main", "critical")
    assert (whole.lane, part.max_attempts) == ("default", 2)
    assert len({record.job_id[-2:] for record in (whole, part)}) == 1
    assert await samples(api, "gateway_deliveries_total") == {("github", "accepted"): 1}


async def test_delivery_answers_with_the_first_jobs_when_it_is_repeated(api: Running) -> None:
    first = await deliver(api)
    again = await deliver(api)
    assert again.status_code == 202
    assert again.json() == first.json() | {"duplicate": True}
    assert await api.queued() == 2
    other = await deliver(api, guid="g-2")
    assert other.json()["duplicate"] is False
    assert await api.queued() == 4


@pytest.mark.parametrize(
    "case", ["changed_byte", "other_secret", "no_signature", "truncated_signature", "get_without_signature"]
)
async def test_delivery_is_the_same_401_whatever_is_wrong(api: Running, case: str) -> None:
    signature = "sha256=" + hmac.new(b"the-secret", BODY, hashlib.sha256).hexdigest()
    sent: dict[str, Any] = {"content": BODY, "headers": {"X-Hub-Signature-256": signature, "X-GitHub-Event": "push"}}
    if case == "changed_byte":
        sent["content"] = BODY.replace(b"main", b"mail")
    elif case == "other_secret":
        wrong = "sha256=" + hmac.new(b"another", BODY, hashlib.sha256).hexdigest()
        sent["headers"]["X-Hub-Signature-256"] = wrong
    elif case == "truncated_signature":
        sent["headers"]["X-Hub-Signature-256"] = signature[:-2]
    else:
        del sent["headers"]["X-Hub-Signature-256"]
    answer = await api.client.request("GET" if case.startswith("get") else "POST", "/hooks/github", **sent)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == "the delivery does not verify"
    assert await api.queued() == 0
    assert await samples(api, "gateway_deliveries_total") == {("github", "rejected"): 1}
    reasons = await samples(api, "gateway_delivery_rejections_total")
    assert sum(reasons.values()) == 1
    expected = {"changed_byte": "mismatch", "other_secret": "mismatch", "truncated_signature": "malformed"}
    assert set(reasons) == {(expected.get(case, "no_signature"), "github")}


async def test_delivery_is_acknowledged_and_counted_when_no_route_wants_it(api: Running) -> None:
    answer = await deliver(api, event="star")
    assert (answer.status_code, answer.json()) == (202, {"jobs": [], "duplicate": False})
    assert await api.queued() == 0
    assert await samples(api, "gateway_deliveries_total") == {("github", "unrouted"): 1}


async def test_delivery_queues_nothing_when_one_route_fails(api: Running) -> None:
    body = b'{"ref":{"not":"a key"}}'
    answer = await deliver(api, body)
    assert answer.status_code == 422
    assert "routes[1]" in answer.json()["detail"]
    assert (await deliver(api, b'{"ref":"a\\u0001b"}', guid="g-3")).status_code == 422
    assert await api.queued() == 0
    assert await samples(api, "gateway_deliveries_total") == {("github", "failed"): 2}


async def test_delivery_is_413_when_it_is_over_its_triggers_limit(api: Running) -> None:
    body = b'{"ref":"x","pad":"' + b"p" * 30_000 + b'"}'
    answer = await deliver(api, body)
    assert answer.status_code == 413
    assert "larger than 30000 bytes, body_limit of the trigger" in answer.json()["detail"]
    assert await api.queued() == 0


async def test_delivery_is_404_and_names_no_other_trigger_when_there_is_none(api: Running) -> None:
    answer = await api.client.post("/hooks/gitlab", content=b"{}")
    assert answer.status_code == 404
    assert "github" not in answer.text


async def test_delivery_is_taken_in_where_its_path_ends_with_a_slash(api: Running) -> None:
    first = await deliver(api)
    again = await deliver(api, path="/hooks/github/")
    assert (again.status_code, again.json()) == (202, first.json() | {"duplicate": True})
    assert await samples(api, "gateway_deliveries_total") == {("github", "accepted"): 1, ("github", "duplicate"): 1}
    for path in ("/hooks/github//", "/hooks//", "/hooks/", "/jobs/"):
        assert (await deliver(api, path=path)).status_code == 404


async def test_delivery_of_25_kb_is_taken_in_when_it_is_of_realistic_size(api: Running) -> None:
    body = b'{"ref":"r","commits":[' + b",".join(b'{"id":"%040d"}' % n for n in range(500)) + b"]}"
    answer = await deliver(api, body)
    assert answer.status_code == 202
    assert (await records(api, answer))[0].payload == body


async def test_signed_url_is_the_public_one_when_it_is_configured(
    valkey_server: Server, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"GATEWAY_GATEWAY_PUBLIC_URL": "https://hooks.example/base/"}
    async with running(settings_for(tmp_path, valkey_server.url, namespace, **environ)) as api:
        trigger = api.registry.triggers["github"]
        seen: list[str] = []
        verify = trigger.verifier.verify

        def watch(request: Any, now: float) -> Any:
            seen.append(request.url)
            return verify(request, now)

        monkeypatch.setattr(trigger.verifier, "verify", watch)
        for path in ("/hooks/github?a=%20b&c", "/hooks/github/?a=%20b&c"):
            await api.client.post(path, content=BODY, headers={"Host": "evil.example"})
    assert seen == [f"https://hooks.example/base/hooks/{path}?a=%20b&c" for path in ("github", "github/")]


async def test_delivery_is_not_acknowledged_when_its_verifier_forgets_to_say_what_it_is(
    api: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(GithubVerifier, "verify", lambda self, request, now: None)
        assert (await deliver(api)).status_code == 500
    assert (await deliver(api)).json()["duplicate"] is False
