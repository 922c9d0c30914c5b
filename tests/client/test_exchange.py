"""What is tried again, how far apart, and what the answers mean; the gateway is played by respx."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
import respx

from gateway.client import BadAnswer, InvalidRequest, NotAllowed, NotFound, Unavailable, WrongState
from gateway.errors import RequestError
from tests.client.either import Either, lost, make, refused

URL = "http://gateway.test"
JOB = "01a22780-5329-7d03-8458-4c0287d2a700"
ACCEPTED = httpx.Response(202, json={"job_id": JOB, "status": "pending"})
RECORD = {
    "job_id": JOB,
    "target": "t",
    "status": "pending",
    "lane": "default",
    "priority": 0,
    "attempts": 0,
    "max_attempts": 5,
    "stalls": 0,
    "created_at": "2026-03-14T15:09:26.535Z",
    "updated_at": "2026-03-14T15:09:26.535Z",
}
Answer = httpx.Response | Callable[[httpx.Request], httpx.Response]


def problem(status: int, detail: str = "no", headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    body = {"type": "about:blank", "title": "No", "status": status, "detail": detail, "errors": [], **more}
    return httpx.Response(status, json=body, headers=headers)


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
async def patient(kind: str, pauses: list[float]) -> AsyncIterator[Either]:
    """A client that notes its pauses and does not wait."""
    client = make(kind, URL, pauses=pauses, key="gwk_k_0123456789abcdef")
    yield client
    await client.aclose()


@pytest.fixture
def wire() -> Iterator[respx.Router]:
    with respx.mock(base_url=URL, assert_all_called=False) as router:
        yield router


def play(router: respx.Router, method: str, path: str, *answers: Answer) -> respx.Route:
    """Answers the requests to one path in this order."""
    left = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        found = next(left)
        return found(request) if callable(found) else found

    return router.route(method=method, path=path).mock(side_effect=answer)


def keys_of(route: respx.Route) -> list[str]:
    return [json.loads(call.request.content)["idempotency_key"] for call in route.calls]


@pytest.mark.parametrize("first", [lost, refused, problem(503), problem(429), httpx.Response(502, text="bad gateway")])
async def test_submit_is_tried_again_with_the_same_key(
    patient: Either, wire: respx.Router, pauses: list[float], first: Answer
) -> None:
    route = play(wire, "POST", "/jobs", first, lost, ACCEPTED)
    assert (await patient("submit", "t", {"n": 1})).job_id == JOB
    keys = keys_of(route)
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert len(keys[0]) == 32
    assert len(pauses) == 2
    assert all(0.2 <= pause <= 5 for pause in pauses)


async def test_own_key_is_kept_and_each_submit_has_another(patient: Either, wire: respx.Router) -> None:
    route = play(wire, "POST", "/jobs", ACCEPTED, ACCEPTED, ACCEPTED)
    await patient("submit", "t", idempotency_key="order-7")
    await patient("submit", "t")
    await patient("submit", "t")
    keys = keys_of(route)
    assert keys[0] == "order-7"
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "7"},
        {"Retry-After": "Sat, 14 Mar 2026 15:09:33 GMT", "Date": "Sat, 14 Mar 2026 15:09:26 GMT"},
    ],
)
async def test_retry_after_is_heeded(
    patient: Either, wire: respx.Router, pauses: list[float], headers: dict[str, str]
) -> None:
    play(wire, "POST", "/jobs", problem(503, headers=headers), ACCEPTED)
    await patient("submit", "t")
    assert pauses == [7.0]


@pytest.mark.parametrize("text", ["soon", "Mon, Sep 0 10000000000000000000000 99:99"])
async def test_retry_after_that_says_nothing_is_passed_over(
    patient: Either, wire: respx.Router, pauses: list[float], text: str
) -> None:
    play(wire, "POST", "/jobs", problem(503, headers={"Retry-After": text}), ACCEPTED)
    await patient("submit", "t")
    assert len(pauses) == 1


async def test_gateway_that_asks_for_too_long_is_not_waited_for(
    patient: Either, wire: respx.Router, pauses: list[float]
) -> None:
    play(wire, "POST", "/jobs", problem(503, headers={"Retry-After": "31"}))
    with pytest.raises(Unavailable, match="cannot do it now: no"):
        await patient("submit", "t")
    assert pauses == []


async def test_what_never_came_through_says_its_key(patient: Either, wire: respx.Router, pauses: list[float]) -> None:
    route = play(wire, "POST", "/jobs", *[lost] * 5)
    with pytest.raises(Unavailable, match=r"http://gateway.test/jobs: the connection was reset") as raised:
        await patient("submit", "t")
    assert raised.value.idempotency_key == keys_of(route)[0]
    assert len(pauses) == 4


@pytest.mark.parametrize(
    ("call", "method", "path", "answer"),
    [
        (("cancel", JOB), "DELETE", f"/jobs/{JOB}", httpx.Response(200, json={"job_id": JOB, "status": "cancelled"})),
        (("retry", JOB), "POST", f"/dlq/{JOB}/retry", httpx.Response(200, json=RECORD)),
        (("schedules.run", "n"), "POST", "/schedules/n/run", ACCEPTED),
        (("schedules.delete", "n"), "DELETE", "/schedules/n", httpx.Response(204)),
        (("apikeys.delete", "k"), "DELETE", "/apikeys/k", httpx.Response(204)),
    ],
)
async def test_what_would_differ_the_second_time_is_repeated_only_where_it_was_not_sent(
    patient: Either, wire: respx.Router, call: tuple[str, ...], method: str, path: str, answer: httpx.Response
) -> None:
    route = play(wire, method, path, refused, refused, answer, lost)
    await patient(*call)
    assert route.call_count == 3
    with pytest.raises(Unavailable):
        await patient(*call)
    assert route.call_count == 4


async def test_without_retries_nothing_is_repeated_and_no_key_is_made(kind: str, wire: respx.Router) -> None:
    client = make(kind, URL, retries=0)
    route = play(wire, "POST", "/jobs", refused, ACCEPTED)
    with pytest.raises(Unavailable):
        await client("submit", "t")
    await client("submit", "t")
    assert b"idempotency_key" not in route.calls[1].request.content
    await client.aclose()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, InvalidRequest),
        (401, NotAllowed),
        (403, NotAllowed),
        (404, NotFound),
        (409, WrongState),
        (413, RequestError),
    ],
)
async def test_refusal_is_an_error_of_its_kind_and_is_not_repeated(
    patient: Either, wire: respx.Router, status: int, error: type[RequestError]
) -> None:
    route = play(wire, "POST", "/jobs", problem(status, "because"))
    with pytest.raises(error, match="because") as raised:
        await patient("submit", "t")
    assert raised.value.status == status
    assert route.call_count == 1


async def test_silence_is_told_in_words(patient: Either, wire: respx.Router) -> None:
    wire.get("/jobs/x/status").mock(side_effect=httpx.ReadTimeout(""))
    with pytest.raises(Unavailable, match=r"no gateway answers at \S+/jobs/x/status: not in time"):
        await patient("status", "x")


@pytest.mark.parametrize("asked", [("status", "x"), ("follow",)])
async def test_answer_that_is_not_encoded_as_it_says_is_not_that_of_a_gateway(
    patient: Either, wire: respx.Router, asked: tuple[str, ...]
) -> None:
    headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
    wire.route().mock(side_effect=lambda _: httpx.Response(200, headers=headers, stream=httpx.ByteStream(b"abc")))
    with pytest.raises(BadAnswer, match=r"http\S+ is not a gateway: its answer cannot be decoded"):
        await patient(*asked)


@pytest.mark.parametrize("page", [{}, {"jobs": "x"}, {"jobs": [{"job_id": 5}]}, {"jobs": [], "next_cursor": 1}])
async def test_page_that_is_none_is_not_that_of_a_gateway(patient: Either, wire: respx.Router, page: Any) -> None:
    wire.get("/jobs").mock(httpx.Response(200, json=page))
    with pytest.raises(BadAnswer, match="GET /jobs: the answer is not that of a gateway of this version"):
        await patient("jobs")


@pytest.mark.parametrize(
    ("kind_of_body", "body", "says"),
    [
        ("text/html", "<html>", "with no stream of events"),
        ("text/event-stream", "data: {bad\n\n", "an event is not that"),
        ("text/event-stream", "data: []\n\n", "an event is not that"),
        ("text/event-stream", 'data: {"type":7}\n\n', "an event is not that"),
    ],
)
async def test_stream_that_is_none_is_not_followed_for_ever(
    patient: Either, wire: respx.Router, kind_of_body: str, body: str, says: str
) -> None:
    play(wire, "GET", "/events", httpx.Response(200, text=body, headers={"content-type": kind_of_body}))
    with pytest.raises(BadAnswer, match=says):
        await patient("follow")


async def test_every_fault_is_told(patient: Either, wire: respx.Router) -> None:
    errors = [{"pointer": "/retry/base", "detail": "not a duration"}, {"pointer": "/lane", "detail": "no such lane"}]
    play(wire, "POST", "/jobs", problem(422, "several fields are wrong", errors=errors))
    with pytest.raises(InvalidRequest) as raised:
        await patient("submit", "t")
    assert str(raised.value) == "several fields are wrong: /retry/base: not a duration; /lane: no such lane"
    assert [fault.pointer for fault in raised.value.faults] == ["/retry/base", "/lane"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (httpx.Response(404, text="<html>"), "is not a gateway: it answered 404"),
        (httpx.Response(302, headers={"Location": "https://login.test/"}), "it points to https://login.test/"),
        (httpx.Response(200, text="<html>"), "not that of a gateway of this version"),
        (httpx.Response(202, json={"id": 7}), "not that of a gateway of this version"),
    ],
)
async def test_what_is_no_gateway_is_named(patient: Either, wire: respx.Router, answer: Answer, says: str) -> None:
    play(wire, "POST", "/jobs", answer)
    with pytest.raises(BadAnswer, match=says):
        await patient("submit", "t")


async def test_key_is_sent_and_never_shown(patient: Either, wire: respx.Router) -> None:
    route = play(wire, "GET", f"/jobs/{JOB}", problem(401, "the API key is not right"))
    with pytest.raises(NotAllowed) as raised:
        await patient("get", JOB)
    assert route.calls[0].request.headers["authorization"] == "Bearer gwk_k_0123456789abcdef"
    assert "0123456789abcdef" not in repr(raised.value) + repr(patient.client)


@pytest.mark.parametrize("name", ["", ".", "..", "../apikeys", "a/pause"])
async def test_name_that_is_no_path_is_refused_before_it_is_sent(patient: Either, name: str) -> None:
    with pytest.raises(ValueError, match="is no name"):
        await patient("targets.pause", name)


async def test_name_of_whatever_characters_stays_one_segment(patient: Either, wire: respx.Router) -> None:
    route = wire.post(url__regex=".*").mock(return_value=problem(404))
    with pytest.raises(NotFound):
        await patient("targets.pause", "..;apikeys?x")
    assert route.calls[0].request.url.raw_path == b"/targets/..%3Bapikeys%3Fx/pause"


@pytest.mark.parametrize(
    "url", ["gateway.test", "ftp://gateway.test", "http://", "http://u:p@gateway.test", "http://g/?a"]
)
def test_url_that_cannot_be_meant_is_refused(kind: str, url: str) -> None:
    with pytest.raises(ValueError, match="gateway"):
        make(kind, url)


async def test_gateway_below_a_path_is_reached_there(kind: str, wire: respx.Router) -> None:
    client = make(kind, f"{URL}/events/")
    route = play(wire, "GET", f"/events/jobs/{JOB}", httpx.Response(200, json=RECORD))
    assert (await client("get", JOB)).target == "t"
    assert route.called
    await client.aclose()


async def test_unknown_fields_of_a_newer_gateway_are_passed_over(patient: Either, wire: respx.Router) -> None:
    play(wire, "GET", f"/jobs/{JOB}", httpx.Response(200, json=RECORD | {"mood": "good"}))
    assert (await patient("get", JOB)).job_id == JOB


async def test_cancelled_wait_ends_at_once(wire: respx.Router) -> None:
    client = make("asynchronous", URL)
    play(wire, "GET", f"/jobs/{JOB}", *[httpx.Response(200, json=RECORD)] * 100)
    waiting = asyncio.create_task(client("wait", JOB))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await client.aclose()
