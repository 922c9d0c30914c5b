from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from standardwebhooks import Webhook
from starlette.datastructures import Headers

from gateway import Rejected
from gateway.callbacks import render
from gateway.client import verify_callback
from gateway.jobs import Callback, Cause, Options, pack_body, unpack_body
from gateway.signing import SigningKey, sign

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_bm90IHRoZSBzZWNyZXQgdGhhdCBzaWduZWQgdGhpcw=="
KEY = SigningKey.generate()
NOW_S = 1_790_000_000


def options(status: str, *, reason: str = "", error: bytes = b"") -> Options:
    return Options(
        parent=Options(callback=Callback("https://client.example/done", secret=SECRET), tags=("a", "b")),
        cause=Cause(
            "01990000-0000-7000-8000-000000000000", "resize", status, 2, 1_753_526_400_007, reason, msgspec.Raw(error)
        ),
    )


def test_success_is_rendered_with_its_result() -> None:
    rendered = render(options("succeeded"), b'{"size": 7}')
    assert (rendered.url, rendered.secret) == ("https://client.example/done", SECRET)
    assert json.loads(rendered.body) == {
        "type": "job.succeeded",
        "timestamp": "2025-07-26T10:40:00.007Z",
        "data": {
            "job_id": "01990000-0000-7000-8000-000000000000",
            "target": "resize",
            "status": "succeeded",
            "attempts": 2,
            "result": {"size": 7},
            "tags": ["a", "b"],
        },
    }


def test_death_is_rendered_with_its_error_and_reason() -> None:
    rendered = render(options("dead", reason="exhausted", error=b'{"type":"status","status":503}'), b"")
    body = json.loads(rendered.body)
    assert body["type"] == "job.dead"
    assert body["data"]["reason"] == "exhausted"
    assert body["data"]["error"] == {"type": "status", "status": 503}
    assert "result" not in body["data"]


def test_cancellation_is_rendered_without_absent_facts() -> None:
    body = json.loads(render(options("cancelled"), b"").body)
    assert body["type"] == "job.cancelled"
    assert sorted(body["data"]) == ["attempts", "job_id", "status", "tags", "target"]


def test_retry_is_rendered_with_its_error_and_next_attempt() -> None:
    job = options("retrying", error=b'{"type":"status"}')
    assert job.cause is not None
    told = msgspec.structs.replace(job, cause=msgspec.structs.replace(job.cause, delay_ms=1500))
    body = json.loads(render(told, b"").body)
    assert (body["type"], body["data"]["next_attempt_at"]) == ("job.retrying", "2025-07-26T10:40:01.507Z")
    assert body["data"]["error"] == {"type": "status"}


def test_result_and_error_are_embedded_byte_for_byte() -> None:
    exact = b'{"b": 1.0, "a":123456789012345678901234567890, "n" : [ ]}'
    assert exact in render(options("succeeded"), exact).body
    assert exact in render(options("dead", error=exact), b"").body


def test_rendering_is_the_same_at_every_attempt_and_after_storage() -> None:
    job = options("dead", reason="fatal", error=b'{"type":"x"}')
    stored, payload = unpack_body(pack_body(job, b"").encode())
    assert render(stored, payload) == render(job, b"") == render(job, b"")


@pytest.mark.parametrize("broken", [Options(), Options(parent=Options()), Options(cause=options("dead").cause)])
def test_job_that_is_no_callback_is_refused(broken: Options) -> None:
    with pytest.raises(ValueError, match="not a callback job"):
        render(broken, b"")


def delivery(body: bytes, *, secret: str | None = SECRET, at_s: int = NOW_S) -> dict[str, str]:
    secrets = [secret] if secret else []
    signature = sign("job-1", at_s, body, secrets=secrets, private_key=KEY.private_key)
    return {"Webhook-Id": "job-1", "Webhook-Timestamp": str(at_s), "Webhook-Signature": signature}


def check(headers: Any, body: bytes, key: str | list[str], *, now: float = NOW_S) -> dict[str, Any]:
    return verify_callback(headers, body, key, clock=lambda: now)


def test_callback_verifies_with_its_secret_or_the_public_key() -> None:
    body = render(options("succeeded"), b"1").body
    parsed = json.loads(body)
    assert check(delivery(body), body, SECRET) == parsed
    assert check(delivery(body), body, [OTHER, SECRET]) == parsed
    assert check(delivery(body, secret=None), body, KEY.public) == parsed
    assert check(delivery(body, secret=None), body, [SECRET, KEY.public]) == parsed
    assert check(Headers(delivery(body)), body, SECRET) == parsed


def test_callback_verifies_with_an_independent_library() -> None:
    body = render(options("succeeded"), b'{"size": 1.0}').body
    now_s = int(time.time())
    assert Webhook(SECRET).verify(body, delivery(body, at_s=now_s)) == json.loads(body)


def test_callback_is_rejected_when_it_does_not_verify() -> None:
    body = b'{"type":"job.dead"}'
    for headers, sent, key, now in (
        (delivery(body), body, OTHER, NOW_S),
        (delivery(body), body + b" ", SECRET, NOW_S),
        (delivery(body), body, SECRET, NOW_S + 301),
        (delivery(body), body, SECRET, NOW_S - 301),
        (delivery(body), body, KEY.public, NOW_S),
        ({}, body, SECRET, NOW_S),
    ):
        with pytest.raises(Rejected):
            check(headers, sent, key, now=now)


@pytest.mark.parametrize("body", [b"", b"not json", b"[1]", b"1", b"null", b"\xff"])
def test_signed_body_that_is_no_object_is_rejected(body: bytes) -> None:
    with pytest.raises(Rejected, match="body"):
        check(delivery(body), body, SECRET)


@pytest.mark.parametrize("key", ["", "whsec_%%%", "whpk_YWI=", []])
def test_key_that_cannot_be_used_is_a_value_error(key: str | list[str]) -> None:
    with pytest.raises(ValueError, match=r"key|secret"):
        check(delivery(b"{}"), b"{}", key)
