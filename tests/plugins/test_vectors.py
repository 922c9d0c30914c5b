"""Published and constructed signatures of real sources, each with the verdict it must get."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway import Rejected, Secret, Verifier, WebhookRequest
from gateway.verifier import REASONS
from plugins import github, standard
from plugins import hmac as declarative

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "data" / "webhook-vectors.json").read_text(encoding="utf-8")
)


def _hmac(**scheme: Any) -> Callable[[str], Verifier[Any]]:
    def make(secret: str) -> Verifier[Any]:
        return declarative.HmacVerifier(declarative.HmacConfig(secrets=(Secret(secret),), **scheme))

    return make


def _github(**options: bool) -> Callable[[str], Verifier[Any]]:
    def make(secret: str) -> Verifier[Any]:
        return github.GithubVerifier(github.GithubConfig(secrets=(Secret(secret),), **options))

    return make


def _standard(secret: str) -> Verifier[Any]:
    return standard.StandardVerifier(standard.StandardConfig(secrets=(Secret(secret),)))


SOURCES: list[tuple[str, str, Callable[[str], Verifier[Any]]]] = [
    ("standard-webhooks", "standard", _standard),
    ("standard-webhooks-v1a", "standard", _standard),
    ("github", "github", _github()),
    ("github", "github, sha1 allowed", _github(allow_sha1=True)),
    ("github-sha1", "github, sha1 allowed", _github(allow_sha1=True)),
    ("github", "hmac", _hmac(header="X-Hub-Signature-256", prefix="sha256=")),
    ("github-sha1", "hmac", _hmac(header="X-Hub-Signature", prefix="sha1=", algorithm="sha1")),
    ("meta", "hmac", _hmac(header="X-Hub-Signature-256", prefix="sha256=")),
    ("bitbucket", "hmac", _hmac(header="X-Hub-Signature", prefix="sha256=")),
    ("intercom", "hmac", _hmac(header="X-Hub-Signature", prefix="sha1=", algorithm="sha1")),
    ("dropbox", "hmac", _hmac(header="X-Dropbox-Signature")),
    ("linear", "hmac", _hmac(header="Linear-Signature", id_header="Linear-Delivery")),
    ("shopify", "hmac", _hmac(header="X-Shopify-Hmac-Sha256", encoding="base64")),
    ("pagerduty", "hmac", _hmac(header="X-PagerDuty-Signature", prefix="v1=", separator=",")),
    (
        "slack",
        "hmac",
        _hmac(
            header="X-Slack-Signature",
            prefix="v0=",
            signed="v0:{timestamp}:{body}",
            timestamp_header="X-Slack-Request-Timestamp",
        ),
    ),
    (
        "stripe",
        "hmac",
        _hmac(
            header="Stripe-Signature",
            separator=",",
            prefix="v1=",
            timestamp_prefix="t=",
            signed="{timestamp}.{body}",
        ),
    ),
    (
        "standard-webhooks",
        "hmac",
        _hmac(
            header="webhook-signature",
            separator=" ",
            prefix="v1,",
            encoding="base64",
            signed="{id}.{timestamp}.{body}",
            timestamp_header="webhook-timestamp",
            id_header="webhook-id",
            secret_encoding="whsec",
        ),
    ),
]

CASES = [
    pytest.param(make, vector, id=f"{source} by {verifier}: {vector['note'] or vector['secret']} {index}")
    for source, verifier, make in SOURCES
    for index, vector in enumerate(VECTORS)
    if vector["source"] == source
]


def _request(vector: dict[str, Any]) -> WebhookRequest:
    """As a server hands it over: header values are the bytes that were sent, read as Latin-1."""
    headers = tuple((name.lower(), value.encode().decode("latin-1")) for name, value in vector["headers"].items())
    return WebhookRequest("POST", vector.get("url", "https://hooks.example/hooks/x"), headers, vector["body"].encode())


@pytest.mark.parametrize(("make", "vector"), CASES)
def test_a_vector_gets_its_verdict(make: Callable[[str], Verifier[Any]], vector: dict[str, Any]) -> None:
    verifier, now = make(vector["secret"]), float(vector["now"] or 0)
    if vector["expect"]:
        verifier.verify(_request(vector), now)
        return
    with pytest.raises(Rejected) as caught:
        verifier.verify(_request(vector), now)
    assert caught.value.reason in REASONS


@pytest.mark.parametrize("source", sorted({source for source, _, _ in SOURCES}))
def test_every_source_of_the_table_has_a_vector_that_passes(source: str) -> None:
    assert any(vector["expect"] for vector in VECTORS if vector["source"] == source)


def test_a_sha1_delivery_is_refused_unless_it_is_allowed() -> None:
    vector = next(vector for vector in VECTORS if vector["source"] == "github-sha1")
    with pytest.raises(Rejected, match="no_signature"):
        _github()(vector["secret"]).verify(_request(vector), 0.0)
