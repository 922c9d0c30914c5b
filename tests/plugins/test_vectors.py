"""Published and constructed signatures of real sources, each with the verdict it must get."""

from __future__ import annotations

from typing import Any

import pytest

from gateway import Rejected, Verifier
from gateway.verifier import REASONS
from tests.plugins.presets import VERIFIERS, Vector, make, vectors

VECTORS = vectors()

FREE: list[tuple[str, dict[str, Any]]] = [
    ("github", {"header": "X-Hub-Signature-256", "prefix": "sha256="}),
    ("bitbucket", {"header": "X-Hub-Signature", "prefix": "sha256="}),
    ("intercom", {"header": "X-Hub-Signature", "prefix": "sha1=", "algorithm": "sha1"}),
    ("linear", {"header": "Linear-Signature", "timestamp_field": "webhookTimestamp",
                "timestamp_format": "milliseconds", "tolerance": "60s"}),
    ("pagerduty", {"header": "X-PagerDuty-Signature", "prefix": "v1=", "separator": ","}),
    ("square", {"header": "x-square-hmacsha256-signature", "encoding": "base64", "signed": "{url}{body}"}),
    ("zendesk", {"header": "X-Zendesk-Webhook-Signature", "encoding": "base64", "signed": "{timestamp}{body}",
                 "timestamp_header": "X-Zendesk-Webhook-Signature-Timestamp", "timestamp_format": "rfc3339"}),
    ("slack", {"header": "X-Slack-Signature", "prefix": "v0=", "signed": "v0:{timestamp}:{body}",
               "timestamp_header": "X-Slack-Request-Timestamp"}),
    ("stripe", {"header": "Stripe-Signature", "separator": ",", "prefix": "v1=", "timestamp_prefix": "t=",
                "signed": "{timestamp}.{body}"}),
    ("twilio", {"header": "X-Twilio-Signature", "algorithm": "sha1", "encoding": "base64", "signed": "{url}{form}",
                "url_form": "any-port", "body_hash_query": "bodySHA256", "body_format": "form"}),
    ("standard", {"header": "webhook-signature", "separator": " ", "prefix": "v1,", "encoding": "base64",
                  "signed": "{id}.{timestamp}.{body}", "timestamp_header": "webhook-timestamp",
                  "id_header": "webhook-id", "secret_encoding": "whsec"}),
    ("discord", {"header": "X-Signature-Ed25519", "algorithm": "ed25519", "signed": "{timestamp}{body}",
                 "timestamp_header": "X-Signature-Timestamp"}),
    ("sendgrid", {"header": "X-Twilio-Email-Event-Webhook-Signature", "algorithm": "ecdsa-p256", "encoding": "base64",
                  "signed": "{timestamp}{body}",
                  "timestamp_header": "X-Twilio-Email-Event-Webhook-Timestamp"}),
]  # fmt: skip
"""The same sources, declared in configuration and not by a preset."""


def _by_one_scheme(vector: Vector) -> bool:
    """Whether no second scheme of the preset is meant, nor anything that the trigger says of it."""
    headers = dict(vector.request.headers)
    others = ("x-twilio-webhooks-signature-settings", "x-hub-signature")
    alone = vector.verifier not in ("github", "twilio") or not any(name in headers for name in others)
    keyed = vector.secret.startswith("whpk_") or "v1a" in headers.get("webhook-signature", "")
    return alone and not keyed and not vector.config


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_vector_gets_its_verdict(vector: Vector) -> None:
    check(vector.make(), vector)


@pytest.mark.parametrize(
    ("scheme", "vector"),
    [
        pytest.param(scheme, vector, id=vector.name)
        for source, scheme in FREE
        for vector in VECTORS
        if vector.verifier == source and _by_one_scheme(vector)
    ],
)
def test_a_vector_gets_its_verdict_by_a_declared_scheme(scheme: dict[str, Any], vector: Vector) -> None:
    kind = "public-key" if scheme.get("algorithm") in ("ed25519", "ecdsa-p256") else "hmac"
    check(make(kind, vector.secret, **scheme), vector)


def check(verifier: Verifier[Any], vector: Vector) -> None:
    if vector.expect:
        verifier.verify(vector.request, vector.now)
        return
    with pytest.raises(Rejected) as caught:
        verifier.verify(vector.request, vector.now)
    assert caught.value.reason in REASONS


def test_every_verifier_has_a_vector_that_passes() -> None:
    assert {vector.verifier for vector in VECTORS if vector.expect} == set(VERIFIERS)


def test_a_sha1_delivery_is_refused_unless_it_is_allowed() -> None:
    vector = next(vector for vector in VECTORS if vector.config.get("allow_sha1"))
    with pytest.raises(Rejected, match="no_signature"):
        make("github", vector.secret).verify(vector.request, 0.0)


def test_an_older_hubspot_signature_is_refused_unless_it_is_allowed() -> None:
    for vector in VECTORS:
        if vector.config.get("versions"):
            with pytest.raises(Rejected, match="no_signature"):
                make("hubspot", vector.secret).verify(vector.request, vector.now)


def test_an_event_of_shopify_tells_its_topic_and_its_id() -> None:
    vector = next(vector for vector in VECTORS if vector.name.endswith("shopify-an Event"))
    delivery = vector.make().verify(vector.request, vector.now)
    assert (delivery.event, (delivery.id or "").partition(":")[0]) == ("Product", "w-1")
