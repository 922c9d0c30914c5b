"""Submitting: what is accepted, what is refused, and that what is refused is not queued."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from gateway.backoff import RetryPolicy
from gateway.durations import Duration
from gateway.keys import partition_of
from tests.api.running import Running, running, settings_for
from tests.servers import Server

DEEP = b'{"target":"echo","payload":' + b"[" * 64 + b"]" * 64 + b"}"
BOTTOMLESS = b'{"target":"echo","payload":' + b"[" * 10_000 + b"]" * 10_000 + b"}"

BAD: dict[str, tuple[bytes, int, list[str]]] = {
    "empty": (b"", 400, [""]),
    "truncated": (b'{"target":"echo","payload":{"a":', 400, [""]),
    "not_utf8": (b'{"target":"echo","payload":"\xff"}', 400, [""]),
    "nan": (b'{"target":"echo","payload":NaN}', 400, [""]),
    "infinity": (b'{"target":"echo","payload":[-Infinity]}', 400, [""]),
    "lone_surrogate": (b'{"target":"echo","payload":"\\ud800"}', 400, [""]),
    "byte_order_mark": (b'\xef\xbb\xbf{"target":"echo"}', 400, [""]),
    "trailing": (b'{"target":"echo"}{}', 400, [""]),
    "depth_65": (DEEP, 400, [""]),
    "depth_10000": (BOTTOMLESS, 400, [""]),
    "depth_unclosed": (b"[" * 10_000, 400, [""]),
    "not_an_object": (b'["echo"]', 422, [""]),
    "no_target": (b'{"payload":1}', 422, ["/target"]),
    "unknown_target": (b'{"target":"ecko"}', 404, ["/target"]),
    "internal_target": (b'{"target":"gateway.callback"}', 404, ["/target"]),
    "unknown_field": (b'{"target":"echo","payloud":1}', 422, ["/payloud"]),
    "wrong_type": (b'{"target":["echo"]}', 422, ["/target"]),
    "both_names": (b'{"target":"echo","type":"echo"}', 422, ["/type"]),
    "both_times": (b'{"target":"echo","run_at":1,"run_after":1}', 422, ["/run_after"]),
    "time_and_delay": (b'{"target":"echo","run_at":1,"delay":1}', 422, ["/delay"]),
    "both_attempts": (b'{"target":"echo","max_attempts":2,"max_retries":2}', 422, ["/max_retries"]),
    "no_such_lane": (b'{"target":"echo","lane":"urgent"}', 422, ["/lane"]),
    "no_such_priority": (b'{"target":"echo","priority":"urgent"}', 422, ["/priority"]),
    "two_lanes": (b'{"target":"echo","priority":"low","lane":"critical"}', 422, ["/priority"]),
    "priority_101": (b'{"target":"echo","priority":101}', 422, ["/priority"]),
    "priority_fraction": (b'{"target":"echo","priority":1.5}', 422, ["/priority"]),
    "no_time": (b'{"target":"echo","run_at":"tomorrow"}', 422, ["/run_at"]),
    "no_offset": (b'{"target":"echo","run_at":"2026-01-01T00:00:00"}', 422, ["/run_at"]),
    "milliseconds": (b'{"target":"echo","run_after":1893456000000}', 422, ["/run_after"]),
    "far_ahead": (b'{"target":"echo","run_at":"2099-01-01T00:00:00Z"}', 422, ["/run_at"]),
    "negative_delay": (b'{"target":"echo","delay":-1}', 422, ["/delay"]),
    "no_duration": (b'{"target":"echo","delay":"soon"}', 422, ["/delay"]),
    "expires_now": (b'{"target":"echo","expires_in":0}', 422, ["/expires_in"]),
    "no_attempts": (b'{"target":"echo","max_attempts":0}', 422, ["/max_attempts"]),
    "no_timeout": (b'{"target":"echo","timeout":0}', 422, ["/timeout"]),
    "bad_policy": (b'{"target":"echo","retry":{"policy":"magic"}}', 422, ["/retry/policy"]),
    "cap_below_base": (b'{"target":"resize","retry":{"base":"2m"}}', 422, ["/retry"]),
    "key_too_long": (b'{"target":"echo","key":"' + b"k" * 129 + b'"}', 422, ["/key"]),
    "key_control": (b'{"target":"echo","key":"a\\u0001"}', 422, ["/key"]),
    "key_empty": (b'{"target":"echo","key":""}', 422, ["/key"]),
    "callback_scheme": (b'{"target":"echo","callback":{"url":"ftp://x.example/"}}', 422, ["/callback/url"]),
    "callback_no_url": (b'{"target":"echo","callback":{"events":["job.dead"]}}', 422, ["/callback/url"]),
    "callback_event": (
        b'{"target":"echo","callback":{"url":"https://x.example/","events":["job.dead","job.late"]}}',
        422,
        ["/callback/events/1"],
    ),
    "callback_secret": (
        b'{"target":"echo","callback":{"url":"https://x.example/","secret":"password"}}',
        422,
        ["/callback/secret"],
    ),
    "many_tags": (b'{"target":"echo","tags":["1","2","3","4","5","6","7","8","9","10","11"]}', 422, ["/tags"]),
    "long_tag": (b'{"target":"echo","tags":["a","' + b"t" * 65 + b'"]}', 422, ["/tags/1"]),
    "tag_number": (b'{"target":"echo","tags":["a",5]}', 422, ["/tags/1"]),
    "huge_number": (b'{"target":"echo","payload":{"n":1e999}}', 422, ["/payload"]),
    "long_number": (b'{"target":"echo","payload":' + b"9" * 400 + b"}", 422, ["/payload"]),
    "idempotency_key": (b'{"target":"echo","idempotency_key":""}', 422, ["/idempotency_key"]),
    "all_at_once": (
        b'{"lane":"urgent","retry":{"base":"x","extra":1},"a/b":1,"delay":"soon","tags":"x"}',
        422,
        ["/a~1b", "/delay", "/lane", "/retry/base", "/retry/extra", "/tags", "/target"],
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_submit_is_refused_and_nothing_queued_when_the_body_is_bad(api: Running, case: str) -> None:
    body, status, pointers = BAD[case]
    answer = await api.client.post("/jobs", content=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert sorted(fault["pointer"] for fault in problem["errors"]) == pointers, problem
    assert all(fault["detail"] for fault in problem["errors"])
    assert await api.queued() == 0


@pytest.mark.parametrize("text", ["\\ud800", "\\ud800 and more behind", "\\ud800\\u0041", "\\udc00"])
async def test_submit_tells_half_of_a_surrogate_pair_from_a_body_that_ends(api: Running, text: str) -> None:
    answer = await api.client.post("/jobs", content=f'{{"target":"echo","payload":"{text}"}}')
    assert (answer.status_code, "half of a surrogate pair" in answer.json()["detail"]) == (400, True)
    answer = await api.client.post("/jobs", content=f'{{"target":"echo","payload":"{text}')
    assert (answer.status_code, "half of a surrogate pair" in answer.json()["detail"]) == (400, False)


@pytest.mark.parametrize("host", ["10.1.2.3", "127.0.0.1:9000", "169.254.169.254", "[::1]", "[::ffff:10.1.2.3]"])
async def test_callback_to_an_address_that_may_not_be_reached_is_refused_with_the_line_to_add(
    api: Running, host: str
) -> None:
    callback = {"url": f"http://{host}/done"}
    answer = await api.client.post("/jobs", json={"target": "echo", "callback": callback})
    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["pointer"]) == (422, "/callback/url")
    assert re.search(
        r'is not a public address; to reach it, add "[0-9a-f.:]+/(32|128)" to \[egress\] allow', fault["detail"]
    )
    key = {"name": "shop", "scopes": ["submit"], "callback": callback}
    refused = await api.client.post("/apikeys", json=key)
    assert (refused.status_code, refused.json()["errors"]) == (422, [fault])


async def test_callback_is_taken_in_where_its_address_is_allowed_or_told_by_a_name(
    valkey_server: Server, namespace: str, tmp_path: Path
) -> None:
    settings = settings_for(tmp_path, valkey_server.url, namespace, GATEWAY_EGRESS_ALLOW="10.1.0.0/16")
    async with running(settings) as api:
        for host in ("10.1.2.3", "8.8.8.8", "[2606:4700::1111]", "localhost", "no-such-host.invalid"):
            body = {"target": "echo", "callback": {"url": f"http://{host}/done"}}
            assert (await api.client.post("/jobs", json=body)).status_code == 202


async def test_submit_takes_a_body_of_depth_64(api: Running) -> None:
    answer = await api.client.post("/jobs", content=b'{"target":"echo","payload":' + b"[" * 63 + b"]" * 63 + b"}")
    assert answer.status_code == 202


async def test_submit_names_what_was_meant_when_a_name_is_misspelt(api: Running) -> None:
    target = await api.client.post("/jobs", content=b'{"target":"resise"}')
    assert 'did you mean "resize"?' in target.json()["detail"]
    field = await api.client.post("/jobs", content=b'{"target":"echo","paylod":1}')
    assert 'did you mean "payload"?' in field.json()["detail"]
    lane = await api.client.post("/jobs", content=b'{"target":"echo","lane":"critcal"}')
    assert 'did you mean "critical"?' in lane.json()["detail"]


async def submitted(api: Running, body: bytes, *, path: str = "/jobs", **headers: str) -> dict[str, Any]:
    """Submits, and gives the record."""
    answer = await api.client.post(path, content=body, headers=headers)
    assert answer.status_code == 202, answer.text
    assert set(answer.json()) == {"job_id", "status"}
    record = (await api.client.get(f"/jobs/{answer.json()['job_id']}")).json()
    assert record["status"] == answer.json()["status"]
    return dict(record)


async def test_submit_answers_with_a_uuidv7_when_the_job_is_taken_in(api: Running) -> None:
    record = await submitted(api, b'{"target":"echo"}')
    assert partition_of(record["job_id"], 1) == 0
    assert record["status"] == "pending"
    assert (record["lane"], record["priority"], record["attempts"], record["max_attempts"]) == ("default", 0, 0, 5)
    assert record["payload"] is None


async def test_submit_takes_the_older_body_when_priority_names_the_lane(api: Running) -> None:
    at = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=500_000)
    text = at.astimezone(timezone(timedelta(hours=2))).isoformat(timespec="milliseconds")
    assert text.endswith(".500+02:00")
    body = b'{"type":"echo","priority":"critical","payload":{"a":1},"run_after":"' + text.encode() + b'"}'
    record = await submitted(api, body, path="/enqueue")
    assert (record["target"], record["lane"], record["priority"]) == ("echo", "critical", 0)
    assert record["status"] == "scheduled"
    run_at = datetime.fromisoformat(record["run_at"])
    assert abs((run_at - at).total_seconds()) < 60, "and no hours apart"


async def test_submit_takes_the_older_body_when_priority_is_a_number(api: Running) -> None:
    now_s = datetime.now(UTC).timestamp()
    body = f'{{"type":"echo","priority":10,"max_retries":3,"scheduled_at":{now_s + 60},"payload":[1]}}'
    record = await submitted(api, body.encode())
    assert (record["target"], record["lane"], record["priority"], record["max_attempts"]) == ("echo", "default", 10, 3)
    assert record["status"] == "scheduled"
    assert abs(datetime.fromisoformat(record["run_at"]).timestamp() - now_s - 60) < 30


async def test_submit_runs_at_once_when_the_time_is_past(api: Running) -> None:
    record = await submitted(api, b'{"target":"echo","run_at":"2001-01-01T00:00:00Z"}')
    assert record["status"] == "pending"


async def test_submit_takes_null_for_left_out_when_a_client_sends_every_field(api: Running) -> None:
    names = ("lane", "priority", "run_at", "delay", "expires_in", "retry", "key", "callback", "tags", "type")
    body = '{"target":"echo",' + ",".join(f'"{name}":null' for name in names) + "}"
    assert (await submitted(api, body.encode()))["status"] == "pending"


async def test_submit_keeps_every_option_when_all_are_given(api: Running) -> None:
    body = (
        b'{"target":"resize","payload":{},"lane":"critical","priority":-7,"delay":"1m","expires_in":"1h",'
        b'"timeout":"5s","retry":{"policy":"fixed","max_attempts":9},"key":"user 1","tags":["a","b"],'
        b'"callback":{"url":"https://hooks.example/x","events":["job.dead"],'
        b'"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}'
    )
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    record = await submitted(api, body, traceparent=parent)
    found = (await api.store.find(record["job_id"])).record
    assert (record["lane"], record["priority"], record["key"], record["tags"]) == ("critical", -7, "user 1", ["a", "b"])
    assert (record["max_attempts"], record["traceparent"]) == (9, parent)
    options = found.options
    assert options.timeout == 5
    assert options.retry is not None
    assert options.retry == RetryPolicy("fixed", 9, Duration(2), Duration(60))
    assert options.callback is not None
    assert options.callback.events == ("job.dead",)
    assert "whsec_" not in (await api.client.get(f"/jobs/{record['job_id']}")).text


async def test_submit_takes_lane_and_attempts_from_the_target_when_the_body_has_none(api: Running) -> None:
    record = await submitted(api, b'{"target":"resize"}')
    assert (record["lane"], record["max_attempts"]) == ("low", 2)


async def test_submit_drops_a_traceparent_when_it_is_none(api: Running) -> None:
    assert "traceparent" not in await submitted(api, b'{"target":"echo"}', traceparent="00-zz-1-01")


@pytest.mark.parametrize(
    "payload",
    [b"9007199254740993", b"1.0", b"[]", b"{}", b'"\xc3\xa9\\u00e9"', b'{"b": 1,"a":1.0,"a" : 18446744073709551617 }'],
)
async def test_payload_is_kept_byte_for_byte_when_it_is_stored_and_shown(api: Running, payload: bytes) -> None:
    answer = await api.client.post("/jobs", content=b'{"target":"echo","payload": ' + payload + b' ,"key":"k"}')
    job_id = answer.json()["job_id"]
    assert (await api.store.find(job_id)).record.payload == payload
    assert b'"payload":' + payload in (await api.client.get(f"/jobs/{job_id}")).content


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "application/x+json"])
async def test_submit_accepts_json_when_the_content_type_says_so(api: Running, content_type: str) -> None:
    assert (await submitted(api, b'{"target":"echo"}', **{"content-type": content_type}))["target"] == "echo"


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "text/plain"},
        {"content-encoding": "gzip"},
    ],
)
async def test_submit_is_415_when_the_body_is_something_else(api: Running, headers: dict[str, str]) -> None:
    answer = await api.client.post("/jobs", content=b'{"target":"echo"}', headers=headers)
    assert answer.status_code == 415
    assert answer.json()["status"] == 415
    assert await api.queued() == 0


async def test_submit_answers_with_the_first_job_when_the_key_is_repeated(api: Running) -> None:
    body = b'{"target":"echo","payload":1,"idempotency_key":"order-1"}'
    first = await api.client.post("/jobs", content=body)
    second = await api.client.post("/jobs", content=body)
    in_header = await api.client.post(
        "/jobs", content=b'{"type":"echo","payload":1}', headers={"Idempotency-Key": "order-1"}
    )
    assert first.status_code == 202
    for again in (second, in_header):
        assert again.status_code == 200
        assert again.json() == first.json() | {"duplicate": True}
    assert await api.queued() == 1


async def test_submit_makes_one_job_when_duplicates_come_at_once(api: Running) -> None:
    body = b'{"target":"echo","idempotency_key":"once"}'
    answers = await asyncio.gather(*(api.client.post("/jobs", content=body) for _ in range(20)))
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [202]
    assert await api.queued() == 1


@pytest.mark.parametrize(
    "other",
    [b'{"target":"echo","payload":2}', b'{"target":"echo","payload":1 }', b'{"target":"echo","payload":1,"key":"k"}'],
)
async def test_submit_is_422_only_when_the_key_comes_with_another_body(api: Running, other: bytes) -> None:
    headers = {"Idempotency-Key": "order-2"}
    await api.client.post("/jobs", content=b'{"target":"echo","payload":1}', headers=headers)
    answer = await api.client.post("/jobs", content=other, headers=headers)
    same = other == b'{"target":"echo","payload":1 }'
    assert answer.status_code == (200 if same else 422)
    assert await api.queued() == 1


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
async def test_submit_is_422_when_the_key_in_the_header_is_not_ascii(api: Running, encoding: str) -> None:
    headers = {b"Idempotency-Key": "é".encode(encoding)}
    for body in (b'{"target":"echo"}', '{"target":"echo","idempotency_key":"é"}'.encode()):
        answer = await api.client.post("/jobs", content=body, headers=headers)
        assert answer.status_code == 422
        assert "give it as idempotency_key in the body" in answer.json()["detail"]
    assert await api.queued() == 0


async def test_submit_is_422_when_header_and_body_disagree_on_the_key(api: Running) -> None:
    body = b'{"target":"echo","idempotency_key":"a"}'
    answer = await api.client.post("/jobs", content=body, headers={"Idempotency-Key": "b"})
    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/idempotency_key"]
    assert await api.queued() == 0


async def test_keys_do_not_clash_when_the_targets_differ(api: Running) -> None:
    for target in ("echo", "resize"):
        answer = await api.client.post("/jobs", content=f'{{"target":"{target}","idempotency_key":"x"}}'.encode())
        assert answer.status_code == 202
    assert await api.queued() == 2


MIXED = [b'{"target":"echo","payload":1.0}', b'{"target":"nope"}', b"5", b'{"target":"resize","delay":60}']


@pytest.mark.parametrize("lines", [False, True])
async def test_batch_answers_item_by_item_when_some_are_bad(api: Running, lines: bool) -> None:
    body = b"\n".join(MIXED) + b"\n" if lines else b"[" + b",".join(MIXED) + b"]"
    headers = {"content-type": "application/x-ndjson" if lines else "application/json"}
    answer = await api.client.post("/jobs/batch", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    results = answer.json()["results"]
    assert [result.get("status") for result in results] == ["pending", None, None, "scheduled"]
    assert [result["error"]["status"] for result in results[1:3]] == [404, 422]
    assert (await api.store.find(results[0]["job_id"])).record.payload == b"1.0"
    assert await api.queued() == 2


async def test_batch_names_the_first_job_when_an_item_repeats_a_key(api: Running) -> None:
    one, other = b'{"target":"echo","idempotency_key":"k"}', b'{"target":"echo","idempotency_key":"k","payload":2}'
    results = (await api.client.post("/jobs/batch", content=b"[%b,%b,%b]" % (one, one, other))).json()["results"]
    assert results[1] == results[0] | {"duplicate": True}
    assert results[2]["error"]["status"] == 422
    assert await api.queued() == 1


async def test_batch_line_that_is_cut_off_is_an_error_of_its_own(api: Running) -> None:
    body = b'{"target":"echo"}\n\n{"target":"ec\n'
    headers = {"content-type": "application/x-ndjson"}
    results = (await api.client.post("/jobs/batch", content=body, headers=headers)).json()["results"]
    assert [result.get("error", {}).get("status") for result in results] == [None, 400]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" + b",".join([b'{"target":"echo"}'] * 1001) + b"]", 422),
        (b'[{"target":"echo"},', 400),
        (b'"echo"', 422),
        (b'[{"target":"echo","payload":"\xff"}]', 400),
        (b"[" * 70 + b"]" * 70, 400),
    ],
)
async def test_batch_is_refused_whole_when_it_is_no_batch(api: Running, body: bytes, status: int) -> None:
    answer = await api.client.post("/jobs/batch", content=body)
    assert answer.status_code == status, answer.text
    assert await api.queued() == 0


async def test_batch_of_a_thousand_keeps_its_order(api: Running) -> None:
    body = b"[" + b",".join(b'{"target":"echo","payload":%d}' % n for n in range(1000)) + b"]"
    results = (await api.client.post("/jobs/batch", content=body)).json()["results"]
    found = await api.store.find_many([result["job_id"] for result in results])
    assert [each.record.payload for each in found if each] == [b"%d" % n for n in range(1000)]
