from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from gateway import ConfigError, Delivery, Secret, WebhookRequest
from gateway.errors import InvalidRequest
from gateway.routes import Match, Route, compile_route
from gateway.triggers import Trigger
from plugins.github import GithubConfig, GithubVerifier

PLACE = "gateway.toml: triggers.t.routes[0]"
VERIFIER = GithubVerifier(GithubConfig(secrets=(Secret("x"),)))


def _route(**fields: Any) -> Route:
    return compile_route(PLACE, **{"target": "deploy", **fields})


def _match(*routes: Route, body: bytes = b"{}", delivery: Delivery | None = None, **request: Any) -> list[Match]:
    sent = WebhookRequest("POST", request.get("url", "https://hooks.example/hooks/t"), request.get("headers", ()), body)
    return Trigger("t", VERIFIER, routes).match(sent, delivery or Delivery(None))


def _payload(expression: str, **request: Any) -> bytes:
    return _match(_route(payload=expression), **request)[0].payload


def _holds(when: str, **request: Any) -> bool:
    return bool(_match(_route(when=when), **request))


def test_route_without_expressions_takes_every_delivery() -> None:
    assert _match(_route(lane="low")) == [Match("deploy", b"{}", "", "low", 0)]


def test_each_route_that_holds_gives_a_match_in_order() -> None:
    routes = [_route(target="a"), _route(target="b", when="body.x"), _route(target="c", when="!(body.x)")]
    assert [(match.target, match.route_index) for match in _match(*routes)] == [("a", 0), ("c", 2)]


def test_route_counts_among_those_to_its_target_wherever_a_route_to_another_one_is_put() -> None:
    own = [_route(target="a"), _route(target="a", when="body", key="body.x")]
    for routes in (own, [_route(target="b"), *own], [own[0], _route(target="b", when="body.x"), own[1]]):
        found = [match.nth for match in _match(*routes, body=b'{"x":1}') if match.target == "a"]
        assert found == [0, 1]
    assert [match.nth for match in _match(_route(target="b"), _route(target="a"))] == [0, 0]


def test_no_route_that_holds_is_no_error() -> None:
    assert _match(_route(when="body.x")) == []


def test_when_sees_headers_by_their_lower_case_name() -> None:
    headers = (("x-github-event", "push"),)
    assert _holds("headers.\"x-github-event\" == 'push'", headers=headers)
    assert not _holds("headers.\"x-github-event\" == 'ping'", headers=headers)


def test_repeated_headers_are_joined_in_order() -> None:
    headers = (("via", "a"), ("x", "y"), ("via", "b"))
    assert _payload("headers", headers=headers) == b'{"via":"a, b","x":"y"}'


@pytest.mark.parametrize(
    ("url", "query"),
    [
        ("https://h.example/hooks/t", b"{}"),
        ("https://h.example/hooks/t?", b"{}"),
        ("https://h.example/hooks/t?a=1&b=&c", b'{"a":"1","b":"","c":""}'),
        ("https://h.example/hooks/t?a=1&a=2#?a=3", b'{"a":"2"}'),
        ("https://h.example/hooks/t?a=%C3%A4+b%FF", '{"a":"ä b\ufffd"}'.encode()),
        ("https://[/hooks/t?a=%", b'{"a":"%"}'),
    ],
)
def test_query_is_a_table_of_texts(url: str, query: bytes) -> None:
    assert _payload("query", url=url) == query


@pytest.mark.parametrize(
    ("when", "holds"),
    [("body.zero", True), ("body.none", False), ("body.empty", False), ("body.list", False), ("body.no", False)],
)
def test_when_holds_by_jmespaths_truth(when: str, holds: bool) -> None:
    assert _holds(when, body=b'{"zero":0,"none":null,"empty":"","list":[],"no":false}') is holds


@pytest.mark.parametrize("when", ["length(body.n) > `1`", "body.s < body.n", "contains(body.missing, 'x')"])
def test_when_that_is_not_defined_on_the_delivery_does_not_hold(when: str) -> None:
    assert not _holds(when, body=b'{"n":1,"s":"x"}')


BODY = b' {"z": 1.0, "a": 9007199254740993,\r\n "n": 123456789012345678901234567890, "e": 1E5, "l": [ ], "z": 2}\n'


def test_payload_left_out_is_the_body_byte_for_byte() -> None:
    assert _match(_route(), body=BODY)[0].payload == BODY


def test_payload_keeps_integers_exact_beyond_64_bits() -> None:
    assert _payload("{a: body.a, n: body.n}", body=BODY) == b'{"a":9007199254740993,"n":123456789012345678901234567890}'
    assert _holds("body.n == `123456789012345678901234567890`", body=BODY)


def test_payload_keeps_text_and_key_order() -> None:
    body = '{"z":"ä\\u2028\\u0000","a":[{"y":1.5},null,true]}'.encode()
    assert orjson.loads(_payload("body", body=body)) == orjson.loads(body)
    assert _payload("body", body=body).startswith(b'{"z":')


def test_payload_whose_expression_finds_nothing_is_null() -> None:
    assert _payload("body.missing.deeper") == b"null"


@pytest.mark.parametrize("payload", ["length(body.n)", "to_number('1e999')", "to_number('nan')", "&body", "[&body]"])
def test_payload_that_fails_refuses_the_whole_delivery_and_names_the_route(payload: str) -> None:
    with pytest.raises(InvalidRequest, match=r"trigger 't', routes\[1\] \(to 'resize'\)") as caught:
        _match(_route(), _route(target="resize", payload=payload), body=b'{"n":1}')
    assert caught.value.status == 422


def test_payload_of_a_route_that_does_not_hold_is_not_evaluated() -> None:
    route = _route(when="body.list", payload="length(body.list)")
    assert _match(route, body=b"{}") == []
    assert _match(route, body=b'{"list":[1,2]}')[0].payload == b"2"


@pytest.mark.parametrize("text", ["", "hello", "a=1&b=%C3%A4", "{'single': 1}", '{"a":NaN}', "ä\x00\n", "1e999"])
def test_body_that_is_not_json_is_handed_on_as_a_json_string(text: str) -> None:
    assert orjson.loads(_match(_route(), body=text.encode())[0].payload) == text


def test_body_with_a_byte_order_mark_is_handed_on_without_it() -> None:
    assert _match(_route(), body=b"\xef\xbb\xbf{}")[0].payload == b"{}"


def test_body_that_is_not_json_is_null_to_expressions() -> None:
    assert (
        _payload("{body: body, kind: headers.kind}", body=b"a=1", headers=(("kind", "x"),))
        == b'{"body":null,"kind":"x"}'
    )


@pytest.mark.parametrize("body", [b"not json", b"NaN", b"\xff\xfe"])
def test_payload_that_is_null_because_the_body_is_not_json_refuses_the_delivery(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"routes\[0\].*not JSON") as raised:
        _match(_route(payload="body"), body=body)
    assert raised.value.status == 422
    # what does not come from the body stands
    assert _payload("headers.\"x-github-event\" || 'none'", body=body) == b'"none"'


def test_body_that_is_no_text_is_refused_only_where_it_is_handed_on() -> None:
    assert _payload("headers", body=b"\xff\x00") == b"{}"
    assert _match(_route(when="body.x"), body=b"\xff\x00") == []
    with pytest.raises(InvalidRequest, match=r"routes\[0\] .* neither JSON nor UTF-8") as caught:
        _match(_route(), body=b"\xff\x00")
    assert caught.value.status == 415


def test_delivery_is_refused_before_items_that_each_carry_all_of_it_fill_the_memory() -> None:
    body = orjson.dumps({"items": list(range(2000)), "more": "x" * 500_000})
    whole = _route(each="body.items", payload="{item: item, all: body}")
    with pytest.raises(InvalidRequest, match=r"routes\[0\] \(to 'deploy'\).*more than 64 MiB together") as raised:
        _match(whole, body=body)
    assert raised.value.status == 413
    assert len(_match(_route(each="body.items"), body=body)) == 2000


def test_delivery_of_more_items_than_may_hold_up_all_requests_is_refused() -> None:
    body = orjson.dumps([0] * 20_001)
    with pytest.raises(InvalidRequest, match="more than 20000 items") as raised:
        _match(_route(each="body", when="item == 'x'"), body=body)
    assert raised.value.status == 413
    assert len(_match(_route(), _route(each="body", when="item == `1`"), body=orjson.dumps([0] * 19_999 + [1]))) == 2


@pytest.mark.parametrize("body", [b"[" * 65 + b"]" * 65, b'{"a":' * 2000 + b"1" + b"}" * 2000])
def test_body_nested_over_64_is_refused(body: bytes) -> None:
    assert _match(_route(when="body.x"), body=b"[" * 64 + b"]" * 64) == []
    with pytest.raises(InvalidRequest, match="deeper than 64") as caught:
        _match(_route(), body=body)
    assert caught.value.status == 400


def test_body_of_unpaired_brackets_is_text() -> None:
    assert orjson.loads(_match(_route(), body=b"[" * 5000)[0].payload) == "[" * 5000


def test_verifiers_body_stands_in_for_the_requests() -> None:
    delivery = Delivery("id", body=b'{"ref":"x"}')
    matches = _match(_route(when="body.ref == 'x'"), body=b"payload=%7B%7D", delivery=delivery)
    assert [match.payload for match in matches] == [b'{"ref":"x"}']


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("body.s", "a b"),
        ("body.i", "123456789012345678901234567890"),
        ("body.f", "1.5"),
        ("body.t", "true"),
        ("body.none", ""),
        ("body.missing", ""),
        ("join('/', [body.s, to_string(body.f)])", "a b/1.5"),
    ],
)
def test_key_is_a_text(key: str, expected: str) -> None:
    body = b'{"s":"a b","i":123456789012345678901234567890,"f":1.5,"t":true,"none":null}'
    assert _match(_route(key=key), body=body)[0].key == expected


def test_long_key_is_replaced_by_its_hash() -> None:
    def key(text: str) -> str:
        return _match(_route(key="body"), body=orjson.dumps(text))[0].key

    assert key("x" * 64) == "x" * 64
    assert [len(key(text)) for text in ("x" * 65, "x" * 100_000, "ä" * 33)] == [64, 64, 64]
    assert key("x" * 65) == key("x" * 65) != key("x" * 66)


@pytest.mark.parametrize("key", ["body", "[body]", "length(body.n)", "to_number('1e999')"])
def test_key_that_is_no_scalar_refuses_the_delivery(key: str) -> None:
    with pytest.raises(InvalidRequest, match=r"routes\[0\]") as caught:
        _match(_route(key=key), body=b'{"n":1}')
    assert caught.value.status == 422


@pytest.mark.parametrize("field", ["key", "id"])
@pytest.mark.parametrize(
    ("expression", "detail"), [("body", "must be a string"), (r'`"\ud800"`', "half of a surrogate pair")]
)
def test_key_or_id_that_is_no_text_refuses_the_delivery_by_its_name(field: str, expression: str, detail: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{field} .*{detail}") as caught:
        _match(_route(**{field: expression}), body=b'{"n":1}')
    assert caught.value.status == 422


@pytest.mark.parametrize("field", ["when", "payload", "key"])
def test_route_with_a_bad_expression_is_refused_with_its_field_and_column(field: str) -> None:
    with pytest.raises(ConfigError, match="column 10") as caught:
        _route(**{field: "headers.x-github-event"})
    assert caught.value.place == f"{PLACE}.{field}"


def test_delivery_of_25_kb_is_matched_within_milliseconds() -> None:
    """Ten routes; the bound is the whole acknowledgement's budget, many times what it takes."""
    commits = [{"id": f"{n:040x}", "author": {"name": "someone"}, "added": ["a/b.py"] * 5} for n in range(200)]
    body = orjson.dumps({"ref": "refs/heads/main", "after": "0" * 40, "commits": commits})
    assert len(body) > 25_000
    routes = [_route(when="body.ref == 'refs/heads/main'", payload="{sha: body.after, ids: body.commits[].id}")] * 10
    _match(*routes, body=body)
    took_s = []
    for _ in range(5):
        started = time.perf_counter()
        assert len(_match(*routes, body=body)) == 10
        took_s.append(time.perf_counter() - started)
    assert min(took_s) < 0.1
