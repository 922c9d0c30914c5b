from __future__ import annotations

import hashlib
import hmac
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from gateway import Rejected, Secret, Settings, WebhookRequest
from plugins.github import GithubConfig, GithubVerifier, register_verifiers

SECRET = "a secret"
BODY = b'{"ref":"refs/heads/main"}'


def _mac(body: bytes, algorithm: str = "sha256") -> str:
    return hmac.digest(SECRET.encode(), body, algorithm).hex()


def _request(body: bytes, *more: tuple[str, str]) -> WebhookRequest:
    headers = (("x-hub-signature-256", f"sha256={_mac(body)}"), *more)
    return WebhookRequest("POST", "https://hooks.example/hooks/github", headers, body)


def _verifier(**options: Any) -> GithubVerifier:
    return GithubVerifier(GithubConfig(secrets=(Secret(SECRET),), **options))


def test_delivery_tells_its_event() -> None:
    assert _verifier().verify(_request(BODY, ("x-github-event", "push")), 0.0).event == "push"


def test_redelivery_has_the_same_id() -> None:
    request = _request(BODY, ("x-github-delivery", "guid-1"))
    assert _verifier().verify(request, 0.0).id == _verifier().verify(request, 9e9).id


def test_id_binds_the_guid_to_the_body_since_the_guid_is_not_signed() -> None:
    def delivery_id(body: bytes, guid: str) -> str | None:
        return _verifier().verify(_request(body, ("x-github-delivery", guid)), 0.0).id

    assert delivery_id(BODY, "guid-1") == f"guid-1:{hashlib.sha256(BODY).hexdigest()[:32]}"
    assert len({delivery_id(body, guid) for body in (BODY, b"{}") for guid in ("guid-1", "guid-2")}) == 4


def test_delivery_without_a_guid_is_known_by_its_body() -> None:
    assert _verifier().verify(_request(BODY), 0.0).id == f":{hashlib.sha256(BODY).hexdigest()[:32]}"


@pytest.mark.parametrize("header", ["x-github-delivery", "x-github-event"])
@pytest.mark.parametrize(
    "values", [("a", "a"), ("\xe9",), ("a  b",), (" a",), ("a\x00",), ("a" * 257,), ("a" * 10_000_000,)]
)
def test_label_that_is_repeated_or_not_printable_is_refused(header: str, values: tuple[str, ...]) -> None:
    with pytest.raises(Rejected, match="malformed"):
        _verifier().verify(_request(BODY, *((header, value) for value in values)), 0.0)


def test_bad_sha256_does_not_fall_back_to_a_good_sha1() -> None:
    headers = (("x-hub-signature-256", "sha256=" + "0" * 64), ("x-hub-signature", "sha1=" + _mac(BODY, "sha1")))
    with pytest.raises(Rejected, match="mismatch"):
        _verifier(allow_sha1=True).verify(WebhookRequest("POST", "https://h.example/", headers, BODY), 0.0)


def test_sha1_is_refused_under_the_sha256_header() -> None:
    headers = (("x-hub-signature-256", "sha1=" + _mac(BODY, "sha1")),)
    with pytest.raises(Rejected, match="malformed"):
        _verifier(allow_sha1=True).verify(WebhookRequest("POST", "https://h.example/", headers, BODY), 0.0)


def test_form_encoded_delivery_gives_its_json() -> None:
    text = b'{"a":"1 + 1 = 2 & more","b":"\xc3\xa4"}'
    form = urlencode({"payload": text}).encode()
    assert _verifier().verify(_request(form), 0.0).body == text


@pytest.mark.parametrize(
    "body", [BODY, b"", b'{"text":"x&payload={}"}', b"payload={}&payload=[]", b"a=1&payload={}", b"Payload={}"]
)
def test_other_body_is_left_as_it_came(body: bytes) -> None:
    request = _request(body, ("content-type", "application/x-www-form-urlencoded"))
    assert _verifier().verify(request, 0.0).body is None


@pytest.mark.parametrize("secrets", [(), ("",), ("good", "")])
def test_config_without_a_secret_is_refused(secrets: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="none may be empty"):
        GithubConfig(secrets=tuple(Secret(secret) for secret in secrets))


def test_config_with_a_misspelt_key_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="alow_sha1"):
        msgspec.convert({"secrets": ["x"], "alow_sha1": True}, GithubConfig, dec_hook=lambda kind, value: kind(value))


def test_plugin_offers_its_verifier() -> None:
    assert register_verifiers(Settings()) == [GithubVerifier]
    assert GithubVerifier.name == "github"
