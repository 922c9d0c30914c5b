"""How a trigger takes deliveries in: what it answers, whom it lets in, how many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.api.meters import Meters
from gateway.api.senders import is_within, sender_of
from gateway.jobs import Outcome, Settlement
from gateway.limits import Rate
from tests.api.running import Running, claim, running
from tests.api.test_hooks import samples
from tests.api.triggered import send, triggered_settings
from tests.servers import Server


@pytest.fixture
async def api(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    async with running(triggered_settings(tmp_path, valkey_server.url, namespace)) as gateway:
        yield gateway


async def run_next(api: Running, outcome: Outcome = "succeeded", **facts: Any) -> None:
    """Claims the next job as soon as there is one, and settles it."""
    await api.client.get("/livez")  # it has registered what claims ask for before it answers
    async with asyncio.timeout(10):
        while True:
            worker, ids, tokens = await claim(api.store)
            if ids:
                await worker.exchange([Settlement(ids[0], tokens[0], outcome, **facts)], None)
                return
            await asyncio.sleep(0.02)


async def test_custom_response_is_the_answer_also_to_a_repeat(api: Running) -> None:
    for _ in range(2):
        answer = await send(api, "custom", x_id="d-1")
        assert (answer.status_code, answer.text) == (201, "<Response/>")
        assert answer.headers["content-type"] == "text/xml"
    assert await api.queued() == 1


async def test_answer_without_content_says_nothing_of_a_length_and_the_connection_goes_on(api: Running) -> None:
    for _ in range(2):
        answer = await send(api, "silent")
        assert (answer.status_code, answer.content) == (204, b"")
        assert not {"content-length", "content-type", "transfer-encoding"} & set(answer.headers)
    await api.client.put("/targets/gone", json={"executor": "http", "url": "https://x.example/"})
    answer = await api.client.delete("/targets/gone")
    assert (answer.status_code, answer.content) == (204, b"")
    assert not {"content-length", "content-type", "transfer-encoding"} & set(answer.headers)


async def test_result_is_the_answer_where_it_comes_in_time(api: Running) -> None:
    sending = asyncio.create_task(send(api, "asked", x_id="d-1"))
    await run_next(api, result='{"text":"hello", "n":9007199254740993}')
    answer = await sending
    assert (answer.status_code, answer.text) == (200, '{"text":"hello", "n":9007199254740993}')
    again = await send(api, "asked", x_id="d-1")
    assert (again.status_code, again.text) == (200, answer.text)


async def test_result_that_is_a_text_goes_out_as_the_content_type_says(api: Running) -> None:
    sending = asyncio.create_task(send(api, "voice"))
    await run_next(api, result=orjson.dumps("<Response><Say>hi</Say></Response>").decode())
    answer = await sending
    assert (answer.status_code, answer.text) == (200, "<Response><Say>hi</Say></Response>")
    assert answer.headers["content-type"] == "text/xml"


async def test_job_that_dies_is_502_and_the_next_copy_runs_again(api: Running) -> None:
    sending = asyncio.create_task(send(api, "asked", x_id="d-1"))
    await run_next(api, "dead", reason="fatal")
    assert (await sending).status_code == 502
    sending = asyncio.create_task(send(api, "asked", x_id="d-1"))
    await run_next(api, result="1")
    assert (await sending).text == "1"


async def test_job_that_takes_too_long_is_answered_as_usual(api: Running) -> None:
    for trigger in ("hasty", "late"):  # a content type alone is that of the result
        answer = await send(api, trigger)
        assert (answer.status_code, answer.headers["content-type"]) == (202, "application/json")
        assert answer.json()["jobs"]
    answer = await send(api, "fixed")
    assert (answer.status_code, answer.text, answer.headers["content-type"]) == (200, "", "text/xml")


async def test_sender_outside_the_networks_is_the_same_401_before_its_body_is_read(api: Running) -> None:
    answer = await send(api, "guarded", b"x" * 10)
    assert answer.status_code == 401
    assert answer.json()["detail"] == "the delivery does not verify"
    assert await samples(api, "gateway_delivery_rejections_total") == {("address", "guarded"): 1}
    assert (await send(api, "local")).status_code == 202
    spoofed = await send(api, "guarded", x_forwarded_for="192.0.2.7")
    assert spoofed.status_code == 401


async def test_trusted_proxy_tells_the_sender(valkey_server: Server, namespace: str, tmp_path: Path) -> None:
    environ = {"GATEWAY_GATEWAY_TRUSTED_PROXIES": "127.0.0.1,10.0.0.0/8"}
    async with running(triggered_settings(tmp_path, valkey_server.url, namespace, **environ)) as api:
        assert (await send(api, "guarded", x_forwarded_for="192.0.2.7, 10.1.1.1")).status_code == 202
        assert (await send(api, "guarded", x_forwarded_for="192.0.2.7, 203.0.113.1")).status_code == 401
        assert (await send(api, "guarded", x_forwarded_for="nonsense")).status_code == 401
        assert (await send(api, "guarded")).status_code == 401


@pytest.mark.parametrize(
    ("peer", "forwarded", "sender"),
    [
        ("203.0.113.1", ["192.0.2.7"], "203.0.113.1"),
        ("10.0.0.1", ["192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["1.1.1.1, 192.0.2.7, 10.0.0.2"], "192.0.2.7"),
        ("10.0.0.1", ["1.1.1.1", "192.0.2.7"], "192.0.2.7"),
        ("10.0.0.1", ["1.1.1.1, garbage"], "10.0.0.1"),
        ("10.0.0.1", ["192.0.2.7:5123"], "192.0.2.7"),
        ("10.0.0.1", ["1.1.1.1, [2001:DB8::1]:5123, 10.0.0.2:80"], "2001:DB8::1"),
        ("10.0.0.1", ["[2001:db8::1]"], "2001:db8::1"),
        ("10.0.0.1", ["192.0.2.7:http"], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["2001:db8::1"], "2001:db8::1"),
        ("", ["192.0.2.7"], "192.0.2.7"),
        ("", [], ""),
    ],
)
def test_sender_is_the_last_address_that_no_trusted_proxy_vouches_for(
    peer: str, forwarded: list[str], sender: str
) -> None:
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    scope = {"client": (peer, 1) if peer else None, "headers": headers}
    assert sender_of(scope, ("10.0.0.0/8",)) == sender
    assert sender_of(scope, ()) == peer


def test_address_is_within_a_network_of_its_kind() -> None:
    assert is_within("::ffff:192.0.2.1", ("192.0.2.0/24",))
    assert is_within("2001:db8::1", ("192.0.2.0/24", "2001:db8::/32"))
    assert not is_within("192.0.2.1", ("2001:db8::/32",))
    assert not is_within("", ("0.0.0.0/0",))


async def test_more_than_the_limit_is_503_with_retry_after_and_forgeries_use_none_of_it_up(api: Running) -> None:
    for _ in range(3):
        assert (await api.client.post("/hooks/spaced", content=b"{}")).status_code == 401
    assert [(await send(api, "spaced", x_id=f"d-{at}")).status_code for at in range(3)] == [202, 202, 503]
    answer = await send(api, "spaced", x_id="d-2")
    assert 3500 <= int(answer.headers["retry-after"]) <= 3600
    assert await api.queued() == 2


def test_meter_lets_a_burst_go_and_then_one_at_each_interval() -> None:
    meters, rate = Meters(), Rate("10/s")
    assert [meters.wait_s("t", rate, 3, now_s=100.0) == 0 for _ in range(4)] == [True, True, True, False]
    assert meters.wait_s("t", rate, 3, now_s=100.0) == pytest.approx(0.1)
    assert meters.wait_s("other", rate, 3, now_s=100.0) == 0
    assert meters.wait_s("t", rate, 3, now_s=100.1) == 0
    assert meters.wait_s("t", rate, 3, now_s=100.1) == pytest.approx(0.1)
    assert [meters.wait_s("t", rate, 3, now_s=200.0) == 0 for _ in range(4)] == [True, True, True, False]


def test_meter_has_one_over_the_limit_noted_a_minute_and_counts_the_others() -> None:
    meters = Meters()
    assert [meters.noted.passed_over("t", now_s=at_s) for at_s in (100.0, 100.1, 159.9)] == [0, None, None]
    assert meters.noted.passed_over("other", now_s=100.2) == 0
    assert meters.noted.passed_over("t", now_s=160.0) == 2
    assert meters.noted.passed_over("t", now_s=50.0) == 0  # the clock was set back


def test_meter_keeps_nobody_out_for_long_when_the_clock_was_set_back() -> None:
    meters, rate = Meters(), Rate("10/s")
    for _ in range(3):
        meters.wait_s("t", rate, 3, now_s=7200.0)
    assert meters.wait_s("t", rate, 3, now_s=3600.0) == pytest.approx(0.1)
    assert meters.wait_s("t", rate, 3, now_s=3600.1) == 0
