"""A delivery's request: the same whether it was made, or arrived with headers that nobody has looked at yet."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, replace

import pytest

from gateway import Delivery, HandshakeResponse, Rejected, WebhookRequest

URL = "https://hooks.example/hooks/x"
PAIRS = [(b"host", b"x"), (b"x-id", b"\xe9\xff"), (b"x-twice", b"1"), (b"x-empty", b""), (b"x-twice", b"2")]
HEADERS = tuple((name.decode(), value.decode("latin-1")) for name, value in PAIRS)


def arrived(pairs: list[tuple[bytes, bytes]] = PAIRS) -> WebhookRequest:
    return WebhookRequest.arrived("POST", URL, b"{}", pairs, dict(pairs))


def made(headers: tuple[tuple[str, str], ...] = HEADERS) -> WebhookRequest:
    return WebhookRequest("POST", URL, headers, b"{}")


def both() -> list[WebhookRequest]:
    looked_at = arrived()
    assert looked_at.headers == HEADERS
    return [made(), arrived(), looked_at, replace(arrived(), body=b"{}"), copy.copy(arrived()), copy.copy(made())]


def test_request_is_the_same_when_it_arrived() -> None:
    assert all(each == made() and hash(each) == hash(made()) and repr(each) == repr(made()) for each in both())
    assert arrived([]).headers == ()


@pytest.mark.parametrize("request_", both())
def test_headers_are_found_by_name(request_: WebhookRequest) -> None:
    assert (request_.one("x-id"), request_.optional("x-empty"), request_.optional("x-none")) == ("\xe9\xff", "", None)
    assert (request_.values("x-twice"), request_.values("x-none")) == (["1", "2"], [])
    assert [request_.has(name) for name in ("host", "Host", "x-none", "\u0430")] == [True, False, False, False]
    for name, reason in (("x-none", "no_signature"), ("x-twice", "malformed"), ("\u0430", "no_signature")):
        with pytest.raises(Rejected) as refused:
            request_.one(name)
        assert refused.value.reason == reason


def test_headers_are_found_when_none_is_repeated() -> None:
    pairs = [each for each in PAIRS if each[0] != b"x-twice"]
    request = arrived(pairs)
    assert (request.one("x-id"), request.optional("x-empty"), request.optional("x-none")) == ("\xe9\xff", "", None)
    assert (request.values("x-id"), request.values("x-none")) == (["\xe9\xff"], [])
    assert [request.has(name) for name in ("host", "Host", "x-none", "\u0430")] == [True, False, False, False]


@pytest.mark.parametrize(("size", "fits"), [(4096, True), (4097, False)])
def test_value_is_refused_when_it_is_long(size: int, *, fits: bool) -> None:
    value = "v" * size
    for request in (made((("x-id", value),)), arrived([(b"x-id", value.encode())])):
        if fits:
            assert request.one("x-id") == value
            continue
        with pytest.raises(Rejected) as refused:
            request.optional("x-id")
        assert refused.value.reason == "malformed"


@pytest.mark.parametrize("request_", both())
def test_request_keeps_what_it_is(request_: WebhookRequest) -> None:
    assert replace(request_, url="https://x/").headers == HEADERS
    assert replace(request_, headers=(("x-id", "7"),)).one("x-id") == "7"
    assert pickle.loads(pickle.dumps(request_)) == made()
    with pytest.raises(FrozenInstanceError):
        request_.body = b""  # type: ignore[misc]
    with pytest.raises(AttributeError, match="bodies"):
        request_.bodies  # noqa: B018


def test_delivery_is_a_frozen_dataclass() -> None:
    delivery = Delivery("d-1", "push", b"{}", (("a", "b"),), HandshakeResponse(), ("item.id",))
    assert list(asdict(delivery)) == ["id", "event", "body", "form", "answer", "item_fields"]
    assert repr(delivery).startswith(
        "Delivery(id='d-1', event='push', body=b'{}', form=(('a', 'b'),), answer=Handshake"
    )
    assert delivery.item_fields == ("item.id",)
    assert replace(delivery, event="", body=None, form=None, answer=None, item_fields=()) == Delivery("d-1")
    for copied in (copy.copy(delivery), pickle.loads(pickle.dumps(delivery)), replace(delivery)):
        assert (copied, hash(copied)) == (delivery, hash(delivery))
    with pytest.raises(FrozenInstanceError):
        delivery.id = "d-2"  # type: ignore[misc]
