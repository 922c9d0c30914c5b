"""Each provider's handshake as its documents have it, and what nobody can make of it."""

from __future__ import annotations

import base64
import hmac
import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateway import HandshakeResponse, Rejected, Verifier, WebhookRequest
from tests.plugins.presets import make

NOW = 1_700_000_000.0
URL = "https://hooks.example/hooks/x"
SECRET = "a secret"
BASE64 = "yw7+/3Kq_8-~.A=="
"""Challenges are opaque: base64 in either alphabet is as good as the words of the documents."""
EVIL = ("=", "a=b", "<script>alert(1)</script>", "a b", "a\r\nset-cookie: x", "", "ä", "a" * 257, "{}", "v0:1:x")
PLAIN = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}


def asked(verifier: Verifier[Any], query: str = "", method: str = "GET", **headers: str) -> HandshakeResponse | None:
    sent = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return verifier.handshake(WebhookRequest(method, f"{URL}?{query}" if query else URL, sent, b""))


def told(verifier: Verifier[Any], body: dict[str, Any], **headers: str) -> HandshakeResponse | None:
    """What a signed request is answered with; None: it is an ordinary delivery."""
    sent = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    request = verifier.sign(WebhookRequest("POST", URL, sent, json.dumps(body).encode()), NOW)
    assert request is not None
    return verifier.verify(request, NOW).answer


def test_slack_challenge_comes_back_as_plain_text_once_it_verifies() -> None:
    slack, body = make("slack", SECRET), {"type": "url_verification", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmd"}
    answer = told(slack, body)
    assert answer == HandshakeResponse(200, b"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmd", tuple(PLAIN.items()))
    unsigned = WebhookRequest("POST", URL, (), json.dumps(body).encode())
    assert slack.handshake(unsigned) is None
    with pytest.raises(Rejected):
        slack.verify(unsigned, NOW)
    assert told(slack, {"type": "event_callback", "challenge": "x"}) is None
    assert told(slack, {"type": "url_verification", "challenge": BASE64}) == replace(answer, body=BASE64.encode())


@pytest.mark.parametrize("challenge", [*EVIL, None, 7, ["x"]])
def test_slack_challenge_that_is_no_plain_text_is_refused(challenge: Any) -> None:
    with pytest.raises(Rejected, match="malformed"):
        told(make("slack", SECRET), {"type": "url_verification", "challenge": challenge})


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b'{"type":1}', HandshakeResponse(200, b'{"type":1}')),
        (b'{"version":1,"application_id":"1","type":0}', HandshakeResponse(204)),
        (b'{"version":1,"application_id":"1","type":1,"event":{"type":"APPLICATION_AUTHORIZED"}}', None),
        (b'{"id":"1","type":2}', None),
        (b'{"type":true}', None),
        (b'{"type":"1"}', None),
    ],
)
def test_discord_pings_are_answered_when_they_verify(body: bytes, answer: HandshakeResponse | None) -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    discord = make("discord", key.public_key().public_bytes_raw().hex())
    headers = {"x-signature-timestamp": str(int(NOW)), "x-signature-ed25519": key.sign(b"1700000000" + body).hex()}
    request = WebhookRequest("POST", URL, tuple(headers.items()), body)
    found = discord.verify(request, NOW).answer
    assert (found and (found.status, found.body)) == (answer and (answer.status, answer.body))
    assert found is None or dict(found.headers)["content-type"] == "application/json"
    probe = replace(request, headers=(("x-signature-timestamp", "1"), ("x-signature-ed25519", "0" * 128)))
    with pytest.raises(Rejected):
        discord.verify(probe, NOW)


def test_discord_event_is_a_repeat_under_another_time_and_tells_its_type() -> None:
    """The payload of discord.com/developers/events/webhook-events: an event is of type 1, as an interaction's PING."""
    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    discord = make("discord", key.public_key().public_bytes_raw().hex())
    body = (
        b'{"version":1,"application_id":"1234560123453231555","type":1,"event":{"type":"APPLICATION_DEAUTHORIZED",'
        b'"timestamp":"2024-10-18T14:42:53.064834","data":{"user":{}}}}'
    )
    found = []
    for at in ("1700000000", "1700000060"):
        headers = {"x-signature-timestamp": at, "x-signature-ed25519": key.sign(at.encode() + body).hex()}
        found.append(discord.verify(WebhookRequest("POST", URL, tuple(headers.items()), body), NOW))
    assert found[0] == found[1]
    assert (found[0].answer, found[0].event) == (None, "APPLICATION_DEAUTHORIZED")


def test_meta_challenge_comes_back_for_our_verify_token_only() -> None:
    meta = make("meta", SECRET, verify_token="let me in")
    good = "hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token="
    assert asked(meta, good + "let+me+in") == HandshakeResponse(200, b"1158201444", tuple(PLAIN.items()))
    for query, reason in ((good + "let+me", "mismatch"), (good, "mismatch"), ("hub.mode=subscribe", "no_signature")):
        with pytest.raises(Rejected, match=reason):
            asked(meta, query)
    with pytest.raises(Rejected, match="mismatch"):
        asked(make("meta", SECRET), good)
    for challenge in (*EVIL, BASE64):
        with pytest.raises(Rejected, match="malformed"):
            asked(meta, f"hub.mode=subscribe&hub.verify_token=let+me+in&hub.challenge={quote(challenge)}")


def test_twitch_challenge_comes_back_once_it_verifies() -> None:
    twitch, body = make("twitch", SECRET), {"challenge": "pogchamp-kappa-360noscope-vohiyo", "subscription": {}}
    kind = "twitch_eventsub_message_type"
    answer = told(twitch, body, **{kind: "webhook_callback_verification"})
    assert answer == HandshakeResponse(200, b"pogchamp-kappa-360noscope-vohiyo", tuple(PLAIN.items()))
    assert told(twitch, body, **{kind: "notification"}) is None
    assert told(twitch, {"subscription": {"status": "authorization_revoked"}}, **{kind: "revocation"}) is None
    for challenge in EVIL:
        with pytest.raises(Rejected, match="malformed"):
            told(twitch, {"challenge": challenge}, **{kind: "webhook_callback_verification"})


def test_dropbox_challenge_comes_back_as_plain_text() -> None:
    dropbox = make("dropbox", SECRET)
    assert asked(dropbox, "challenge=abc-DEF_1.2") == HandshakeResponse(200, b"abc-DEF_1.2", tuple(PLAIN.items()))
    assert asked(dropbox, f"challenge={quote(BASE64)}") is not None
    assert asked(dropbox, "other=1") is None
    assert asked(dropbox, "challenge=abc", method="POST") is None
    for challenge in EVIL:
        with pytest.raises(Rejected, match="malformed"):
            asked(dropbox, f"challenge={quote(challenge)}")


def test_x_challenge_is_answered_with_its_proof_and_signs_no_delivery() -> None:
    x = make("x", SECRET)
    answer = asked(x, "crc_token=challenge_string")
    assert answer is not None
    made = hmac.digest(SECRET.encode(), b"challenge_string", "sha256")
    assert json.loads(answer.body) == {"response_token": "sha256=" + base64.b64encode(made).decode()}
    answer = asked(x, f"crc_token={quote(BASE64)}&nonce=1")
    assert answer is not None
    made = hmac.digest(SECRET.encode(), BASE64.encode(), "sha256")
    assert json.loads(answer.body) == {"response_token": "sha256=" + base64.b64encode(made).decode()}
    for token in (*EVIL, '{"for_user_id":"1"}'):
        with pytest.raises(Rejected, match="malformed"):
            asked(x, f"crc_token={quote(token)}")
    signature = json.loads(answer.body)["response_token"]
    forged = WebhookRequest("POST", URL, (("x-twitter-webhooks-signature", signature),), BASE64.encode())
    with pytest.raises(Rejected, match="body"):
        x.verify(forged, NOW)


def test_okta_challenge_comes_back_as_json() -> None:
    okta = make("okta", SECRET)
    answer = asked(okta, x_okta_verification_challenge="WTeYhVn3xZFpgLiy1f0Qu3")
    assert answer is not None
    assert json.loads(answer.body) == {"verification": "WTeYhVn3xZFpgLiy1f0Qu3"}
    assert asked(okta) is None
    for challenge in EVIL[:3]:
        with pytest.raises(Rejected, match="malformed"):
            asked(okta, x_okta_verification_challenge=challenge)


def test_zoom_token_is_answered_with_its_proof_once_it_verifies() -> None:
    zoom = make("zoom", SECRET)
    answer = told(zoom, {"event": "endpoint.url_validation", "payload": {"plainToken": "qgg8vlvZRS6UYooatFL8Aw"}})
    assert answer is not None
    made = hmac.digest(SECRET.encode(), b"qgg8vlvZRS6UYooatFL8Aw", "sha256").hex()
    assert json.loads(answer.body) == {"plainToken": "qgg8vlvZRS6UYooatFL8Aw", "encryptedToken": made}
    assert told(zoom, {"event": "meeting.started"}) is None
    for token in EVIL:
        with pytest.raises(Rejected, match="malformed"):
            told(zoom, {"event": "endpoint.url_validation", "payload": {"plainToken": token}})


def test_zoom_token_is_answered_by_the_secret_that_asked_while_they_change_over() -> None:
    body = {"event": "endpoint.url_validation", "payload": {"plainToken": "abc"}}
    for known in ((SECRET, "another"), ("another", SECRET)):
        request = make("zoom", SECRET).sign(WebhookRequest("POST", URL, (), json.dumps(body).encode()), NOW)
        assert request is not None
        answer = make("zoom", *known).verify(request, NOW).answer
        assert answer is not None
        assert json.loads(answer.body)["encryptedToken"] == hmac.digest(SECRET.encode(), b"abc", "sha256").hex()


def test_zoom_event_is_a_repeat_in_a_later_attempt() -> None:
    zoom, found = make("zoom", SECRET), []
    for at, started in ((NOW, 1_700_000_000_000), (NOW + 301, 1_700_000_000_000), (NOW, 1_700_000_000_001)):
        body = json.dumps({"event": "meeting.started", "event_ts": started, "payload": {}}).encode()
        request = zoom.sign(WebhookRequest("POST", URL, (), body), at)
        assert request is not None
        found.append(zoom.verify(request, at).id)
    assert found[0] == found[1] != found[2]


def test_intercom_head_is_answered() -> None:
    assert asked(make("intercom", SECRET), method="HEAD") == HandshakeResponse(200)
    assert asked(make("intercom", SECRET)) is None


@pytest.mark.parametrize(
    ("allowed", "origin", "granted"),
    [
        (["eventemitter.example.com"], "eventemitter.example.com", True),
        (["*"], "eventemitter.example.com", True),
        (["EventEmitter.example.com"], "eventemitter.Example.com", True),
        (["other.example"], "eventemitter.example.com", False),
        ([], "eventemitter.example.com", False),
        (["*"], "a\r\nx: y", False),
        (["*"], "<script>", False),
    ],
)
def test_cloudevents_origin_is_granted_only_where_it_is_allowed(allowed: list[str], origin: str, granted: bool) -> None:
    events = make("cloudevents", SECRET, allowed_origins=allowed, allowed_rate=120)
    answer = asked(events, method="OPTIONS", webhook_request_origin=origin, webhook_request_rate="500")
    assert answer is not None
    assert answer.status == 200
    expected = {"allow": "POST"}
    if granted:
        expected |= {"webhook-allowed-origin": origin, "webhook-allowed-rate": "120"}
    assert dict(answer.headers) == expected


def test_cloudevents_rate_is_any_where_none_is_set_and_a_post_is_no_handshake() -> None:
    events = make("cloudevents", SECRET, allowed_origins=["*"])
    answer = asked(events, method="OPTIONS", webhook_request_origin="a.example")
    assert answer is not None
    assert dict(answer.headers)["webhook-allowed-rate"] == "*"
    assert asked(events, method="POST", webhook_request_origin="a.example") is None
