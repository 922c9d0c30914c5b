"""What a target's configuration, and a job where it may, make of the request."""

from __future__ import annotations

import base64
import hmac
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import orjson
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from executors.http import Basic, Bearer, HmacHeader, HttpConfig, HttpExecutor, PreviousSecret
from gateway import Fatal, FieldFault, JobRequest, Retry, Secret
from gateway.egress.client import EgressClient
from gateway.testing.executors import make_attempt
from tests.egress.receiver import Received, Receiver, always, answer, resolving

PAYLOAD = b'{"n": 1.0, "big":123456789012345678901234567890}'
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD_SECRET = "whsec_bm90IHRoZSBzZWNyZXQgdGhhdCBzaWduZWQgdGhpcw=="
ALL_MAY = ("headers", "method", "path", "query")


@pytest.fixture
async def http() -> AsyncIterator[EgressClient]:
    async with EgressClient(["127.0.0.0/8"], lookup=resolving()) as client:
        yield client


async def sent(
    http: EgressClient, *, request: JobRequest | None = None, path: str = "", data: bytes = b"", **config: Any
) -> Received:
    """The request that a job of a target with this config makes."""
    async with Receiver(always(data or answer())) as receiver:
        attempt = make_attempt(
            HttpConfig(url=receiver.url + path, **config), PAYLOAD, key="k ä", tags=("a",), target="invoice", http=http
        )
        job = msgspec.structs.replace(attempt.job, request=request, created_ms=1_773_500_966_535)
        await HttpExecutor().execute(msgspec.structs.replace(attempt, job=job))
    (seen,) = receiver.requests
    return seen


async def test_envelope_holds_the_payload_verbatim(http: EgressClient) -> None:
    seen = await sent(http, body="envelope", event_type="invoice.due")
    assert seen.values("content-type") == ["application/json"]
    assert b'"payload":' + PAYLOAD in seen.body
    body = orjson.loads(seen.body)
    job_id = seen.values("gateway-job-id")[0]
    data = {"job_id": job_id, "target": "invoice", "key": "k ä", "tags": ["a"], "payload": orjson.loads(PAYLOAD)}
    assert body == {"type": "invoice.due", "timestamp": "2026-03-14T15:09:26.535Z", "data": data}


async def test_structured_cloudevent_has_its_attributes_and_the_payload_verbatim(http: EgressClient) -> None:
    seen = await sent(http, body="cloudevents-structured")
    assert seen.values("content-type") == ["application/cloudevents+json; charset=utf-8"]
    assert b'"data":' + PAYLOAD in seen.body
    event = orjson.loads(seen.body)
    del event["data"]
    assert event == {
        "specversion": "1.0",
        "id": seen.values("gateway-job-id")[0],
        "source": "/targets/invoice",
        "type": "gateway.job",
        "time": "2026-03-14T15:09:26.535Z",
        "subject": "k ä",
        "datacontenttype": "application/json",
    }


async def test_binary_cloudevent_has_its_attributes_in_headers(http: EgressClient) -> None:
    seen = await sent(http, body="cloudevents-binary", event_type="invoice.due", event_source="//shop")
    assert seen.body == PAYLOAD
    assert seen.values("content-type") == ["application/json"]
    assert {name: value for name, value in seen.headers if name.startswith("ce-")} == {
        "ce-specversion": "1.0",
        "ce-id": seen.values("gateway-job-id")[0],
        "ce-source": "//shop",
        "ce-type": "invoice.due",
        "ce-time": "2026-03-14T15:09:26.535Z",
        "ce-subject": "k%20%C3%A4",
    }


@pytest.mark.parametrize("body", ["envelope", "cloudevents-structured", "cloudevents-binary"])
async def test_what_is_signed_is_what_is_sent(http: EgressClient, body: str) -> None:
    seen = await sent(http, body=body, secret=Secret(SECRET))
    Webhook(SECRET).verify(seen.body, dict(seen.headers))


async def test_older_secret_signs_until_it_expires(http: EgressClient) -> None:
    now = datetime.now(UTC)
    for until, live in ((now + timedelta(hours=1), True), (now - timedelta(seconds=1), False)):
        older = (PreviousSecret(Secret(OLD_SECRET), until),)
        seen = await sent(http, secret=Secret(SECRET), previous_secrets=older)
        Webhook(SECRET).verify(seen.body, dict(seen.headers))
        if live:
            Webhook(OLD_SECRET).verify(seen.body, dict(seen.headers))
            continue
        with pytest.raises(WebhookVerificationError):
            Webhook(OLD_SECRET).verify(seen.body, dict(seen.headers))


async def test_authorization_is_sent(http: EgressClient) -> None:
    seen = await sent(http, auth=Bearer(Secret("tok")))
    assert seen.values("authorization") == ["Bearer tok"]
    seen = await sent(http, auth=Basic("ada", Secret("pässword")))
    assert seen.values("authorization") == ["Basic " + base64.b64encode("ada:pässword".encode()).decode()]


async def test_hmac_header_covers_the_body(http: EgressClient) -> None:
    seen = await sent(http, auth=HmacHeader("X-Hub-Signature-256", Secret("key"), prefix="sha256="))
    assert seen.values("x-hub-signature-256") == ["sha256=" + hmac.digest(b"key", PAYLOAD, "sha256").hex()]
    seen = await sent(http, auth=HmacHeader("X-Sig", Secret("key"), "sha512", "base64"))
    assert seen.values("x-sig") == [base64.b64encode(hmac.digest(b"key", PAYLOAD, "sha512")).decode()]


async def test_job_sets_what_its_target_allows(http: EgressClient) -> None:
    request = JobRequest(
        headers={"X-Order": "7", "Content-Type": "text/x-orders"},
        method="PUT",
        path="/orders/7%20a",
        query={"a b": "c&d", "e": ""},
    )
    seen = await sent(http, request=request, path="?v=1", job_may=ALL_MAY, headers={"X-Shop": "north"})
    assert (seen.method, seen.path) == ("PUT", "/in/orders/7%20a?v=1&a%20b=c%26d&e=")
    assert [seen.values(name) for name in ("x-order", "x-shop", "content-type")] == [
        ["7"],
        ["north"],
        ["text/x-orders"],
    ]


DOTS = (
    *("..;", "..;x", ".;x=1", "..;a;b", "%2e%2e;x", "..%3bx", ".%2E%3B", "..;%2f"),
    *("%252e%252e", "..%253bx", "%25252e.", "x%255c..", "..%255cx", "x%252f..", "..%20", "%20..", "..%09;x"),
    "%" + "25" * 500_000 + "2e",
)
"""What some server or proxy reads as a segment of dots: parameters of a segment cut off, decoded once or oftener, `\\`
taken for `/`, spaces trimmed."""


@pytest.mark.parametrize(
    "path", ["/a;v=1/b", "/a..b", "/...", "/..a;x", "/a/.well-known/x", "/50%25", "/a%252fb", "/a%20..b"]
)
async def test_job_sets_a_path_that_only_looks_like_one_of_dots(http: EgressClient, path: str) -> None:
    assert (await sent(http, request=JobRequest(path=path), job_may=ALL_MAY)).path == f"/in{path}"


@pytest.mark.parametrize(
    ("request_", "config", "field"),
    [
        (JobRequest(headers={"a": "b"}), {"job_may": ("path",)}, "headers"),
        (JobRequest(method="PUT"), {}, "method"),
        (JobRequest(path="/a"), {}, "path"),
        (JobRequest(query={"a": "b"}), {}, "query"),
        (JobRequest(method="TRACE"), {"job_may": ALL_MAY}, "method"),
        (JobRequest(method="GET"), {"job_may": ALL_MAY, "body": "envelope"}, "method"),
        (JobRequest(headers={"Host": "b"}), {"job_may": ALL_MAY}, "headers"),
        (JobRequest(headers={"Gateway-Token": "b"}), {"job_may": ALL_MAY}, "headers"),
        (JobRequest(headers={"a": "b\r\nc: d"}), {"job_may": ALL_MAY}, "headers"),
        (JobRequest(headers={"AUTHORIZATION": "b"}), {"job_may": ALL_MAY}, "headers"),
        (JobRequest(headers={"x-shop": "b"}), {"job_may": ALL_MAY, "headers": {"X-Shop": "a"}}, "headers"),
        (JobRequest(headers={"x-sig": "b"}), {"job_may": ALL_MAY, "auth": HmacHeader("X-Sig", Secret("k"))}, "headers"),
        (JobRequest(headers={"ce-id": "b"}), {"job_may": ALL_MAY, "body": "cloudevents-binary"}, "headers"),
        (JobRequest(path="a"), {"job_may": ALL_MAY}, "path"),
        (JobRequest(path="/a/../b"), {"job_may": ALL_MAY}, "path"),
        (JobRequest(path="/a/%2E./b"), {"job_may": ALL_MAY}, "path"),
        *((JobRequest(path=f"/a/{each}/b"), {"job_may": ALL_MAY}, "path") for each in DOTS),
        *((JobRequest(path=f"/{each}"), {"job_may": ALL_MAY}, "path") for each in DOTS),
        (JobRequest(path="/a%2fb"), {"job_may": ALL_MAY}, "path"),
        (JobRequest(path="/a?b"), {"job_may": ALL_MAY}, "path"),
        (JobRequest(path="/a#b"), {"job_may": ALL_MAY}, "path"),
        (JobRequest(path="/a\\b"), {"job_may": ALL_MAY}, "path"),
        (JobRequest(path="/" + "a" * 2048), {"job_may": ALL_MAY}, "path"),
        (JobRequest(query={str(n): "" for n in range(65)}), {"job_may": ALL_MAY}, "query"),
    ],
)
async def test_job_is_refused_what_its_target_does_not_allow(
    http: EgressClient, request_: JobRequest, config: dict[str, Any], field: str
) -> None:
    with pytest.raises(FieldFault) as caught:
        HttpExecutor().check_request(HttpConfig(url="http://a.example/x", **config), request_)
    assert caught.value.field == field
    # and at the attempt, since the target may have changed meanwhile
    with pytest.raises(Fatal) as failed:
        await sent(http, request=request_, **config)
    assert failed.value.type == "config"


@pytest.mark.parametrize(
    ("config", "status", "outcome"),
    [
        ({"success_statuses": (200, 404)}, 404, None),
        ({"success_statuses": (200,)}, 204, Fatal),
        ({"success_statuses": ("2xx", "304-304")}, 304, None),
        ({"retry_statuses": ("4xx", "5xx")}, 404, Retry),
        ({"retry_statuses": (500,)}, 503, Fatal),
        ({"fatal_statuses": ("500-502",)}, 501, Fatal),
        ({"fatal_statuses": ("500-502",)}, 503, Retry),
        ({"fatal_statuses": (203,), "success_statuses": (200,)}, 203, Fatal),
    ],
)
async def test_configured_statuses_decide(
    http: EgressClient, config: dict[str, Any], status: int, outcome: type[Exception] | None
) -> None:
    data = answer(f"{status} X")
    if outcome is None:
        await sent(http, data=data, **config)
        return
    with pytest.raises(outcome):
        await sent(http, data=data, **config)
