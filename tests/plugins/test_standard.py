from __future__ import annotations

import base64
import hmac
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook

from gateway import Duration, Rejected, Secret, Settings, WebhookRequest, signing
from plugins.standard import StandardConfig, StandardVerifier, register_verifiers

NOW = 1_700_000_000.0
KEY = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
BODY = b'{"type":"invoice.paid"}'
NAMES = ("id", "timestamp", "signature")


def _verifier(*secrets: str, **options: Any) -> StandardVerifier:
    return StandardVerifier(StandardConfig(secrets=tuple(Secret(secret) for secret in secrets), **options))


def _headers(timestamp: str = "1700000000", *, family: str = "webhook") -> list[tuple[str, str]]:
    """Signed over the timestamp as it is written, as whoever holds the secret can."""
    mac = hmac.digest(signing.parse_secret(KEY), f"msg_1.{timestamp}.".encode("latin-1") + BODY, "sha256")
    values = ("msg_1", timestamp, "v1," + base64.b64encode(mac).decode())
    return [(f"{family}-{name}", value) for name, value in zip(NAMES, values, strict=True)]


def _post(headers: list[tuple[str, str]]) -> WebhookRequest:
    return WebhookRequest("POST", "https://hooks.example/hooks/x", tuple(headers), BODY)


@pytest.mark.parametrize("family", ["webhook", "svix"])
def test_delivery_is_known_by_its_signed_id(family: str) -> None:
    assert _verifier(KEY).verify(_post(_headers(family=family)), NOW).id == "msg_1"


def test_delivery_of_the_reference_library_is_accepted() -> None:
    sent = Webhook(KEY).sign("msg_2", datetime.fromtimestamp(NOW, UTC), BODY.decode())
    headers = [("webhook-id", "msg_2"), ("webhook-timestamp", "1700000000"), ("webhook-signature", sent)]
    assert _verifier(KEY).verify(_post(headers), NOW).id == "msg_2"


@pytest.mark.parametrize("text", ["1_700_000_000", "1700000000.0", " 1700000000", "+1700000000", "1.7e9", "NaN"])
def test_rightly_signed_time_that_is_not_digits_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match="malformed"):
        _verifier(KEY).verify(_post(_headers(text)), NOW)


@pytest.mark.parametrize(("away", "accepted"), [(-61, False), (-60, True), (60, True), (61, False)])
def test_tolerance_holds_both_ways(away: int, accepted: bool) -> None:
    verifier, request = _verifier(KEY, tolerance=Duration(60.0)), _post(_headers())
    if accepted:
        verifier.verify(request, NOW + away)
        return
    with pytest.raises(Rejected, match="timestamp"):
        verifier.verify(request, NOW + away)


def test_late_forgery_is_a_mismatch_and_not_late() -> None:
    with pytest.raises(Rejected, match="mismatch"):
        _verifier(KEY).verify(_post([*_headers()[:2], ("webhook-signature", "v1," + "A" * 43 + "=")]), NOW + 301)


def test_headers_of_two_families_are_not_mixed() -> None:
    headers = [*_headers()[1:], ("svix-id", "msg_1")]
    with pytest.raises(Rejected, match="no_signature"):
        _verifier(KEY).verify(_post(headers), NOW)


def test_bad_signature_is_not_rescued_by_a_good_one_under_the_older_name() -> None:
    headers = [*_headers()[:2], ("webhook-signature", "v1," + "A" * 43 + "="), *_headers(family="svix")]
    with pytest.raises(Rejected, match="mismatch"):
        _verifier(KEY).verify(_post(headers), NOW)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_repeated_header_is_refused(name: str) -> None:
    headers = [*_headers(), (name, dict(_headers())[name])]
    with pytest.raises(Rejected, match="malformed"):
        _verifier(KEY).verify(_post(headers), NOW)


def test_seventeenth_candidate_is_refused() -> None:
    *others, (name, value) = _headers()
    good = _post([*others, (name, " ".join(["v2,x"] * 15 + [value]))])
    assert _verifier(KEY).verify(good, NOW).id == "msg_1"
    with pytest.raises(Rejected, match="malformed"):
        _verifier(KEY).verify(_post([*others, (name, " ".join(["v2,x"] * 16 + [value]))]), NOW)


def test_v1a_signature_is_no_v1_signature() -> None:
    key = signing.SigningKey.generate()
    value = signing.sign("msg_1", int(NOW), BODY, private_key=key.private_key)
    headers = [*_headers()[:2], ("webhook-signature", value)]
    _verifier(KEY, key.public).verify(_post(headers), NOW)
    for verifier, sent in ((_verifier(KEY), value), (_verifier(key.public), value.replace("v1a,", "v1,"))):
        with pytest.raises(Rejected, match="mismatch"):
            verifier.verify(_post([*_headers()[:2], ("webhook-signature", sent)]), NOW)


@pytest.mark.parametrize(
    ("secrets", "message"),
    [
        ((), "at least one key"),
        (("",), "whsec_"),
        (("whsec_",), "whsec_"),
        (("whsec_not base64!",), "whsec_"),
        (("whpk_AAAA",), "whpk_"),
        ((KEY, ""), "whsec_"),
        (("whsk_" + "A" * 43 + "=",), "public half"),
    ],
)
def test_config_with_a_key_that_cannot_be_used_is_refused(secrets: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        StandardConfig(secrets=tuple(Secret(secret) for secret in secrets))
    assert not any(secret in str(caught.value) for secret in secrets if len(secret) > 6)


def test_plugin_offers_its_verifiers() -> None:
    assert [each.name for each in register_verifiers(Settings())] == ["standard", "svix"]
