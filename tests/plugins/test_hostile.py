"""What nobody but the provider may send: the same refusal for every preset, whatever is done to a genuine delivery."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway import Rejected, Verifier, WebhookRequest
from gateway.testing.verifiers import with_header
from gateway.verifier import REASONS
from tests.plugins.presets import VERIFIERS, make, positive

NOW = 1_700_000_000.0
FIRST, SECOND, WRONG = (f"{name}-secret:é" for name in ("first", "second", "another"))
WHSEC = {text: "whsec_" + hashlib.sha256(text.encode()).hexdigest() for text in (FIRST, SECOND, WRONG)}
BODY = b'{"id":"e-1","event_id":"e-1","type":"test","webhookTimestamp":1700000000000,"n":9007199254740993}'
FORM = b"MessageSid=SM1&Body=hello+world&MessageStatus=sent"

OURS_TO_SIGN = sorted(set(VERIFIERS) - {"discord", "sendgrid", "public-key", "none"})
TOKENS = ("api-key", "basic", "bearer", "cloudevents", "gitlab", "okta", "token")
"""Secrets that are sent as they are: no signature covers the body."""

SIGNED = [name for name in OURS_TO_SIGN if name not in TOKENS]
UNBOUND = ("mailgun",)
"""Signs a token beside the event, and not the event."""

CONFIGS: dict[str, dict[str, Any]] = {
    "hmac": {"header": "x-sig", "signed": "{timestamp}.{body}", "timestamp_header": "x-time"},
    "token": {"header": "x-token"},
}
TIMED = {
    "hmac": 300, "hubspot": 300, "linear": 60, "mailgun": 300, "mux": 300, "paddle": 300, "slack": 300,
    "standard": 300, "stripe": 300, "svix": 300, "twitch": 600, "zendesk": 300, "zoom": 300,
}  # fmt: skip
TIME_HEADERS = {
    "hmac": "x-time", "hubspot": "x-hubspot-request-timestamp", "slack": "x-slack-request-timestamp",
    "standard": "webhook-timestamp", "svix": "webhook-timestamp", "twitch": "twitch-eventsub-message-timestamp",
    "zendesk": "x-zendesk-webhook-signature-timestamp", "zoom": "x-zm-request-timestamp",
}  # fmt: skip


def secret_for(name: str, secret: str) -> str:
    return WHSEC[secret] if name in ("standard", "svix") else secret


def verifier(name: str, *secrets: str) -> Verifier[Any]:
    return make(name, *(secret_for(name, each) for each in secrets or (FIRST, SECOND)), **CONFIGS.get(name, {}))


def genuine(name: str, secret: str = FIRST, at: float = NOW) -> WebhookRequest:
    """What the provider sends at a time."""
    url = f"https://hooks.example/hooks/{name}"
    request = WebhookRequest("POST", url, (), FORM if name == "twilio" else BODY)
    signed = verifier(name, secret).sign(request, at, event="test")
    assert signed is not None
    return signed


def signature_header(name: str) -> str:
    """The header without which there is no signature: what the request is refused for, all others being optional."""
    request = genuine(name)
    for header, _ in request.headers:
        try:
            verifier(name).verify(with_header(request, header), NOW)
        except Rejected:
            if header not in (*TIME_HEADERS.values(), "webhook-id", "twitch-eventsub-message-id"):
                return header
    raise AssertionError(f"{name} has no signature header")


def refused(name: str, request: WebhookRequest) -> str:
    with pytest.raises(Rejected) as caught:
        verifier(name).verify(request, NOW)
    assert caught.value.reason in REASONS
    assert str(caught.value) == caught.value.reason  # nothing of the request
    return caught.value.reason


HEADERS = {name: signature_header(name) for name in OURS_TO_SIGN if name != "mailgun"}


@pytest.mark.parametrize("name", OURS_TO_SIGN)
def test_each_secret_of_a_rotation_is_accepted_and_no_other(name: str) -> None:
    for secret in (FIRST, SECOND):
        verifier(name).verify(genuine(name, secret), NOW)
    assert refused(name, genuine(name, WRONG)) == "mismatch"


@pytest.mark.parametrize("name", [name for name in SIGNED if name not in UNBOUND])
def test_one_flipped_bit_of_the_body_is_refused(name: str) -> None:
    request = genuine(name)
    for at in (0, len(request.body) // 2, len(request.body) - 1):
        for bit in (1, 128):
            changed = request.body[:at] + bytes([request.body[at] ^ bit]) + request.body[at + 1 :]
            refused(name, replace(request, body=changed))
    for changed in (request.body + b"\n", request.body[:-1], b""):
        refused(name, replace(request, body=changed))


@pytest.mark.parametrize("name", HEADERS)
def test_a_signature_that_is_cut_extended_repeated_or_not_ascii_is_refused(name: str) -> None:
    request, header = genuine(name), HEADERS[name]
    right, wrong = request.one(header), genuine(name, WRONG).one(header)
    assert refused(name, with_header(request, header)) == "no_signature"
    for text in ("", right[:-3], right[:-8], right + "0", right + "AAAA", right + "====", right + "\xe9"):
        refused(name, with_header(request, header, text))
    for text in ("\xe9" + right, "\xff" * len(right), "\x00" + right):
        refused(name, with_header(request, header, text))
    for values in ((right, right), (right, wrong), (wrong, right)):
        assert refused(name, with_header(request, header, *values)) == "malformed"


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_of_10_mb_is_refused_without_work(name: str) -> None:
    it, request, header = verifier(name), genuine(name), HEADERS[name]
    for filler in ("A", ",", " ", "v1=0,", "\xe9"):
        huge = with_header(request, header, filler * (10_000_000 // len(filler)))
        with counted() as work, suppress(Rejected):
            it.verify(huge, NOW)
            raise AssertionError("it was accepted")
        assert work.lines < 200


@pytest.mark.parametrize("name", TIMED)
def test_a_time_outside_the_window_is_refused_on_both_sides(name: str) -> None:
    for direction in (-1, 1):
        assert refused(name, genuine(name, at=NOW + direction * (TIMED[name] + 1))) == "timestamp"
        verifier(name).verify(genuine(name, at=NOW + direction * (TIMED[name] - 1)), NOW)


@pytest.mark.parametrize("name", TIME_HEADERS)
def test_a_time_that_is_not_written_as_it_must_be_is_refused(name: str) -> None:
    request, header = genuine(name), TIME_HEADERS[name]
    right = request.one(header)
    for text in (f"{right}.0", f" {right}", f"{right} ", f"+{right}", f"-{right}", f"0{right}", f"{right[:-1]}_0"):
        refused(name, with_header(request, header, text))
    for text in ("", "NaN", "inf", "1e9", "0x1", "\xb2", "now", "9" * 5000, "2023-99-99T99:99:99Z"):
        refused(name, with_header(request, header, text))
    assert refused(name, with_header(request, header, right, right)) == "malformed"
    refused(name, with_header(request, header))


def test_every_verifier_that_signs_a_time_is_in_the_table() -> None:
    timed = {name for name in VERIFIERS if "tolerance" in VERIFIERS[name].Config.__struct_fields__}
    assert timed - {"discord", "sendgrid", "public-key", "gitlab"} == set(TIMED)


@pytest.mark.parametrize("change", ["timestamp", "token", "signature"])
def test_a_mailgun_delivery_is_refused_when_one_of_its_three_fields_is_changed(change: str) -> None:
    request = genuine("mailgun")
    for old, new in ((b'"%s":"1' % change.encode(), b'"%s":"2' % change.encode()),):
        refused("mailgun", replace(request, body=request.body.replace(old, new)[:-2] + b"x}}"))
    for text in (b"{}", b"", b'{"signature":[]}', b'{"signature":{"timestamp":1,"token":2,"signature":3}}'):
        refused("mailgun", replace(request, body=text))


_texts = st.text(st.characters(codec="latin-1"), max_size=120)
_fuzz = settings(max_examples=30, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("name", sorted(VERIFIERS))
@_fuzz
@given(data=st.data(), body=st.binary(max_size=300) | st.just(BODY) | st.just(FORM), query=_texts)
def test_random_bytes_raise_nothing_but_rejected(name: str, data: Any, body: bytes, query: str) -> None:
    """Names are those that the verifier looks at, most of the time; a body may be what a genuine one has."""
    it, sample = EVERY[name]
    known = [header for header, _ in sample.headers] or ["x"]
    pairs = st.tuples(st.sampled_from([*known, "content-type", "x-okta-verification-challenge"]), _texts)
    headers = tuple(data.draw(st.lists(pairs, max_size=6)))
    kept = tuple(pair for pair in sample.headers if data.draw(st.booleans()))
    method = data.draw(st.sampled_from(["POST", "GET", "OPTIONS", "HEAD", "\xe9"]))
    request = WebhookRequest(method, f"https://hooks.example/hooks/x?{query}", (*headers, *kept), body)
    for work in (it.handshake, lambda request: it.verify(request, NOW)):
        with suppress(Rejected):
            work(request)


@pytest.mark.parametrize("name", sorted(VERIFIERS))
def test_work_grows_no_faster_than_the_request(name: str) -> None:
    """Counted, not timed: lines of our own that run, and bytes that are hashed."""
    it, sample = EVERY[name]
    few, many = (_lines(it, sample, size) for size in (2_000, 32_000))
    assert many <= few * 16 + 200


def _lines(it: Verifier[Any], sample: WebhookRequest, size: int) -> int:
    rng = random.Random(size)
    shapes = (
        replace(sample, body=b'{"a":' * (size // 5)),
        replace(sample, body=b"a=1&" * (size // 4)),
        replace(sample, body=rng.randbytes(size)),
        replace(sample, url=sample.url + "?" + "a=%2F&" * (size // 6)),
        replace(sample, headers=tuple((header, "a,b=c " * min(size // 6, 600)) for header, _ in sample.headers)),
        replace(sample, headers=(*sample.headers, *((f"x-{at}", "y") for at in range(size // 16)))),
    )
    total = 0
    for request in shapes:
        with counted() as work:
            for call in (it.handshake, lambda request: it.verify(request, NOW)):
                with suppress(Rejected):
                    call(request)
        total += work.lines
    return total


class Work:
    """How many lines of Python ran."""

    lines = 0


@contextmanager
def counted() -> Iterator[Work]:
    work = Work()

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        work.lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield work
    finally:
        sys.settrace(before)


def _every() -> dict[str, tuple[Verifier[Any], WebhookRequest]]:
    found = {name: (verifier(name), genuine(name)) for name in OURS_TO_SIGN}
    for name, vector in positive().items():
        found.setdefault(name, (vector.make(), vector.request))
    return found


EVERY = _every()
