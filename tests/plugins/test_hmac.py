from __future__ import annotations

import base64
import hashlib
import hmac
import zlib
from typing import Any

import msgspec
import pytest

from gateway import Duration, Rejected, Secret, Settings, WebhookRequest
from gateway.durations import parse_duration
from plugins.hmac import HmacConfig, HmacVerifier, register_verifiers

NOW = 1_700_000_000.0
SECRET = "a secret"
BODY = b'{"n":1}'
NAMED = {"id_header": "X-Id", "timestamp_header": "X-Time"}
COMBINED = {
    "header": "Stripe-Signature",
    "separator": ",",
    "prefix": "v1=",
    "timestamp_prefix": "t=",
    "signed": "{timestamp}.{body}",
}


def _verifier(secret: str = SECRET, **scheme: Any) -> HmacVerifier:
    return HmacVerifier(HmacConfig(secrets=(Secret(secret),), **{"header": "X-Sig", **scheme}))


def _mac(message: bytes = BODY, *, key: bytes = SECRET.encode(), algorithm: str = "sha256") -> bytes:
    return hmac.digest(key, message, algorithm)


def _post(*headers: tuple[str, str], body: bytes = BODY) -> WebhookRequest:
    return WebhookRequest("POST", "https://hooks.example/hooks/x", headers, body)


def _combined(text: str) -> WebhookRequest:
    return _post(("stripe-signature", text))


@pytest.mark.parametrize("algorithm", ["sha256", "sha1", "sha512"])
@pytest.mark.parametrize("encoding", ["hex", "base64", "base64url"])
def test_each_algorithm_and_encoding_is_accepted(algorithm: str, encoding: str) -> None:
    mac = _mac(algorithm=algorithm)
    written = {
        "hex": mac.hex(),
        "base64": base64.b64encode(mac).decode(),
        "base64url": base64.urlsafe_b64encode(mac).decode(),
    }
    verifier = _verifier(algorithm=algorithm, encoding=encoding)
    verifier.verify(_post(("x-sig", written[encoding])), NOW)
    signed = verifier.sign(_post(), NOW)
    assert signed is not None
    verifier.verify(signed, NOW)


@pytest.mark.parametrize("algorithm", ["sha256", "sha1", "sha512"])
@pytest.mark.parametrize("size", [1, 20, 63, 64, 65, 127, 128, 129, 300])
def test_key_of_any_length_is_taken_as_hmac_has_it(algorithm: str, size: int) -> None:
    key = "k" * size
    mac = _mac(key=key.encode(), algorithm=algorithm).hex()
    verifier = _verifier(key, algorithm=algorithm)
    for _ in range(2):  # what the first one hashed is in the way of no other
        verifier.verify(_post(("x-sig", mac)), NOW)
    with pytest.raises(Rejected, match="mismatch"):
        verifier.verify(_post(("x-sig", mac), body=b"{}"), NOW)


def test_hex_in_capitals_is_accepted() -> None:
    _verifier().verify(_post(("x-sig", _mac().hex().upper())), NOW)


@pytest.mark.parametrize(
    "write", [str.strip, lambda text: text[:-1], lambda text: text + "=", lambda text: text + "===="]
)
def test_base64_is_only_accepted_as_it_is_canonically_written(write: Any) -> None:
    text = write(base64.b64encode(_mac()).decode())
    verifier, request = _verifier(encoding="base64"), _post(("x-sig", text))
    if write is str.strip:
        verifier.verify(request, NOW)
        return
    with pytest.raises(Rejected, match="malformed"):
        verifier.verify(request, NOW)


@pytest.mark.parametrize("write", [str, lambda text: text.rstrip("="), lambda text: text.replace("_", "/"),
                                   lambda text: text + "=", lambda text: text[:-1] + "-", lambda text: text + "!",
                                   lambda text: text[:5] + "\n" + text[5:], lambda text: text[:-4]])  # fmt: skip
def test_base64url_is_only_accepted_as_it_is_canonically_written(write: Any) -> None:
    body = next(body for body in (b"%d" % at for at in range(1000)) if b"_" in base64.urlsafe_b64encode(_mac(body)))
    text = base64.urlsafe_b64encode(_mac(body)).decode()
    verifier, request = _verifier(encoding="base64url"), _post(("x-sig", write(text)), body=body)
    if write(text) in (text, text.rstrip("=")):
        verifier.verify(request, NOW)
        return
    with pytest.raises(Rejected, match="malformed"):
        verifier.verify(request, NOW)


def test_base64_with_stray_last_bits_is_refused() -> None:
    text = base64.b64encode(_mac()).decode()
    stray = text[:-2] + chr(ord(text[-2]) + 1) + "="
    assert base64.b64decode(stray) == _mac()
    with pytest.raises(Rejected, match="malformed"):
        _verifier(encoding="base64").verify(_post(("x-sig", stray)), NOW)


def test_hex_with_white_space_is_refused() -> None:
    """`bytes.fromhex` skips it."""
    short = _mac().hex()[:62]
    with pytest.raises(Rejected, match="malformed"):
        _verifier().verify(_post(("x-sig", f"{short[:30]}  {short[30:]}")), NOW)


@pytest.mark.parametrize("kept", [1, 16, 31])
def test_prefix_of_the_digest_is_refused(kept: int) -> None:
    with pytest.raises(Rejected, match="malformed"):
        _verifier().verify(_post(("x-sig", _mac()[:kept].hex())), NOW)


@pytest.mark.parametrize(
    ("encoding", "secret", "key"),
    [
        ("utf-8", "ä", "ä".encode()),
        ("utf-8", "whsec_abc", b"whsec_abc"),
        ("base64", "AAEC", b"\x00\x01\x02"),
        ("base64", "AAE", b"\x00\x01"),
        ("hex", "00ff", b"\x00\xff"),
        ("whsec", "whsec_AAEC", b"\x00\x01\x02"),
        ("whsec", "AAEC", b"\x00\x01\x02"),
    ],
)
def test_secret_is_decoded_as_it_is_declared(encoding: str, secret: str, key: bytes) -> None:
    _verifier(secret, secret_encoding=encoding).verify(_post(("x-sig", _mac(key=key).hex())), NOW)


def test_any_candidate_of_a_list_is_accepted() -> None:
    verifier = _verifier(prefix="v1=", separator=",")
    for value in (f"v1={'0' * 64}, v1={_mac().hex()}", f"v2=x,v1={_mac().hex()},v1=short"):
        verifier.verify(_post(("x-sig", value)), NOW)


def test_seventeenth_part_is_refused() -> None:
    verifier, good = _verifier(prefix="v1=", separator=","), f"v1={_mac().hex()}"
    verifier.verify(_post(("x-sig", ",".join(["v0=x"] * 15 + [good]))), NOW)
    with pytest.raises(Rejected, match="malformed"):
        verifier.verify(_post(("x-sig", ",".join(["v0=x"] * 16 + [good]))), NOW)


def test_candidate_of_another_version_is_not_compared() -> None:
    with pytest.raises(Rejected, match="malformed"):
        _verifier(prefix="v1=", separator=",").verify(_post(("x-sig", f"v0={_mac().hex()}")), NOW)


@pytest.mark.parametrize("text", ["0{}", "{}.0", "+{}", " {} ", "{}\n", "1_700_000_000", "²", "", "1" * 16])
def test_rightly_signed_time_that_is_not_plain_digits_is_refused(text: str) -> None:
    """A leading zero too: it would be a second way of writing the same time."""
    timestamp = text.format(int(NOW))
    verifier = _verifier(timestamp_header="X-Time", signed="{timestamp}{body}")
    mac = _mac(timestamp.encode("latin-1") + BODY).hex()
    with pytest.raises(Rejected, match="malformed"):
        verifier.verify(_post(("x-sig", mac), ("x-time", timestamp)), NOW)


@pytest.mark.parametrize(("away", "accepted"), [(-61, False), (-60, True), (60, True), (61, False)])
def test_tolerance_holds_both_ways(away: int, accepted: bool) -> None:
    verifier = _verifier(**COMBINED, tolerance=Duration(60.0))
    request = _combined(f"t={int(NOW)},v1={_mac(b'1700000000.' + BODY).hex()}")
    if accepted:
        verifier.verify(request, NOW + away)
        return
    with pytest.raises(Rejected, match="timestamp"):
        verifier.verify(request, NOW + away)


@pytest.mark.parametrize("times", ["", "t=1700000000,t=1700000000,", "t=1700000000,t=1,", "T=1700000000,", "t=,"])
def test_combined_header_needs_exactly_one_time(times: str) -> None:
    with pytest.raises(Rejected, match="malformed"):
        _verifier(**COMBINED).verify(_combined(f"{times}v1={_mac(b'1700000000.' + BODY).hex()}"), NOW)


def test_late_forgery_is_a_mismatch_and_not_late() -> None:
    """The reason `timestamp` is for genuine deliveries: it tells of a clock that is wrong."""
    with pytest.raises(Rejected, match="mismatch"):
        _verifier(**COMBINED).verify(_combined(f"t=1,v1={'0' * 64}"), NOW)


def test_signed_id_is_the_deliverys_id() -> None:
    verifier = _verifier(id_header="X-Id", signed="{id}.{body}")
    request = _post(("x-sig", _mac(b"e-1." + BODY).hex()), ("x-id", "e-1"))
    assert verifier.verify(request, NOW).id == "e-1"
    with pytest.raises(Rejected, match="mismatch"):
        verifier.verify(_post(("x-sig", _mac(b"e-1." + BODY).hex()), ("x-id", "e-2")), NOW)


def test_another_body_of_the_same_checksum_is_a_repeat_and_soon_late() -> None:
    verifier = _verifier(signed="{id}|{timestamp}|{crc32}", **NAMED)
    assert zlib.crc32(b"plumless") == zlib.crc32(b"buckeroo")
    mac = _mac(b"e-1|1700000000|%d" % zlib.crc32(b"plumless")).hex()
    headers = (("x-sig", mac), ("x-id", "e-1"), ("x-time", "1700000000"))
    assert [verifier.verify(_post(*headers, body=body), NOW).id for body in (b"plumless", b"buckeroo")] == ["e-1"] * 2
    with pytest.raises(Rejected, match="timestamp"):
        verifier.verify(_post(*headers, body=b"buckeroo"), NOW + 301)
    with pytest.raises(Rejected, match="mismatch"):
        verifier.verify(_post(*headers), NOW)


def test_unsigned_id_is_bound_to_the_bodys_hash() -> None:
    request = _post(("x-sig", _mac().hex()), ("x-id", "e-1"), ("x-topic", "orders/create"))
    delivery = _verifier(id_header="X-Id", event_header="X-Topic").verify(request, NOW)
    assert delivery.id == f"e-1:{hashlib.sha256(BODY).hexdigest()[:32]}"
    assert delivery.event == "orders/create"


@pytest.mark.parametrize("time", ["{}", '"{}"'])
@pytest.mark.parametrize("named", [{"id_header": "X-Id"}, {"dedupe_body": True}])
def test_attempt_with_another_time_in_its_body_is_a_repeat(time: str, named: dict[str, Any]) -> None:
    verifier = _verifier(timestamp_field="meta.sent", **named)

    def delivery_id(sent: int, n: int) -> str | None:
        body = f'{{"meta": {{"sent" : {time.format(sent)}}}, "n": {n}}}'.encode()
        return verifier.verify(_post(("x-sig", _mac(body).hex()), ("x-id", "e-1"), body=body), float(sent)).id

    assert delivery_id(1_700_000_000, 1) == delivery_id(1_700_003_600, 1)
    assert delivery_id(1_700_000_000, 1) != delivery_id(1_700_000_000, 2)


def test_events_that_differ_by_a_time_of_their_own_are_two_deliveries() -> None:
    verifier = _verifier(timestamp_field="sent", dedupe_body=True)

    def delivery_id(measured: int) -> str | None:
        body = f'{{"sent": {NOW:.0f}, "reading": {{"sent": {measured}, "value": 20}}}}'.encode()
        return verifier.verify(_post(("x-sig", _mac(body).hex()), body=body), NOW).id

    assert delivery_id(1_700_000_000) != delivery_id(1_700_000_060)
    assert delivery_id(1_700_000_000) == delivery_id(1_700_000_000)


def test_requests_without_a_body_are_not_one_delivery() -> None:
    verifier = _verifier(dedupe_body=True, signed="{url}{body}")
    for query in ("a", "b"):
        url = f"https://hooks.example/hooks/x?{query}"
        request = WebhookRequest("GET", url, (("x-sig", _mac(url.encode()).hex()),), b"")
        assert verifier.verify(request, NOW).id is None


def test_delivery_without_an_id_is_known_by_what_was_signed_with_its_time() -> None:
    def delivery_id(timestamp: bytes) -> str | None:
        text = f"t={timestamp.decode()},v1={_mac(timestamp + b'.' + BODY).hex()}"
        return _verifier(**COMBINED).verify(_combined(text), NOW).id

    assert delivery_id(b"1700000000") == delivery_id(b"1700000000")
    assert delivery_id(b"1700000000") != delivery_id(b"1700000001")


def test_delivery_with_neither_id_nor_time_is_not_deduplicated() -> None:
    delivery = _verifier(event_header="X-Topic").verify(_post(("x-sig", _mac().hex())), NOW)
    assert (delivery.id, delivery.event) == (None, "")


@pytest.mark.parametrize("values", [("e-1", "e-1"), ("",), ("\xe9",), ("a b",), ("a" * 257,)])
def test_id_that_is_repeated_or_not_printable_is_refused(values: tuple[str, ...]) -> None:
    request = _post(("x-sig", _mac().hex()), *(("x-id", value) for value in values))
    with pytest.raises(Rejected):
        _verifier(id_header="X-Id").verify(request, NOW)


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ({"header": ""}, "header is no header name"),
        ({"header": "X Sig"}, "header is no header name"),
        ({"id_header": "x:id"}, "id_header is no header name"),
        ({"signed": "{timestamp}"}, "body"),
        ({"signed": "{body}{body}"}, "body"),
        ({"signed": "{body}{header}"}, "braces"),
        ({"signed": "{timestamp}.{body}"}, "need each other"),
        ({"timestamp_header": "X-Time"}, "need each other"),
        ({"timestamp_header": "X-Time", **COMBINED}, "exclude"),
        ({**COMBINED, "separator": ""}, "separator"),
        ({"signed": "{id}.{body}"}, "id_header"),
        ({"signed": "{id}{body}", "id_header": "X-Id"}, "separator"),
        ({"signed": "{crc32}"}, "needs {id} and {timestamp}"),
        ({"signed": "{id}|{crc32}", "id_header": "X-Id"}, "needs {id} and {timestamp}"),
        ({"signed": "{id}|{timestamp}|{crc32}|{body}", **NAMED}, "once"),
        ({"signed": "{id}|{timestamp}{crc32}", **NAMED}, "separator at {crc32}"),
    ],
)
def test_scheme_that_would_leave_something_unsigned_is_refused(scheme: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _verifier(**scheme)


@pytest.mark.parametrize(
    ("encoding", "secret"),
    [("utf-8", ""), ("base64", "not base64"), ("base64", ""), ("hex", "abc"), ("hex", ""), ("whsec", "whsec_")],
)
def test_secret_that_is_empty_or_not_of_its_encoding_is_refused(encoding: str, secret: str) -> None:
    with pytest.raises(ValueError, match="a secret is") as caught:
        HmacConfig(secrets=(Secret(secret),), header="X-Sig", secret_encoding=encoding)  # type: ignore[arg-type]
    assert not secret or secret == "whsec_" or secret not in str(caught.value).replace("not valid", "")


def test_config_without_a_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one secret"):
        HmacConfig(secrets=(), header="X-Sig")


def test_config_is_read_from_a_table() -> None:
    table = {"secrets": ["x"], "tolerance": "1m", **COMBINED}
    config = msgspec.convert(
        table, HmacConfig, dec_hook=lambda kind, value: parse_duration(value) if kind is Duration else kind(value)
    )
    assert (config.tolerance, config.header) == (60.0, "Stripe-Signature")
    with pytest.raises(msgspec.ValidationError, match="md5"):
        msgspec.convert({**table, "algorithm": "md5"}, HmacConfig, dec_hook=lambda kind, value: kind(60))


def test_delivery_without_its_unsigned_id_is_known_by_nothing() -> None:
    assert _verifier(id_header="X-Id").verify(_post(("x-sig", _mac().hex())), NOW).id is None


def test_signed_id_may_not_be_missing() -> None:
    with pytest.raises(Rejected, match="no_signature"):
        _verifier(id_header="X-Id", signed="{id}.{body}").verify(_post(("x-sig", _mac().hex())), NOW)


def test_plugin_offers_its_verifiers() -> None:
    assert [each.name for each in register_verifiers(Settings())] == ["hmac", "public-key"]
