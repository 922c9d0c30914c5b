from __future__ import annotations

import base64
import io
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import Message
from http.client import parse_headers

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import example, given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from gateway import Rejected, Secret
from gateway.signing import Headers, SigningKey, parse_public_key, parse_secret, sign, verify
from tests.plugins.presets import make

# Published with the specification's own libraries: one message, signed both ways.
MESSAGE, AT_S, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
V1 = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
KEY = SigningKey.parse("whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=")
V1A = "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag=="
OTHER_SECRET = "whsec_" + base64.b64encode(b"another secret of 32 bytes, whole").decode()


def signed(signature: str = V1, *, timestamp: str = str(AT_S), message: str = MESSAGE) -> dict[str, str]:
    return {"webhook-id": message, "webhook-timestamp": timestamp, "webhook-signature": signature}


def check(
    headers: Headers,
    body: bytes = BODY,
    *,
    secret: str = SECRET,
    key: str | None = KEY.public,
    now: float = AT_S,
) -> None:
    verify(headers, body, secrets=[secret], public_keys=[key] if key else [], now=now)


def message_of(headers: Mapping[str, str]) -> Message:
    """As `http.server` hands headers on."""
    return parse_headers(io.BytesIO("".join(f"{name.title()}: {text}\r\n" for name, text in headers.items()).encode()))


def reason(headers: Headers, body: bytes = BODY, *, now: float = AT_S) -> str:
    with pytest.raises(Rejected) as caught:
        check(headers, body, now=now)
    return caught.value.reason


def test_signatures_are_those_that_the_specification_publishes() -> None:
    assert sign(MESSAGE, AT_S, BODY, secrets=[SECRET]) == V1
    assert sign(MESSAGE, AT_S, BODY, secrets=[Secret(SECRET)]) == V1
    assert sign(MESSAGE, AT_S, BODY, private_key=KEY.private_key) == V1A


def test_every_secret_signs_and_the_private_key_only_without_one() -> None:
    both = sign(MESSAGE, AT_S, BODY, secrets=[OTHER_SECRET, SECRET], private_key=KEY.private_key).split(" ")
    assert both[1] == V1
    assert [each.partition(",")[0] for each in both] == ["v1", "v1"]
    with pytest.raises(ValueError, match="nothing to sign with"):
        sign(MESSAGE, AT_S, BODY)


@pytest.mark.parametrize("signature", [V1, V1A])
def test_published_signature_verifies(signature: str) -> None:
    check(signed(signature))
    check({name.title(): value for name, value in signed(signature).items()})
    check(list(signed(signature).items()))
    check(message_of(signed(signature)))


def test_independent_library_accepts_what_we_sign() -> None:
    now_s = int(time.time())
    signature = sign("01990000", now_s, b'{"n": 1.0}', secrets=[OTHER_SECRET, SECRET])
    headers = signed(signature, timestamp=str(now_s), message="01990000")
    for secret in (SECRET, OTHER_SECRET):
        assert Webhook(secret).verify(b'{"n": 1.0}', headers) == {"n": 1.0}


def test_we_accept_what_an_independent_library_signs() -> None:
    now = datetime.now(UTC)
    signature = Webhook(SECRET).sign("m1", now, BODY.decode())
    headers = signed(signature, timestamp=str(int(now.timestamp())), message="m1")
    check(headers, now=now.timestamp())


def test_plain_ed25519_accepts_what_we_sign() -> None:
    key = SigningKey.generate()
    signature = base64.b64decode(sign("m1", 1, b"x", private_key=key.private_key).removeprefix("v1a,"))
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(key.public.removeprefix("whpk_")))
    public.verify(signature, b"m1.1.x")


def test_any_candidate_may_match_and_unknown_versions_are_skipped() -> None:
    wrong = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="
    check(signed(f"{wrong} v2,abc {V1} {wrong}"))
    check(signed(f"v9 , v1, {wrong} {V1A}"))
    assert reason(signed(f"{wrong} v2,{V1.removeprefix('v1,')} v1a,{V1.removeprefix('v1,')}")) == "mismatch"


@pytest.mark.parametrize("drift_s", [-300, 0, 300])
def test_timestamp_is_accepted_up_to_five_minutes_either_way(drift_s: int) -> None:
    check(signed(), now=AT_S + drift_s)


@pytest.mark.parametrize("drift_s", [-301, 301, 10**9])
def test_timestamp_is_rejected_beyond_five_minutes_either_way(drift_s: int) -> None:
    assert reason(signed(), now=AT_S + drift_s) == "timestamp"


@pytest.mark.parametrize(
    "timestamp",
    [
        *("", "hello", "1_614_265_330", " 1614265330", "1614265330 ", "+1614265330", "-1", "1614265330.0", "NaN"),
        *("1e9", "١٦١٤٢٦٥٣٣٠", "1614265330\n", "9" * 5000, "0x60379672"),
    ],
)
def test_timestamp_is_malformed_unless_it_is_digits(timestamp: str) -> None:
    assert reason(signed(timestamp=timestamp)) == "malformed"


def test_text_of_the_timestamp_is_what_is_signed() -> None:
    assert reason(signed(timestamp=f"0{AT_S}")) == "mismatch"


@pytest.mark.parametrize("signature", ["v1,", "v1,%%%", "v1,a,b", " , ,", "v1", V1[:-4], V1.lower(), "v1," + "A" * 43])
def test_signature_that_does_not_fit_is_a_mismatch(signature: str) -> None:
    assert reason(signed(signature)) == "mismatch"


def test_changed_message_is_a_mismatch() -> None:
    assert reason(signed(message="msg_other")) == "mismatch"
    assert reason(signed(), BODY + b" ") == "mismatch"
    assert reason(signed(timestamp=str(AT_S + 1))) == "mismatch"


def test_signature_of_another_key_is_a_mismatch() -> None:
    with pytest.raises(Rejected, match="mismatch"):
        check(signed(V1), secret=OTHER_SECRET)
    with pytest.raises(Rejected, match="mismatch"):
        check(signed(V1A), key=SigningKey.generate().public)
    with pytest.raises(Rejected, match="mismatch"):
        check(signed(V1A), key=None)


@pytest.mark.parametrize("name", list(signed()))
def test_header_must_be_there_exactly_once(name: str) -> None:
    pairs = list(signed().items())
    assert reason([each for each in pairs if each[0] != name]) == "no_signature"
    assert reason([*pairs, (name.upper(), dict(pairs)[name])]) == "malformed"
    assert reason({**signed(), name: ""}) == "malformed"
    assert reason({**signed(), name: "é"}) == "malformed"


def test_long_header_and_many_candidates_are_malformed() -> None:
    wrong = "v1," + "A" * 44
    check(signed(" ".join([wrong] * 15 + [V1])))
    assert reason(signed(" ".join([wrong] * 16 + [V1]))) == "malformed"
    assert reason(signed(V1 + " v2," + "A" * 4096)) == "malformed"


@given(
    st.dictionaries(st.sampled_from(sorted(signed())), st.text(max_size=40)),
    st.binary(max_size=40),
)
@example({**signed(), "webhook-signature": "v1a," + base64.b64encode(bytes(64)).decode()}, b"")
@example({**signed(), "webhook-id": "\ud800"}, b"\xff\xfe")
def test_hostile_delivery_raises_nothing_but_rejected(headers: Mapping[str, str], body: bytes) -> None:
    with pytest.raises(Rejected):
        check({**signed("v1,AAAA"), **headers}, body)


@given(st.text(max_size=100))
def test_hostile_signature_raises_nothing_but_rejected(text: str) -> None:
    for signature in (text, "v1," + text, "v1a," + text):
        with pytest.raises(Rejected):
            check(signed(signature))


def test_nothing_to_verify_with_is_a_fault_of_ours() -> None:
    with pytest.raises(ValueError, match="no key"):
        verify(signed(), BODY, now=AT_S)


def test_secret_may_lack_its_prefix_and_padding() -> None:
    assert parse_secret("whsec_YWI=") == parse_secret("whsec_YWI") == parse_secret(Secret("YWI=")) == b"ab"


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_a", "whsec_not base64", "whsec_%%%%", "pässword", "whsec_YW=I"])
def test_secret_is_refused_and_not_shown_when_it_is_not_base64(text: str) -> None:
    with pytest.raises(ValueError, match="not a Standard Webhooks secret") as caught:
        parse_secret(text)
    assert text == "" or text not in str(caught.value).replace('"whsec_"', "")


def test_signing_key_survives_its_text_and_hides_itself() -> None:
    key = SigningKey.generate()
    again = SigningKey.parse(key.reveal())
    assert (again.public, again.reveal()) == (key.public, key.reveal())
    assert key.public.startswith("whpk_")
    assert isinstance(again.private_key, Ed25519PrivateKey)
    assert key.reveal() not in f"{key!r}{key}"
    parse_public_key(key.public)


@pytest.mark.parametrize("text", ["", "whsk_", "whsk_YWI=", KEY.public, KEY.reveal().removeprefix("whsk_"), SECRET])
def test_signing_key_is_refused_when_it_is_not_a_seed(text: str) -> None:
    with pytest.raises(ValueError, match="not a signing key"):
        SigningKey.parse(text)


SMALL_ORDER = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
]
OTHERWISE_WRITTEN = [
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]
"""The points of small order of "Taming the many EdDSAs" (Chalkias, Garillot, Nikolaenko), table 1; libsodium refuses
them whenever it verifies."""


@pytest.mark.parametrize("text", [*SMALL_ORDER, *OTHERWISE_WRITTEN])
def test_public_key_under_which_anyone_signs_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="anyone can sign"):
        parse_public_key("whpk_" + base64.b64encode(bytes.fromhex(text)).decode())
    with pytest.raises(ValueError, match="anyone can sign"):
        make("discord", text)


@pytest.mark.parametrize("text", ["", "whpk_", "whpk_YWI=", KEY.reveal(), KEY.public.removeprefix("whpk_")])
def test_public_key_is_refused_when_it_is_not_one(text: str) -> None:
    with pytest.raises(ValueError, match="not a public key"):
        parse_public_key(text)


@pytest.mark.parametrize("text", ["secret", "03a1", "zz" * 32])
def test_key_of_a_source_that_is_none_is_told_every_way_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"as PEM, .* DER, or its 32 bytes in hex or base64"):
        make("discord", text)
