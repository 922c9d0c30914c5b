"""A target that sends back what it was sent: its secrets are in no result and in no error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import orjson
import pytest

from executors.http import Basic, Bearer, HmacHeader, HttpConfig, HttpExecutor
from gateway import Fatal, Result, Secret
from gateway.egress.client import EgressClient
from gateway.testing.executors import make_attempt
from tests.egress.receiver import Receiver, always, answer, resolving

BEARER, BASIC, HEADER, QUERY = "bea/rer+SECRET==", 'pass"word&SECRET', "headerSECRET", "query SECRET"


@pytest.fixture
async def http() -> AsyncIterator[EgressClient]:
    async with EgressClient(["127.0.0.0/8"], lookup=resolving()) as client:
        yield client


async def answered(http: EgressClient, body: bytes, *, status: int = 200, token: str = "", **config: Any) -> str:
    """All that is kept of an attempt whose target answers so, as JSON."""
    url = config.pop("query", "?token=query%20SECRET&page=seven")
    async with Receiver(always(answer(f"{status} X", body, "content-type: application/json"))) as receiver:
        config = {"headers": {"X-Api-Key": HEADER, "X-Shop": "northern"}} | config
        attempt = make_attempt(HttpConfig(url=receiver.url + url, **config), b"{}", http=http)
        attempt = msgspec.structs.replace(attempt, completion_token=token)
        try:
            result = await HttpExecutor().execute(attempt)
        except Fatal as failure:
            return orjson.dumps([failure.message, failure.details]).decode()
    assert isinstance(result, Result)
    return orjson.dumps(result.value).decode()


@pytest.mark.parametrize("status", [200, 404])
async def test_secrets_that_come_back_are_hidden(http: EgressClient, status: int) -> None:
    body = orjson.dumps(
        {
            "authorization": f"Bearer {BEARER}",
            "x-api-key": HEADER,
            "path": "/in?token=query%20SECRET&page=seven",
            "token": QUERY,
            "gateway-token": "tokenSECRET",
            "x-shop": "northern",
        }
    )
    kept = await answered(http, body, status=status, token="tokenSECRET", auth=Bearer(Secret(BEARER)))
    assert "SECRET" not in kept
    assert "northern" in kept
    assert "page=seven" in kept


@pytest.mark.parametrize("escape", [lambda text: text.replace("/", "\\/"), lambda text: text])
async def test_bearer_token_is_hidden_however_json_escapes_it(http: EgressClient, escape: Any) -> None:
    body = b'{"got": "' + escape(BEARER).encode() + b'"}'
    kept = await answered(http, body, auth=Bearer(Secret(BEARER)))
    assert orjson.loads(kept) == {"got": "***"}


@pytest.mark.parametrize("text", [BASIC, "pass&quot;word&amp;SECRET", 'pass\\"word&SECRET', "pass%22word%26SECRET"])
async def test_password_is_hidden_as_it_is_and_as_pages_write_it(http: EgressClient, text: str) -> None:
    kept = await answered(http, f"<p>{text}</p>".encode(), auth=Basic("me", Secret(BASIC)))
    assert "SECRET" not in kept
    encoded = await answered(http, b"Basic bWU6cGFzcyJ3b3JkJlNFQ1JFVA==", auth=Basic("me", Secret(BASIC)))
    assert "bWU6" not in encoded


async def test_signature_in_a_header_of_any_name_is_hidden(http: EgressClient) -> None:
    auth = HmacHeader("X-Check", Secret("k" * 16), prefix="v1=")
    mac = auth.header(b"{}")[1]
    assert mac not in await answered(http, mac.encode(), auth=auth)


async def test_secret_at_the_end_of_what_is_kept_is_hidden_although_it_is_cut(http: EgressClient) -> None:
    body = b"x" * (65536 - 9) + BEARER.encode() * 2
    assert "bea/rer" not in await answered(http, body, auth=Bearer(Secret(BEARER)))


async def test_answer_without_secrets_is_kept_byte_for_byte(http: EgressClient) -> None:
    config: dict[str, Any] = {"headers": {"X-Api-Key": "abc"}, "query": "?v=1&key=7"}
    assert await answered(http, b'{"abc": 7, "n": 1.0}', **config) == '{"abc": 7, "n": 1.0}'


async def test_secrets_of_each_request_are_hidden_when_targets_answer_in_turn(http: EgressClient) -> None:
    for number in (1, 2, 1):
        secret, token = f"bearerSECRET{number}", f"tokenSECRET{number}"
        body = orjson.dumps([secret, token, f"bearerSECRET{3 - number}"])
        kept = await answered(http, body, token=token, query="", auth=Bearer(Secret(secret)))
        assert orjson.loads(kept) == ["***", "***", f"bearerSECRET{3 - number}"]
