"""Bodies as routes see them: forms, arrays taken item by item, CloudEvents in their three modes."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from gateway import ConfigError, Delivery, WebhookRequest
from gateway.contents import MAX_EVENTS, ContentKind
from gateway.errors import InvalidRequest
from gateway.reception import Reception
from gateway.routes import Match, compile_route
from gateway.schemes.bodies import BodyFields
from gateway.triggers import Trigger
from tests.plugins.presets import make

PLACE = "gateway.toml: triggers.t.routes[0]"
LANES = ("critical", "default", "low")
STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"
EVENT = {"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "order.paid"}


def match(
    body: bytes,
    *routes: dict[str, Any],
    content: ContentKind = "json",
    delivery: Delivery | None = None,
    **headers: Any,
) -> list[Match]:
    sent = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    request = WebhookRequest("POST", "https://hooks.example/hooks/t?q=1", sent, body)
    made = tuple(compile_route(PLACE, **{"target": "t", "lanes": LANES, **route}) for route in routes or ({},))
    return Trigger("t", make("none"), made, Reception(content=content)).match(request, delivery or Delivery("d-1"))


def payloads(body: bytes, *routes: dict[str, Any], **more: Any) -> list[bytes]:
    return [found.payload for found in match(body, *routes, **more)]


def event(data: str, **attributes: str) -> bytes:
    """A structured event whose data is written as it is."""
    members = json.dumps(EVENT | attributes)[:-1]
    return f'{members},"data":{data}}}'.encode()


def test_lane_and_delay_are_read_from_the_delivery() -> None:
    route = {"lane": "body.urgent && 'critical' || 'low'", "delay": "body.wait"}
    assert [(found.lane, found.delay_ms) for found in match(b'{"urgent":true,"wait":"1.5s"}', route)] == [
        ("critical", 1500)
    ]
    assert [(found.lane, found.delay_ms) for found in match(b'{"wait":3}', route)] == [("low", 3000)]
    assert match(b"{}", {"lane": "body.lane", "delay": "body.wait"})[0] == Match("t", b"{}", "", None, 0, "d-1", 0)
    assert match(b"{}", {"lane": "low", "delay": "10m"})[0].delay_ms == 600_000


@pytest.mark.parametrize("route", [{"lane": "body.x"}, {"delay": "body.x"}, {"id": "body.list"}, {"key": "body.list"}])
def test_expression_that_gives_what_cannot_be_refuses_the_delivery(route: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"routes\[0\]"):
        match(b'{"x":"nonsense","list":[1]}', route)


def test_form_is_seen_by_expressions_and_handed_on_as_an_object() -> None:
    twilio = Delivery("d-1", form=(("From", "+1 555"), ("Body", "hi & bye"), ("Body", "last")))
    body = b"From=%2B1+555&Body=hi+%26+bye&Body=last"
    assert payloads(body, delivery=twilio) == [b'{"From":"+1 555","Body":"last"}']
    assert payloads(body, {"when": "form.From == '+1 555'", "payload": "form.Body"}, delivery=twilio) == [b'"last"']
    assert payloads(body, {"when": "form.None"}, delivery=twilio) == []
    assert payloads(body, content="form") == [b'{"From":"+1 555","Body":"last"}']
    assert payloads(b'{"a":1}', {"payload": "form"}, content="form") == [b"{}"]
    with pytest.raises(InvalidRequest) as caught:
        payloads(b"a=1&" * 1001, content="form")
    assert caught.value.status == 413


def test_multipart_form_is_seen_as_any_form() -> None:
    body = httpx.Request("POST", "http://x/", data={"to": "a"}, files={"f": ("b.txt", b"\xff", "text/plain")}).read()
    assert payloads(body, {"when": "form.to == 'a'"}, content="form") == [
        b'{"to":"a","f":"data:text/plain;name=b.txt;base64,/w=="}'
    ]
    with pytest.raises(InvalidRequest, match="multipart"):
        payloads(body[:-4], content="form")


def test_json_in_a_forms_field_is_the_body() -> None:
    text = b'{"type":"block_actions","n":9007199254740993}'
    slack = make("slack", "s")
    signed = slack.sign(WebhookRequest("POST", "https://h.example/", (), urlencode({"payload": text}).encode()), 1.7e9)
    assert signed is not None
    delivery = slack.verify(signed, 1.7e9)
    assert payloads(signed.body, {"when": "body.type == 'block_actions'"}, delivery=delivery) == [text]


def test_items_are_jobs_with_their_own_bytes_and_identities() -> None:
    body = b'[{"sg_event_id":"a","n":1.0},\r\n {"sg_event_id":"b","n":9007199254740993}, {"n":3}]\r\n'
    delivery = Delivery("d-1", item_fields=("sg_event_id",))
    found = match(body, {"each": "body"}, delivery=delivery)
    assert [each.payload for each in found] == [
        b'{"sg_event_id":"a","n":1.0}',
        b'{"sg_event_id":"b","n":9007199254740993}',
        b'{"n":3}',
    ]
    assert [each.identity for each in found] == ["item:a", "item:b", "d-1#2"]
    assert [each.identity for each in match(body, {"each": "body"}, delivery=Delivery(None))] == [None] * 3


def test_items_are_filtered_and_shaped_one_by_one() -> None:
    body = b'{"at":7,"events":[{"e":"open","to":"a"},{"e":"click","to":"b"},"text"]}'
    route = {
        "each": "body.events",
        "when": "item.e == 'click'",
        "payload": "{to: item.to, at: body.at}",
        "key": "item.to",
    }
    assert [(each.payload, each.key) for each in match(body, route)] == [(b'{"to":"b","at":7}', "b")]
    assert payloads(body, {"each": "body.events[?e]"}) == [b'{"e":"open","to":"a"}', b'{"e":"click","to":"b"}']
    assert payloads(body, {"each": "body.events", "when": "starts_with(item.e, 'o')"})  # undefined on a text


def test_route_with_each_passes_over_what_is_no_array() -> None:
    for body in (b"{}", b'"x"', b"[]", b"no json", b'{"events":{"a":1}}'):
        assert match(body, {"each": "body.events"}) == []
    assert payloads(b"{}", {"each": "body"}, {}) == [b"{}"]


def test_more_items_than_one_call_takes_are_413() -> None:
    assert len(match(b"[" + b"1," * (MAX_EVENTS - 1) + b"1]", {"each": "body"})) == MAX_EVENTS
    for routes in ([{"each": "body"}], [{"each": "body"}, {}]):
        items = MAX_EVENTS + 1 if len(routes) == 1 else MAX_EVENTS
        with pytest.raises(InvalidRequest) as caught:
            match(b"[" + b"1," * (items - 1) + b"1]", *routes)
        assert caught.value.status == 413


def test_id_of_a_route_is_what_its_jobs_are_known_by() -> None:
    body = b'{"order":17,"items":[{"sku":"a"},{"sku":"b"}]}'
    assert match(body, {"id": "body.order"})[0].identity == "17"
    assert [found.identity for found in match(body, {"each": "body.items", "id": "item.sku"})] == ["a", "b"]
    assert match(b"{}", {"id": "body.order"})[0].identity == "d-1"


@pytest.mark.parametrize("field", ["when", "payload", "key", "lane", "id"])
def test_item_is_known_only_beside_each(field: str) -> None:
    with pytest.raises(ConfigError, match="no 'item' here"):
        compile_route(PLACE, target="t", lanes=LANES, **{field: "item.x"})
    compile_route(PLACE, target="t", lanes=LANES, each="body", **{field: "item.x"})
    with pytest.raises(ConfigError, match="no 'item' here"):
        compile_route(PLACE, target="t", lanes=LANES, each="item.x")


DATA = '{"z": 1.0, "n": 9007199254740993, "l": [ ]}'


@pytest.mark.parametrize("mode", ["structured", "binary", "batch"])
def test_cloudevent_gives_its_data_byte_for_byte_and_its_attributes_as_headers(mode: str) -> None:
    if mode == "binary":
        headers: dict[str, Any] = {f"ce_{name}": value for name, value in EVENT.items()}
        headers["content_type"] = "application/json"
        body = DATA.encode()
    else:
        headers, body = {"content_type": STRUCTURED + "; charset=utf-8"}, event(DATA)
        if mode == "batch":
            headers, body = {"content_type": BATCH}, b"[" + body + b"]"
    route = {"when": "headers.\"ce-type\" == 'order.paid' && body.z == `1`"}
    found = match(body, route, content="cloudevents", **headers)
    assert [each.payload for each in found] == [DATA.encode()]
    again = match(body, route, content="cloudevents", delivery=Delivery(None), **headers)
    assert again[0].identity == found[0].identity


def test_cloudevent_is_the_same_in_every_mode() -> None:
    headers: dict[str, Any] = {f"ce_{name}": value for name, value in EVENT.items()}
    binary = match(DATA.encode(), content="cloudevents", **headers)[0]
    structured = match(event(DATA), content="cloudevents", content_type=STRUCTURED)[0]
    assert binary == structured
    other = match(event(DATA, id="e-2"), content="cloudevents", content_type=STRUCTURED)[0]
    changed = match(event("1"), content="cloudevents", content_type=STRUCTURED)[0]
    assert len({found.identity for found in (binary, other, changed)}) == 3


@pytest.mark.parametrize(
    ("sent", "subject"),
    [
        ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
        ("%e2%82%ac", "€"),
        ('"a \\"b\\" %22c%22"', 'a "b" "c"'),
        ("50%", "50%"),
        ("%2541", "%41"),
        ("a+b", "a+b"),
        ("%FF", "\ufffd"),
        ("€".encode().decode("latin-1"), "€"),
    ],
)
def test_attribute_of_a_header_is_what_a_structured_event_says(sent: str, subject: str) -> None:
    """The first is the example of the HTTP binding, 3.1.3.2."""
    route = {"payload": 'headers."ce-subject"'}
    headers: dict[str, Any] = {f"ce_{name}": value for name, value in EVENT.items()} | {"ce_subject": sent}
    binary = match(b"1", route, content="cloudevents", **headers)
    assert [json.loads(each.payload) for each in binary] == [subject]
    structured = event("1", subject=subject)
    assert binary == match(structured, route, content="cloudevents", content_type=STRUCTURED)


def test_escaped_source_and_id_name_the_same_event() -> None:
    headers: dict[str, Any] = {f"ce_{name}": value for name, value in EVENT.items()} | {"ce_id": "%65-1"}
    binary = match(DATA.encode(), content="cloudevents", **headers)
    assert binary == match(event(DATA), content="cloudevents", content_type=STRUCTURED)


def test_content_type_of_the_data_is_an_attribute_in_every_mode() -> None:
    route = {"payload": 'headers."ce-datacontenttype"'}
    headers: dict[str, Any] = {f"ce_{name}": value for name, value in EVENT.items()}
    binary = match(b"1", route, content="cloudevents", content_type="application/json", **headers)
    structured = event("1", datacontenttype="application/json")
    assert binary == match(structured, route, content="cloudevents", content_type=STRUCTURED)
    assert binary[0].payload == b'"application/json"'


@pytest.mark.parametrize(
    ("kind", "sent", "data"),
    [
        ("text/plain", 'hello "you"', '"hello \\"you\\""'),
        ("Text/CSV; charset=utf-8", "a;b", '"a;b"'),
        ("application/xml", "<a>ä 😀</a>", '"<a>ä \\ud83d\\ude00</a>"'),
        ("application/jsonl", "1", '"1"'),
        ("application/json", '"text"', '"text"'),
        ("application/problem+JSON; x=y", '"text"', '"text"'),
        ("application/xml", '{"a":1}', '{"a":1}'),
        (None, '"text"', '"text"'),
        (None, "", None),
        ("text/plain", "", None),
    ],
)
def test_text_and_nothing_are_the_same_data_in_every_mode(kind: str | None, sent: str, data: str | None) -> None:
    """A string of a type that is not JSON is what it holds (JSON format of CloudEvents 1.0.2, 3.1)."""
    headers: dict[str, Any] = {f"ce_{name}": value for name, value in EVENT.items()}
    headers |= {} if kind is None else {"content_type": kind}
    binary = match(sent.encode(), content="cloudevents", **headers)
    attributes = {} if kind is None else {"datacontenttype": kind}
    structured = json.dumps(EVENT | attributes).encode() if data is None else event(data, **attributes)
    assert binary == match(structured, content="cloudevents", content_type=STRUCTURED)


def test_format_that_is_not_known_is_refused_whatever_its_headers_say() -> None:
    headers: dict[str, Any] = {f"ce_{name}": value for name, value in EVENT.items()}
    with pytest.raises(InvalidRequest) as caught:
        match(b"<event/>", content="cloudevents", content_type="application/cloudevents+xml", **headers)
    assert caught.value.status == 415


def test_events_of_a_batch_are_routed_and_known_one_by_one() -> None:
    body = (
        b"[" + b",".join(event(str(at), id=f"e-{at}", type="even" if at % 2 == 0 else "odd") for at in range(4)) + b"]"
    )
    found = match(body, {"when": "headers.\"ce-type\" == 'even'"}, {}, content="cloudevents", content_type=BATCH)
    assert [each.payload for each in found] == [b"0", b"0", b"1", b"2", b"2", b"3"]
    assert len({each.identity for each in found}) == 4
    assert match(b"[]", content="cloudevents", content_type=BATCH) == []


def test_data_that_is_base64_is_decoded() -> None:
    members = EVENT | {"data_base64": base64.b64encode(b'{"a": 1}').decode()}
    assert payloads(json.dumps(members).encode(), content="cloudevents", content_type=STRUCTURED) == [b'{"a": 1}']
    members["data_base64"] = base64.b64encode("ä".encode()).decode()
    assert payloads(json.dumps(members).encode(), content="cloudevents", content_type=STRUCTURED) == ['"ä"'.encode()]
    assert payloads(json.dumps(EVENT).encode(), content="cloudevents", content_type=STRUCTURED) == [b"null"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{}", "application/json", 415),
        (b"{}", STRUCTURED, 400),
        (b"[]", STRUCTURED, 400),
        (b"{", STRUCTURED, 400),
        (b'{"specversion":"0.3","id":"1","source":"s","type":"t"}', STRUCTURED, 400),
        (b'{"specversion":"1.0","id":"","source":"s","type":"t"}', STRUCTURED, 400),
        (b'{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"%"}', STRUCTURED, 400),
        (b"{}", BATCH, 400),
        (b"[1]", BATCH, 400),
        (b"[" * 1000 + b"]" * 1000, BATCH, 400),
        (b'{"a":' * 5000, STRUCTURED, 400),
        (b"[" + b"{}," * MAX_EVENTS + b"{}]", BATCH, 413),
    ],
)
def test_what_is_no_cloudevent_is_refused(body: bytes, kind: str, status: int) -> None:
    with pytest.raises(InvalidRequest) as caught:
        match(body, content="cloudevents", content_type=kind)
    assert caught.value.status == status


MENDED = [
    (rb'{"type":"x","t":"cut \ud83d"}', rb'{"type":"x","t":"cut \ufffd"}'),
    (rb'{"type":"x", "\uDE00":[1e3,1.0]}', rb'{"type":"x", "\ufffd":[1e3,1.0]}'),
    (b'\xef\xbb\xbf {"type":"x"}', b' {"type":"x"}'),
]


@pytest.mark.parametrize(("body", "mended"), MENDED)
def test_json_that_parsers_refuse_is_routed_as_the_json_that_it_is(body: bytes, mended: bytes) -> None:
    assert payloads(body, {"when": "body.type == 'x'"}) == [mended]


@pytest.mark.parametrize(("body", "mended"), MENDED)
def test_verifier_reads_fields_of_json_that_parsers_refuse(body: bytes, mended: bytes) -> None:
    assert BodyFields(["type"]).read(body) == {"type": "x"}


@pytest.mark.parametrize("number", ["1e400", "-1E+999", "9" * 5000])
def test_number_that_no_double_holds_refuses_the_delivery(number: str) -> None:
    with pytest.raises(InvalidRequest, match="no double") as caught:
        match(f'{{"type":"x","n":{number}}}'.encode(), {"when": "body.type == 'x'"})
    assert caught.value.status == 422


@pytest.mark.parametrize(
    "body", [b"NaN", b'{"n":Infinity}', rb"\ud83d", rb'{"t":"\ud83d', b"\xef\xbb\xbfplain", b"1e400 and more"]
)
def test_text_that_is_no_json_is_still_a_text(body: bytes) -> None:
    assert payloads(body) == [json.dumps(body.decode(), ensure_ascii=False).encode()]


def test_events_of_a_sender_that_cuts_texts_are_taken() -> None:
    body = b"[" + event(rb'{"t":"\ud83d"}'.decode()) + b"]"
    assert payloads(body, content="cloudevents", content_type=BATCH) == [rb'{"t":"\ufffd"}']
    assert payloads(b"\xef\xbb\xbf" + body[1:-1], content="cloudevents", content_type=STRUCTURED) == [
        rb'{"t":"\ufffd"}'
    ]
