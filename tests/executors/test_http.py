from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Any

import msgspec
import orjson
import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook, WebhookVerificationError
from svix.webhooks import Webhook as SvixWebhook

from executors.http import HttpConfig, HttpExecutor, PreviousSecret, register_executors
from gateway import Attempt, Fatal, Job, Payload, Result, Retry, Secret, Settings, __version__
from gateway.client import verify_callback
from gateway.egress.client import EgressClient
from gateway.signing import SigningKey
from tests.egress.receiver import Peer, Received, Receiver, always, answer, resolving, stall
from tests.executors.values import plain

JOB_ID = "01990000-0000-7000-8000-000000000000"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OLD_SECRET = "whsec_bm90IHRoZSBzZWNyZXQgdGhhdCBzaWduZWQgdGhpcw=="
KEY = SigningKey.generate()
PAYLOAD = b'{"n": 1.0, "big":123456789012345678901234567890}'
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
async def http() -> AsyncIterator[EgressClient]:
    async with EgressClient(["127.0.0.0/8"], lookup=resolving()) as client:
        yield client


def attempt(
    http: EgressClient, config: HttpConfig, *, timeout_s: float = 5.0, keys: tuple[SigningKey, ...] = (KEY,)
) -> Attempt[HttpConfig]:
    return Attempt(
        job=Job(JOB_ID, "invoice", "default", "", 8, 0, (), TRACE),
        payload=Payload(PAYLOAD),
        config=config,
        number=3,
        token="3:abc",
        deadline=asyncio.get_running_loop().time() + timeout_s,
        log=structlog.get_logger(),
        http=http,
        cancelled=asyncio.Event(),
        report=lambda value: None,
        signing_keys=keys,
    )


async def run(http: EgressClient, data: bytes, *, executor: HttpExecutor | None = None) -> Result:
    """What an attempt makes of an answer."""
    async with Receiver(always(data)) as receiver:
        result = await (executor or HttpExecutor()).execute(attempt(http, HttpConfig(url=receiver.url)))
    assert isinstance(result, Result)
    return result


async def sent(
    http: EgressClient, executor: HttpExecutor, *, keys: tuple[SigningKey, ...] = (KEY,), **config: Any
) -> Received:
    """The request that a target with this config gets."""
    async with Receiver(always(answer())) as receiver:
        await executor.execute(attempt(http, HttpConfig(url=receiver.url, **config), keys=keys))
    (seen,) = receiver.requests
    return seen


async def test_payload_is_sent_verbatim_with_the_facts_of_the_attempt(http: EgressClient) -> None:
    seen = await sent(http, HttpExecutor(), headers={"X-Tenant": "7"})
    assert (seen.method, seen.body) == ("POST", PAYLOAD)
    facts = {
        "content-type": "application/json",
        "user-agent": f"event-gateway/{__version__}",
        "gateway-job-id": JOB_ID,
        "gateway-attempt": "3",
        "gateway-max-attempts": "8",
        "idempotency-key": JOB_ID,
        "webhook-id": JOB_ID,
        "traceparent": TRACE,
        "x-tenant": "7",
        "accept-encoding": "identity",
    }
    assert {name: seen.values(name) for name in facts} == {name: [value] for name, value in facts.items()}


async def test_configured_headers_and_method_replace_the_defaults(http: EgressClient) -> None:
    headers = {"Content-Type": "application/cloudevents+json", "User-Agent": "shop"}
    seen = await sent(http, HttpExecutor(), method="PUT", headers=headers)
    assert seen.method == "PUT"
    assert seen.values("content-type") == ["application/cloudevents+json"]
    assert seen.values("user-agent") == ["shop"]


async def test_get_sends_no_body_and_signs_none(http: EgressClient) -> None:
    seen = await sent(http, HttpExecutor(), method="GET", secret=Secret(SECRET))
    assert (seen.method, seen.body, seen.values("content-type")) == ("GET", b"", [])
    Webhook(SECRET).verify(b"", dict(seen.headers), json_parse=False)


async def test_delivery_verifies_with_an_independent_library_when_the_target_has_a_secret(http: EgressClient) -> None:
    seen = await sent(http, HttpExecutor(), secret=Secret(SECRET))
    Webhook(SECRET).verify(seen.body, dict(seen.headers))
    assert verify_callback(dict(seen.headers), seen.body, SECRET)["n"] == 1.0


async def test_delivery_verifies_with_both_secrets_during_a_rotation(http: EgressClient) -> None:
    seen = await sent(
        http, HttpExecutor(), secret=Secret(SECRET), previous_secrets=(PreviousSecret(Secret(OLD_SECRET)),)
    )
    for secret in (SECRET, OLD_SECRET):
        Webhook(secret).verify(seen.body, dict(seen.headers))
        SvixWebhook(secret).verify(seen.body, dict(seen.headers))
    for library in (Webhook, SvixWebhook):
        with pytest.raises(WebhookVerificationError):
            library("whsec_" + base64.b64encode(bytes(32)).decode()).verify(seen.body, dict(seen.headers))


async def test_delivery_verifies_with_plain_ed25519_when_the_target_has_no_secret(http: EgressClient) -> None:
    seen = await sent(http, HttpExecutor())
    headers = dict(seen.headers)
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(KEY.public.removeprefix("whpk_")))
    signature = base64.b64decode(headers["webhook-signature"].removeprefix("v1a,"))
    public.verify(signature, f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + PAYLOAD)


async def test_signature_is_left_out_when_there_is_no_key(http: EgressClient) -> None:
    seen = await sent(http, HttpExecutor(), keys=())
    assert [name for name, _ in seen.headers if name.startswith("webhook-")] == []
    assert seen.values("idempotency-key") == [JOB_ID]


async def test_timestamp_is_that_of_the_attempt(http: EgressClient) -> None:
    seen = await sent(http, HttpExecutor(clock=lambda: 1614265330.9))
    assert seen.values("webhook-timestamp") == ["1614265330"]


DEEP = b"[" * 300 + b"]" * 300


@pytest.mark.parametrize(
    ("kind", "body", "value"),
    [
        ("application/json", b'{"ok": [1, "\xc3\xa4"]}', {"ok": [1, "ä"]}),
        ("Application/JSON; charset=utf-8", b"null", None),
        ("application/problem+json", b"7", 7),
        ("application/json", b"", None),
        ("text/plain", b"", None),
        ("text/plain", b'{"ok": true}', '{"ok": true}'),
        ("application/json", b"{broken", "{broken"),
        ("application/json", b'"\xff"', '"\ufffd"'),
        ("application/json", DEEP, DEEP.decode()),
        ("application/json", b"[" + b"[]," * 300 + b"0]", [[]] * 300 + [0]),
        ("text/html", b"\xffabc", "\ufffdabc"),
    ],
)
async def test_result_is_the_json_answer_or_else_its_text(
    http: EgressClient, kind: str, body: bytes, value: object
) -> None:
    result = await run(http, answer("201 Created", body, f"Content-Type: {kind}"))
    assert plain(result.value) == value
    assert result.meta == {"status": 201, "truncated": False}
    orjson.dumps(result.value)


async def test_long_answer_is_truncated_and_says_so(http: EgressClient) -> None:
    result = await run(http, answer("200 OK", b'"' + b"x" * 70000 + b'"', "Content-Type: application/json"))
    assert result.meta == {"status": 200, "truncated": True}
    assert len(result.value) == 65536


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
async def test_status_that_may_pass_is_retried(http: EgressClient, status: int) -> None:
    with pytest.raises(Retry) as caught:
        await run(http, answer(f"{status} X", b"busy" * 1000))
    assert caught.value.type == "status"
    assert caught.value.details == {"status": status, "body": "busy" * 256, "truncated": True}
    assert caught.value.after is None


@pytest.mark.parametrize("status", [300, 301, 302, 307, 308, 400, 401, 403, 404, 409, 410, 413, 422])
async def test_status_that_will_not_pass_is_fatal(http: EgressClient, status: int) -> None:
    with pytest.raises(Fatal) as caught:
        await run(http, answer(f"{status} X", b"no", "Location: http://127.0.0.1:1/"))
    assert caught.value.type == "status"
    assert caught.value.details == {"status": status, "body": "no"}


async def test_target_may_ask_for_no_retry(http: EgressClient) -> None:
    with pytest.raises(Fatal, match="503 and asked for no retry"):
        await run(http, answer("503 X", b"", "Gateway-No-Retry: True", "Retry-After: 1"))
    with pytest.raises(Retry):
        await run(http, answer("503 X", b"", "Gateway-No-Retry: false"))
    assert (await run(http, answer("200 OK", b"", "Gateway-No-Retry: true"))).value is None


NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("value", "after"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("3600", 3600.0),
        ("3601", 3600.0),
        ("9" * 400, 3600.0),
        ("0" * 400 + "120", 120.0),
        (formatdate(NOW + 90, usegmt=True), 90.0),
        (formatdate(NOW - 90, usegmt=True), 0.0),
        (formatdate(NOW + 86400, usegmt=True), 3600.0),
        ("Mon, 21 Sep 2026 14:14:50 -0000", 90.0),
        ("Monday, 21-Sep-26 14:14:50 GMT", 90.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("1e3", None),
        ("\u0661", None),
        ("Mon, 99 Xyz 9999 99:99:99 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 -9999", None),
        ("Mon, Sep 0 10000000000000000000000 99:99", None),
        ("Mon, Sep 0 10000000000000000000000 99:99 99:99 Sep-2026 AM", None),
    ],
)
async def test_retry_after_is_a_floor_in_either_form(http: EgressClient, value: str, after: float | None) -> None:
    executor = HttpExecutor(clock=lambda: NOW)
    data = b"HTTP/1.1 429 X\r\nContent-Length: 0\r\nRetry-After: " + value.encode() + b"\r\n\r\n"
    with pytest.raises(Retry) as caught:
        await run(http, data, executor=executor)
    assert caught.value.after == after


async def kind_of(http: EgressClient, url: str, *, timeout_s: float = 5.0) -> str:
    with pytest.raises(Retry) as caught:
        async with asyncio.timeout(timeout_s + 5):
            await HttpExecutor().execute(attempt(http, HttpConfig(url=url), timeout_s=timeout_s))
    return caught.value.type


async def test_failure_without_an_answer_is_retried_under_its_name(http: EgressClient) -> None:
    async def reset(peer: Peer) -> None:
        await peer.read()
        peer.reset()

    async with Receiver(stall) as stalling, Receiver(reset) as resetting, Receiver(always(b"SSH-2.0\r\n")) as other:
        assert await kind_of(http, stalling.url, timeout_s=0.2) == "timeout"
        assert await kind_of(http, stalling.url, timeout_s=0.0) == "timeout"
        assert await kind_of(http, resetting.url) == "reset"
        assert await kind_of(http, other.url) == "protocol"
    assert await kind_of(http, other.url) == "connect"
    assert await kind_of(http, "http://no-such.example/") == "dns"


async def test_denied_address_is_fatal_and_prints_the_mend() -> None:
    async with Receiver(always(answer())) as receiver, EgressClient(lookup=resolving()) as http:
        with pytest.raises(Fatal, match=r'add "127\.0\.0\.1/32" to \[egress\] allow') as caught:
            await HttpExecutor().execute(attempt(http, HttpConfig(url=receiver.url)))
        assert caught.value.type == "egress_denied"
        assert receiver.connections == 0


async def test_cancelled_attempt_leaves_no_connection(http: EgressClient) -> None:
    async with Receiver(stall) as receiver:
        task = asyncio.create_task(HttpExecutor().execute(attempt(http, HttpConfig(url=receiver.url))))
        await receiver.arrived()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(receiver.left.wait(), 5)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "url"),
        ({"url": "ftp://a.example/"}, "http:// or https://"),
        ({"url": "http://u:p@a.example/"}, "user or password"),
        ({"url": "http://a.example/", "method": "CONNECT"}, "CONNECT"),
        ({"url": "http://a.example/", "headers": {"Host": "b"}}, "set by the gateway"),
        ({"url": "http://a.example/", "headers": {"Webhook-Id": "b"}}, "set by the gateway"),
        ({"url": "http://a.example/", "secret": "whsec_%%%"}, "not a Standard Webhooks secret"),
        ({"url": "http://a.example/", "timeout": "3s"}, "timeout"),
    ],
)
def test_config_is_refused_with_the_reason(config: dict[str, Any], why: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=why):
        msgspec.convert(config, HttpConfig, dec_hook=lambda kind, value: kind(value))


async def test_every_signing_key_signs_while_receivers_change_over(http: EgressClient) -> None:
    new = SigningKey.generate()
    seen = await sent(http, HttpExecutor(), keys=(new, KEY))
    for key in (new, KEY):
        assert verify_callback(dict(seen.headers), seen.body, key.public)["n"] == 1.0


def test_hook_offers_the_executor() -> None:
    (executor,) = register_executors(Settings())
    assert (executor.name, executor.Config, executor.remote) == ("http", HttpConfig, True)
