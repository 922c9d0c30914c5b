"""The suite that every verifier passes; subclass it in your own tests (needs pytest and hypothesis).

class TestAcme(VerifierContract):
    signature_header = "x-acme-signature"

    @pytest.fixture
    def verifier(self) -> Verifier[Any]:
        return AcmeVerifier(Config(secrets=(Secret("first"), Secret("second"))))

    @pytest.fixture
    def sign(self) -> Sign:
        return signer("first")

    @pytest.fixture
    def sign_second(self) -> Sign:
        return signer("second")

    @pytest.fixture
    def sign_wrong(self) -> Sign:
        return signer("a secret that the verifier does not know")
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gateway.errors import Rejected
from gateway.verifier import REASONS, Verifier, WebhookRequest

Sign = Callable[[bytes, float], WebhookRequest]
"""Makes the request that the source would send for a body at a time (Unix seconds)."""

NOW = 1_700_000_000.0
BODY = b'{"type":"contract.test","n":9007199254740993,"text":"\xc3\xa4"}'
HEADER_LIMIT_S = 1.0
"""A 10 MB header is refused by its length, not read: far below this even on a slow machine."""

_latin_1 = st.text(st.characters(codec="latin-1"), max_size=200)
_fuzz = settings(
    max_examples=100,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
"""Fixtures hold no state between examples, and every subclass runs the inherited test by itself: no database."""


def with_header(request: WebhookRequest, name: str, *values: str) -> WebhookRequest:
    """The request with exactly these values of a header, none to leave it out."""
    others = tuple(pair for pair in request.headers if pair[0] != name)
    return replace(request, headers=(*others, *((name, value) for value in values)))


class VerifierContract:
    """What is promised of a verifier: its own signature passes, and nothing else does, nor does harm."""

    signature_header: ClassVar[str]
    """The header that carries the signature, in lower case."""
    timestamp_header: ClassVar[str | None] = None
    """The header that carries the signed time, if it has one of its own."""
    tolerance_s: ClassVar[float | None] = None
    """How far the signed time may lie from the clock; None for a source that signs no time."""

    @pytest.fixture
    def verifier(self) -> Verifier[Any]:
        """The verifier under test, configured with two secrets."""
        raise NotImplementedError("a contract's subclass gives the fixture verifier")

    @pytest.fixture
    def sign(self) -> Sign:
        """Signs with the verifier's first secret."""
        raise NotImplementedError("a contract's subclass gives the fixture sign")

    @pytest.fixture
    def sign_second(self) -> Sign:
        """Signs with the verifier's second secret."""
        raise NotImplementedError("a contract's subclass gives the fixture sign_second")

    @pytest.fixture
    def sign_wrong(self) -> Sign:
        """Signs with a secret that the verifier does not know."""
        raise NotImplementedError("a contract's subclass gives the fixture sign_wrong")

    def test_own_signature_is_accepted(self, verifier: Verifier[Any], sign: Sign) -> None:
        first, again = verifier.verify(sign(BODY, NOW), NOW), verifier.verify(sign(BODY, NOW), NOW)
        assert first == again, "the same delivery must give the same id, or a repeat is no duplicate"

    def test_each_secret_of_a_rotation_is_accepted(
        self, verifier: Verifier[Any], sign: Sign, sign_second: Sign
    ) -> None:
        verifier.verify(sign(BODY, NOW), NOW)
        verifier.verify(sign_second(BODY, NOW), NOW)

    def test_an_unknown_secret_is_refused(self, verifier: Verifier[Any], sign_wrong: Sign) -> None:
        refused(verifier, sign_wrong(BODY, NOW), reason="mismatch")

    @pytest.mark.parametrize("at", [0, len(BODY) // 2, len(BODY) - 1])
    @pytest.mark.parametrize("bit", [1, 128])
    def test_one_flipped_bit_of_the_body_is_refused(
        self, verifier: Verifier[Any], sign: Sign, at: int, bit: int
    ) -> None:
        changed = BODY[:at] + bytes([BODY[at] ^ bit]) + BODY[at + 1 :]
        refused(verifier, replace(sign(BODY, NOW), body=changed))

    @pytest.mark.parametrize("changed", [BODY + b"\n", BODY + b" ", BODY[:-1], b""])
    def test_a_longer_or_shorter_body_is_refused(self, verifier: Verifier[Any], sign: Sign, changed: bytes) -> None:
        refused(verifier, replace(sign(BODY, NOW), body=changed))

    @pytest.mark.parametrize("cut", [3, 4, 8, 20])
    def test_a_truncated_signature_is_refused(self, verifier: Verifier[Any], sign: Sign, cut: int) -> None:
        """From three characters on: the last two of a base64 text may be padding, which is no part of the digest."""
        request = sign(BODY, NOW)
        refused(verifier, with_header(request, self.signature_header, request.one(self.signature_header)[:-cut]))

    @pytest.mark.parametrize("more", ["0", "00", "A", "AAAA", "====", "\xe9", "\x00", "\xff" * 64])
    def test_an_extended_signature_is_refused(self, verifier: Verifier[Any], sign: Sign, more: str) -> None:
        request = sign(BODY, NOW)
        refused(verifier, with_header(request, self.signature_header, request.one(self.signature_header) + more))

    def test_an_empty_signature_is_refused(self, verifier: Verifier[Any], sign: Sign) -> None:
        refused(verifier, with_header(sign(BODY, NOW), self.signature_header, ""))

    def test_a_missing_signature_is_refused(self, verifier: Verifier[Any], sign: Sign) -> None:
        refused(verifier, with_header(sign(BODY, NOW), self.signature_header), reason="no_signature")

    def test_a_repeated_signature_header_is_refused(
        self, verifier: Verifier[Any], sign: Sign, sign_wrong: Sign
    ) -> None:
        request, wrong = sign(BODY, NOW), sign_wrong(BODY, NOW).one(self.signature_header)
        right = request.one(self.signature_header)
        for values in ((right, right), (right, wrong), (wrong, right)):
            refused(verifier, with_header(request, self.signature_header, *values), reason="malformed")

    def test_a_non_ascii_signature_is_refused(self, verifier: Verifier[Any], sign: Sign) -> None:
        request = sign(BODY, NOW)
        value = request.one(self.signature_header)
        refused(verifier, with_header(request, self.signature_header, "\xe9" + value))
        refused(verifier, with_header(request, self.signature_header, "\xff" * len(value)))

    @pytest.mark.parametrize("filler", ["A", ",", " ", "=", "v1,", "v1=0,"])
    def test_a_header_of_10_mb_is_refused_without_work(self, verifier: Verifier[Any], sign: Sign, filler: str) -> None:
        huge = filler * (10_000_000 // len(filler))
        request = with_header(sign(BODY, NOW), self.signature_header, huge)
        started = time.perf_counter()
        refused(verifier, request)
        assert time.perf_counter() - started < HEADER_LIMIT_S

    @pytest.mark.parametrize("direction", [-1, 1])
    def test_a_time_outside_the_tolerance_is_refused(self, verifier: Verifier[Any], sign: Sign, direction: int) -> None:
        tolerance_s = self._tolerance_s()
        refused(verifier, sign(BODY, NOW + direction * (tolerance_s + 1)), reason="timestamp")
        verifier.verify(sign(BODY, NOW + direction * (tolerance_s - 1)), NOW)

    @pytest.mark.parametrize(
        "write", ["{}.0", " {}", "{} ", "+{}", "-{}", "{}_0", "0x{}", "\xb2{}", "NaN", "inf", "1e9", "hello", ""]
    )
    def test_a_time_that_is_not_digits_is_refused(self, verifier: Verifier[Any], sign: Sign, write: str) -> None:
        if self.timestamp_header is None:
            pytest.skip("the source has no timestamp header")
        request = sign(BODY, NOW)
        text = write.format(request.one(self.timestamp_header))
        refused(verifier, with_header(request, self.timestamp_header, text))

    def test_a_repeated_or_missing_time_is_refused(self, verifier: Verifier[Any], sign: Sign) -> None:
        if self.timestamp_header is None:
            pytest.skip("the source has no timestamp header")
        request = sign(BODY, NOW)
        value = request.one(self.timestamp_header)
        refused(verifier, with_header(request, self.timestamp_header, value, value), reason="malformed")
        refused(verifier, with_header(request, self.timestamp_header))

    @_fuzz
    @given(value=_latin_1)
    @example(value="sha256=")
    @example(value="v1,a,b")
    @example(value="t=,v1=,v1=")
    def test_any_signature_raises_only_rejected(self, verifier: Verifier[Any], sign: Sign, value: str) -> None:
        refused(verifier, with_header(sign(BODY, NOW), self.signature_header, value))

    @_fuzz
    @given(data=st.data(), body=st.binary(max_size=500))
    def test_any_request_raises_only_rejected(
        self, verifier: Verifier[Any], sign: Sign, data: Any, body: bytes
    ) -> None:
        names = st.sampled_from([name for name, _ in sign(BODY, NOW).headers])
        headers = data.draw(st.lists(st.tuples(names | _latin_1, _latin_1), max_size=8))
        request = WebhookRequest("POST", "https://hooks.example/hooks/contract", tuple(headers), body)
        refused(verifier, request)
        with suppress(Rejected):
            verifier.handshake(request)

    def _tolerance_s(self) -> float:
        if self.tolerance_s is None:
            pytest.skip("the source signs no time")
        return self.tolerance_s


def refused(verifier: Verifier[Any], request: WebhookRequest, *, reason: str | None = None) -> None:
    """Asserts that the request is Rejected at `NOW`, for a reason of the closed set, or for exactly this one."""
    with pytest.raises(Rejected) as caught:
        verifier.verify(request, NOW)
    assert caught.value.reason in REASONS
    assert reason in (None, caught.value.reason)
