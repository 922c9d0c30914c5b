"""The verifier contract, run on every built-in verifier and on each family of the declarative one."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest

from gateway import Secret, Verifier, WebhookRequest, signing
from gateway.testing.verifiers import Sign, VerifierContract
from plugins import github, standard
from plugins import hmac as declarative

FIRST, SECOND, WRONG = "first secret", "second secret", "another secret"
URL = "https://hooks.example/hooks/test"


def _whsec(secret: str) -> str:
    return "whsec_" + base64.b64encode(secret.encode()).decode()


def _post(headers: dict[str, str], body: bytes) -> WebhookRequest:
    return WebhookRequest("POST", URL, tuple(headers.items()), body)


class TestGithub(VerifierContract):
    signature_header = "x-hub-signature-256"

    @pytest.fixture
    def verifier(self) -> Verifier[Any]:
        return github.GithubVerifier(github.GithubConfig(secrets=(Secret(FIRST), Secret(SECOND))))

    @pytest.fixture
    def sign(self) -> Sign:
        return self.signer(FIRST)

    @pytest.fixture
    def sign_second(self) -> Sign:
        return self.signer(SECOND)

    @pytest.fixture
    def sign_wrong(self) -> Sign:
        return self.signer(WRONG)

    def signer(self, secret: str) -> Sign:
        def sign(body: bytes, now: float) -> WebhookRequest:
            mac = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
            headers = {
                "x-github-event": "push",
                "x-github-delivery": "72d3162e",
                self.signature_header: f"sha256={mac}",
            }
            return _post(headers, body)

        return sign


class TestGithubSha1(TestGithub):
    signature_header = "x-hub-signature"

    @pytest.fixture
    def verifier(self) -> Verifier[Any]:
        return github.GithubVerifier(github.GithubConfig(secrets=(Secret(FIRST), Secret(SECOND)), allow_sha1=True))

    @pytest.fixture(autouse=True)
    def _no_sha256(self, sign: Sign) -> None:
        assert "x-hub-signature-256" not in dict(sign(b"", 0).headers)

    def signer(self, secret: str) -> Sign:
        def sign(body: bytes, now: float) -> WebhookRequest:
            mac = hmac.new(secret.encode(), body, hashlib.sha1).hexdigest()
            return _post({"x-hub-signature": f"sha1={mac}"}, body)

        return sign


class TestStandard(VerifierContract):
    signature_header = "webhook-signature"
    timestamp_header = "webhook-timestamp"
    tolerance_s = 300.0
    family = "webhook"

    @pytest.fixture
    def verifier(self) -> Verifier[Any]:
        secrets = (Secret(_whsec(FIRST)), Secret(_whsec(SECOND)))
        return standard.StandardVerifier(standard.StandardConfig(secrets=secrets))

    @pytest.fixture
    def sign(self) -> Sign:
        return self.signer(FIRST)

    @pytest.fixture
    def sign_second(self) -> Sign:
        return self.signer(SECOND)

    @pytest.fixture
    def sign_wrong(self) -> Sign:
        return self.signer(WRONG)

    def signer(self, secret: str) -> Sign:
        def sign(body: bytes, now: float) -> WebhookRequest:
            signature = signing.sign("msg_1", int(now), body, secrets=[_whsec(secret)])
            return self.request(int(now), signature, body=body)

        return sign

    def request(self, timestamp: int, signature: str, *, body: bytes) -> WebhookRequest:
        values = {"id": "msg_1", "timestamp": str(timestamp), "signature": signature}
        return _post({f"{self.family}-{part}": value for part, value in values.items()}, body)


class TestStandardUnderItsOlderNames(TestStandard):
    signature_header = "svix-signature"
    timestamp_header = "svix-timestamp"
    family = "svix"


class TestStandardAsymmetric(TestStandard):
    def key(self, secret: str) -> signing.SigningKey:
        seed = hashlib.sha256(secret.encode()).digest()
        return signing.SigningKey.parse("whsk_" + base64.b64encode(seed).decode())

    @pytest.fixture
    def verifier(self) -> Verifier[Any]:
        """One key of each kind: a sender may move from v1 to v1a."""
        secrets = (Secret(self.key(FIRST).public), Secret(self.key(SECOND).public), Secret(_whsec(FIRST)))
        return standard.StandardVerifier(standard.StandardConfig(secrets=secrets))

    def signer(self, secret: str) -> Sign:
        def sign(body: bytes, now: float) -> WebhookRequest:
            signature = signing.sign("msg_1", int(now), body, private_key=self.key(secret).private_key)
            return self.request(int(now), signature, body=body)

        return sign


class HmacContract(VerifierContract):
    """A family of the declarative verifier; `wrap` puts a MAC and a time into headers."""

    scheme: dict[str, Any]
    template = "{body}"

    def wrap(self, mac: bytes, timestamp: str) -> dict[str, str]:
        raise NotImplementedError

    @pytest.fixture
    def verifier(self) -> Verifier[Any]:
        secrets = (Secret(FIRST), Secret(SECOND))
        return declarative.HmacVerifier(
            declarative.HmacConfig(secrets=secrets, header=self.signature_header, signed=self.template, **self.scheme)
        )

    @pytest.fixture
    def sign(self) -> Sign:
        return self.signer(FIRST)

    @pytest.fixture
    def sign_second(self) -> Sign:
        return self.signer(SECOND)

    @pytest.fixture
    def sign_wrong(self) -> Sign:
        return self.signer(WRONG)

    def signer(self, secret: str) -> Sign:
        before, _, after = self.template.partition("{body}")

        def sign(body: bytes, now: float) -> WebhookRequest:
            text = [part.replace("{timestamp}", str(int(now))).replace("{id}", "e-1") for part in (before, after)]
            mac = hmac.digest(secret.encode(), text[0].encode() + body + text[1].encode(), "sha256")
            return _post(self.wrap(mac, str(int(now))), body)

        return sign


class TestHmacOverTheBodyInHex(HmacContract):
    signature_header = "x-signature"
    scheme = {"prefix": "sha256="}  # noqa: RUF012

    def wrap(self, mac: bytes, timestamp: str) -> dict[str, str]:
        return {"x-signature": f"sha256={mac.hex()}"}


class TestHmacOverTheBodyInBase64(HmacContract):
    signature_header = "x-shopify-hmac-sha256"
    scheme = {"encoding": "base64", "id_header": "X-Shopify-Event-Id"}  # noqa: RUF012

    def wrap(self, mac: bytes, timestamp: str) -> dict[str, str]:
        return {"x-shopify-hmac-sha256": base64.b64encode(mac).decode(), "x-shopify-event-id": "e-1"}


class TestHmacWithHeadersOfTheirOwn(HmacContract):
    signature_header = "x-slack-signature"
    timestamp_header = "x-slack-request-timestamp"
    tolerance_s = 300.0
    template = "v0:{id}:{timestamp}:{body}"
    scheme = {  # noqa: RUF012
        "prefix": "v0=",
        "timestamp_header": "X-Slack-Request-Timestamp",
        "id_header": "x-id",
        "encoding": "hex",
    }

    def wrap(self, mac: bytes, timestamp: str) -> dict[str, str]:
        return {"x-slack-signature": f"v0={mac.hex()}", "x-slack-request-timestamp": timestamp, "x-id": "e-1"}


class TestHmacWithOneCombinedHeader(HmacContract):
    signature_header = "stripe-signature"
    tolerance_s = 300.0
    template = "{timestamp}.{body}"
    scheme = {"separator": ",", "prefix": "v1=", "timestamp_prefix": "t="}  # noqa: RUF012

    def wrap(self, mac: bytes, timestamp: str) -> dict[str, str]:
        return {"stripe-signature": f"t={timestamp},v0={'0' * 64},v1={mac.hex()}"}
