"""Each provider's deliveries as its documents have them, signed here by the standard library and not by what checks
them: every kind of body, time, secret and writing, with the one verdict that it may get."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway import Rejected, WebhookRequest
from tests.plugins.presets import make

NOW = 1_700_000_000
BODY = '{"id":"e-1","n":9007199254740993,"text":"é & <b>"}'.encode()
MARK = b"\xef\xbb\xbf"
KEYS = (b"first key \xfb\xff\xfe of 24 bytes", b"the second one, which is the next", b"another's")


@dataclass(frozen=True, slots=True)
class Provider:
    """How one signs: `signed` over `{body}`, `{time}`, `{id}`, `{url}` and `{method}`; `written` is the header."""

    verifier: str
    header: str
    signed: str
    prefix: str = ""
    encoding: str = "hex"
    digest: str = "sha256"
    separator: str = ""
    time_header: str = ""
    time_prefix: str = ""
    time_format: str = "seconds"
    tolerance: int = 0
    id_header: str = ""
    whsec: bool = False

    def secret(self, key: bytes) -> str:
        """How its key is configured."""
        return "whsec_" + base64.b64encode(key).decode() if self.whsec else key.decode("latin-1")

    def time(self, at_s: float) -> str:
        if self.time_format == "rfc3339":
            return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
        return str(round(at_s * 1000) if self.time_format == "milliseconds" else int(at_s))

    def text(self, mac: bytes) -> str:
        return mac.hex() if self.encoding == "hex" else base64.b64encode(mac).decode()

    def signature(self, body: bytes, key: bytes = KEYS[0], at_s: float = NOW, url: str = "") -> str:
        """One signature, without its prefix."""
        facts = {"{time}": self.time(at_s), "{id}": "msg-1", "{url}": url or self.url, "{method}": "POST"}
        before, after = self.signed.split("{body}")
        for name, value in facts.items():
            before, after = before.replace(name, value), after.replace(name, value)
        raw = key if self.whsec else self.secret(key).encode()
        return self.text(hmac.digest(raw, before.encode() + body + after.encode(), self.digest))

    @property
    def url(self) -> str:
        return f"https://hooks.example/hooks/{self.verifier}"

    def request(self, body: bytes, *signatures: str, at_s: float = NOW, url: str = "") -> WebhookRequest:
        """What is sent with these signatures, prefixes and all."""
        parts = [f"{self.time_prefix}{self.time(at_s)}"] if self.time_prefix else []
        named = {self.header: self.separator.join([*parts, *signatures])}
        named |= {self.time_header: self.time(at_s)} if self.time_header else {}
        named |= {self.id_header: "msg-1"} if self.id_header else {}
        return WebhookRequest("POST", url or self.url, tuple((k.lower(), v) for k, v in named.items()), body)

    def sent(self, body: bytes = BODY, *keys: bytes, at_s: float = NOW, url: str = "") -> WebhookRequest:
        """What it sends, signed by these keys."""
        signatures = [self.prefix + self.signature(body, key, at_s, url) for key in keys or KEYS[:1]]
        return self.request(body, *signatures, at_s=at_s, url=url)

    def verdict(self, request: WebhookRequest, *keys: bytes, now: float = NOW) -> str:
        """Empty, or why it was refused."""
        try:
            make(self.verifier, *(self.secret(key) for key in keys or KEYS[:1])).verify(request, now)
        except Rejected as exc:
            return exc.reason
        return ""


def body_alone(verifier: str, header: str, prefix: str = "", encoding: str = "hex", **more: Any) -> Provider:
    return Provider(verifier, header, "{body}", prefix, encoding, **more)


def standard(verifier: str, name: str) -> Provider:
    parts = {"time_header": f"{name}-timestamp", "id_header": f"{name}-id"}
    return Provider(verifier, f"{name}-signature", "{id}.{time}.{body}", "v1,", "base64",
                    separator=" ", tolerance=300, whsec=True, **parts)  # fmt: skip


PROVIDERS = [
    body_alone("github", "X-Hub-Signature-256", "sha256="),
    body_alone("meta", "X-Hub-Signature-256", "sha256="),
    body_alone("bitbucket", "X-Hub-Signature", "sha256="),
    body_alone("jira", "X-Hub-Signature", "sha256="),
    body_alone("intercom", "X-Hub-Signature", "sha1=", digest="sha1"),
    body_alone("notion", "X-Notion-Signature", "sha256="),
    body_alone("dropbox", "X-Dropbox-Signature"),
    body_alone("typeform", "Typeform-Signature", "sha256=", "base64"),
    body_alone("shopify", "X-Shopify-Hmac-Sha256", "", "base64"),
    body_alone("pagerduty", "X-PagerDuty-Signature", "v1=", separator=","),
    Provider("stripe", "Stripe-Signature", "{time}.{body}", "v1=", separator=",", time_prefix="t=", tolerance=300),
    Provider("mux", "Mux-Signature", "{time}.{body}", "v1=", separator=",", time_prefix="t=", tolerance=300),
    Provider("paddle", "Paddle-Signature", "{time}:{body}", "h1=", separator=";", time_prefix="ts=", tolerance=300),
    Provider("slack", "X-Slack-Signature", "v0:{time}:{body}", "v0=",
             time_header="X-Slack-Request-Timestamp", tolerance=300),
    Provider("zoom", "x-zm-signature", "v0:{time}:{body}", "v0=", time_header="x-zm-request-timestamp", tolerance=300),
    Provider("zendesk", "X-Zendesk-Webhook-Signature", "{time}{body}", encoding="base64",
             time_header="X-Zendesk-Webhook-Signature-Timestamp", time_format="rfc3339", tolerance=300),
    Provider("twitch", "Twitch-Eventsub-Message-Signature", "{id}{time}{body}", "sha256=",
             time_header="Twitch-Eventsub-Message-Timestamp", time_format="rfc3339", tolerance=600,
             id_header="Twitch-Eventsub-Message-Id"),
    Provider("square", "x-square-hmacsha256-signature", "{url}{body}", encoding="base64"),
    Provider("hubspot", "X-HubSpot-Signature-v3", "{method}{url}{body}{time}", encoding="base64",
             time_header="X-HubSpot-Request-Timestamp", time_format="milliseconds", tolerance=300),
    standard("standard", "webhook"),
    standard("standard", "svix"),
    standard("svix", "svix"),
    standard("gitlab", "webhook"),
]  # fmt: skip
TIMED = [each for each in PROVIDERS if each.tolerance]
LISTS = [each for each in PROVIDERS if each.separator]
BODIES = {
    "empty": b"",
    "blank": b" ",
    "line end": BODY + b"\r\n",
    "byte order mark": MARK + BODY,
    "no UTF-8": bytes(range(256)),
    "number": b"1234",
    "array": b'[{"id":"a"},{"id":"b"}]',
    "form": b"payload=%7B%22id%22%3A1%7D&text=a+b",
    "form of one field": b"payload=%7B%22id%22%3A1%7D",
    "separators": b"msg-1.1700000000.a:b,c;d=e v1=f",
    "escapes": rb'{"text":"\u00e9\/\ud83d"}',
    "deep": b"[" * 5000 + b"]" * 5000,
    "large": b'{"text":"' + b"x" * 300_000 + b'"}',
}


def ids(provider: Provider) -> str:
    return f"{provider.verifier}-{provider.header}"


each_provider = pytest.mark.parametrize("provider", PROVIDERS, ids=ids)


@each_provider
def test_body_of_any_kind_verifies_by_its_own_bytes_alone(provider: Provider) -> None:
    for kind, body in BODIES.items():
        assert provider.verdict(provider.sent(body)) == "", kind
        signature = provider.prefix + provider.signature(body)
        for other in {body + b"\n", body + b"\0", body.removeprefix(MARK), body[:-1]} - {body}:
            assert provider.verdict(provider.request(other, signature)) == "mismatch", kind


@each_provider
def test_secrets_that_change_over_all_verify(provider: Provider) -> None:
    first, second, another = KEYS
    for key in (first, second):
        assert provider.verdict(provider.sent(BODY, key), first, second) == ""
    assert provider.verdict(provider.sent(BODY, another), first, second) == "mismatch"
    assert provider.verdict(provider.sent(BODY, first), second) == "mismatch"


@each_provider
def test_secret_of_any_kind_is_the_key_as_it_is_written(provider: Provider) -> None:
    for key in (b"k", b"k" * 63, b"k" * 64, b"k" * 65, b"k" * 300, b" a: b ", b"%41+/=", b"\xe9\xfc"):
        assert provider.verdict(provider.sent(BODY, key), key) == "", key


@pytest.mark.parametrize("provider", TIMED, ids=ids)
@pytest.mark.parametrize("way", [-1, 1])
def test_time_may_be_as_far_off_as_the_tolerance_and_no_second_more(provider: Provider, way: int) -> None:
    assert provider.verdict(provider.sent(), now=NOW + way * provider.tolerance) == ""
    for more in (0.5, 1, 86400, 10**9):
        assert provider.verdict(provider.sent(), now=NOW + way * (provider.tolerance + more)) == "timestamp"


@pytest.mark.parametrize("provider", TIMED, ids=ids)
def test_time_that_was_not_the_signed_one_is_refused(provider: Provider) -> None:
    signature = provider.prefix + provider.signature(BODY)
    assert provider.verdict(provider.request(BODY, signature, at_s=NOW + 1)) == "mismatch"


@pytest.mark.parametrize("provider", LISTS, ids=ids)
def test_one_right_signature_of_a_list_is_enough(provider: Provider) -> None:
    right, wrong = (provider.prefix + provider.signature(BODY, key) for key in KEYS[:2])
    for found in (
        [right, wrong],
        [wrong, right],
        [wrong] * 15 + [right],
        ["junk", right, provider.prefix],
        ["", right],
    ):
        assert provider.verdict(provider.request(BODY, *found)) == ""
    assert provider.verdict(provider.request(BODY, wrong, wrong)) == "mismatch"
    assert provider.verdict(provider.request(BODY, *[wrong] * 16, right)) == "malformed"


@pytest.mark.parametrize("provider", LISTS, ids=ids)
def test_signature_of_another_version_is_passed_over(provider: Provider) -> None:
    right = provider.signature(BODY)
    others = [provider.prefix.replace("1", number) for number in ("0", "2", "11", "")]
    for version in (*others, provider.prefix.upper()):
        assert provider.verdict(provider.request(BODY, version + right)) != ""
        assert provider.verdict(provider.request(BODY, version + right, provider.prefix + right)) == ""


@each_provider
def test_signature_otherwise_written_is_refused(provider: Provider) -> None:
    right = provider.signature(BODY)
    raw = bytes.fromhex(right) if provider.encoding == "hex" else base64.b64decode(right)
    for text in _otherwise(right, raw, provider.encoding):
        assert provider.verdict(provider.request(BODY, provider.prefix + text)) in ("malformed", "mismatch"), text
    if provider.prefix and not provider.separator:
        for prefix in ("", "md5=", provider.prefix.upper(), provider.prefix * 2, provider.prefix + " "):
            assert provider.verdict(provider.request(BODY, prefix + right)) == "malformed"
        both = f"{provider.prefix}{right}, {provider.prefix}{right}"
        assert provider.verdict(provider.request(BODY, both)) == "malformed"


def _otherwise(right: str, raw: bytes, encoding: str) -> Iterator[str]:
    """Writings that lenient decoders take for the same bytes, or that begin with them."""
    yield from ("", right[:-2], right + right, right + "\xe9", f"{right[:8]} {right[8:]}", right[: len(right) // 2])
    if encoding == "hex":
        yield from (right + "00", right[:-1], f"0x{right}", base64.b64encode(raw).decode(), raw.hex(":"))
        return
    urlsafe = base64.urlsafe_b64encode(raw).decode()
    yield from (right + "!", right + "AAAA", right + "==", right.rstrip("="), raw.hex(), right.swapcase())
    yield from (right[:5] + "." + right[5:], right[:-2] + chr(ord(right[-2]) + 1) + "=")
    if urlsafe != right:
        yield urlsafe


@pytest.mark.parametrize("provider", [each for each in PROVIDERS if "{url}" in each.signed], ids=ids)
def test_url_is_signed_as_it_was_asked_for(provider: Provider) -> None:
    for query in ("", "?a=1&b=2", "?a=%20b", "?a=b+c", "?a=%C3%A9", "?a=%c3%a9", "?a=1&a=2", "?a=%23%26%3D%25", "?a"):
        url = provider.url + query
        assert provider.verdict(provider.sent(url=url)) == "", query
        signature = provider.signature(BODY, url=url)
        for other in (
            url.replace("https", "http"),
            url.replace(".example", ".example:8443"),
            f"{url}&b",
            url[:-1] + "z",
        ):
            assert provider.verdict(provider.request(BODY, signature, url=other)) == "mismatch", other
