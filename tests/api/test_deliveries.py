"""The last deliveries of a trigger: listed, shown without what proves who sent them, sent through the routes again."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from gateway.api import models
from gateway.deliveries import MAX_BODY
from tests.api.running import Running, running
from tests.api.triggered import TOKEN, noted, send, triggered_settings
from tests.servers import Server
from tests.waiting import until


@pytest.fixture
async def api(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    async with running(triggered_settings(tmp_path, valkey_server.url, namespace)) as gateway:
        yield gateway


async def show(api: Running, trigger: str, delivery_id: str) -> dict[str, Any]:
    answer = await api.client.get(f"/triggers/{trigger}/deliveries/{delivery_id}")
    assert answer.status_code == 200, answer.text
    msgspec.json.decode(answer.content, type=models.DeliveryShown)
    found: dict[str, Any] = answer.json()
    return found


async def test_delivery_is_shown_with_its_jobs_and_without_its_token(api: Running) -> None:
    sent = await send(
        api, "plain", b'{"n": 1.0}', x_id="d-1", x_event="paid", x_till_mac="5e1f", cookie="a=secret-cookie"
    )
    listed = (await noted(api, "plain", 1))[0]
    assert listed | {"id": "", "at": ""} == {
        "id": "", "at": "", "verdict": "accepted", "event": "paid", "method": "POST", "path": "/hooks/plain",
        "bytes": 10, "sender": "127.0.0.1", "jobs": sent.json()["jobs"],
    }  # fmt: skip
    whole = await show(api, "plain", listed["id"])
    assert (whole["body"], whole["body_kept"]) == ('{"n": 1.0}', True)
    headers = dict(whole["headers"])
    shown = [headers[name] for name in ("x-event", "authorization", "cookie", "x-till-mac")]
    assert shown == ["paid", "***", "***", "***"]
    kept = b"".join([await dump(api), msgspec.json.encode(whole)])
    assert TOKEN.encode() not in kept
    assert b"secret-cookie" not in kept


async def test_delivery_over_the_limit_is_noted_once_a_minute_with_how_many_more_were(api: Running) -> None:
    for at in range(6):
        await send(api, "spaced", x_id=f"d-{at}", x_event="paid")
    await api.client.post("/hooks/spaced", content=b"{}")
    found = [each for each in await noted(api, "spaced", 4) if each["verdict"] != "accepted"]
    assert sorted((each["verdict"], each.get("event", "")) for each in found) == [("limited", "paid"), ("rejected", "")]
    limited = (await noted(api, "spaced", 1, verdict="limited"))[0]
    assert limited["reason"] == "over the limit"
    replayed = await api.client.post(f"/triggers/spaced/deliveries/{limited['id']}/replay")
    assert (replayed.status_code, "over the trigger's limit" in replayed.text) == (409, True)


async def dump(api: Running) -> bytes:
    """All that Redis holds of the installation's deliveries."""
    client: Any = api.store.client
    keys = [key async for key in client.scan_iter(match=f"{api.store.keyspaces[0].prefix}deliver*", count=10_000)]
    return b"".join([await client.dump(key) for key in keys])


async def test_verdicts_are_told_apart(api: Running) -> None:
    await send(api, "plain", x_id="d-1")
    await send(api, "plain", x_id="d-1")
    await send(api, "plain", b'{"kind":"other"}', x_id="d-2")
    await send(api, "plain", b"\xff", x_id="d-3")
    await api.client.post("/hooks/plain?access_token=hidden", content=b"secret body", headers={"X-Signature": "abc"})
    found = await noted(api, "plain", 5)
    assert sorted(each["verdict"] for each in found) == ["accepted", "duplicate", "failed", "rejected", "unrouted"]
    rejected = next(each for each in found if each["verdict"] == "rejected")
    assert (rejected["reason"], rejected["path"]) == ("no_signature", "/hooks/plain?access_token=***")
    whole = await show(api, "plain", rejected["id"])
    assert "body" not in whole
    assert dict(whole["headers"])["x-signature"] == "***"
    assert b"secret body" not in await dump(api)
    assert [each["verdict"] for each in await noted(api, "plain", 1, verdict="failed")] == ["failed"]


async def test_delivery_that_no_route_takes_is_kept_before_it_is_acknowledged(api: Running) -> None:
    with capture_logs() as lines:
        assert (await send(api, "plain", b'{"kind":"other","n":7}')).json() == {"jobs": [], "duplicate": False}
    assert lines == [{"event": "delivery unrouted", "log_level": "info", "trigger": "plain", "kind": ""}]
    listed = (await api.client.get("/triggers/plain/deliveries")).json()["deliveries"]
    assert [each["verdict"] for each in listed] == ["unrouted"]
    assert (await show(api, "plain", listed[0]["id"]))["body"] == '{"kind":"other","n":7}'


async def test_deliveries_are_listed_by_when_they_came_not_by_when_they_were_noted(api: Running) -> None:
    await send(api, "plain", b'{"n":1}')  # noted a little later
    sent_ms = int(time.time() * 1000)
    while int(time.time() * 1000) == sent_ms:
        pass  # in one millisecond neither came first
    await send(api, "plain", b'{"kind":"other"}')  # noted before it is answered
    found = await noted(api, "plain", 2)
    assert [each["verdict"] for each in found] == ["unrouted", "accepted"]


async def test_replay_makes_new_jobs_of_the_bytes_that_came(api: Running) -> None:
    first = (await send(api, "plain", b'{"n": 1.0, "a": [ ]}', x_id="d-1")).json()
    delivery_id = (await noted(api, "plain", 1))[0]["id"]
    for _ in range(2):
        answer = await api.client.post(f"/triggers/plain/deliveries/{delivery_id}/replay")
        assert answer.status_code == 202, answer.text
        assert answer.json()["duplicate"] is False
        job_id = answer.json()["jobs"][0]["job_id"]
        assert job_id != first["jobs"][0]["job_id"]
        assert (await api.store.find(job_id)).record.payload == b'{"n": 1.0, "a": [ ]}'
    assert await api.queued() == 3


async def test_replay_is_listed_as_one_and_pushes_no_delivery_out(api: Running) -> None:
    for at in range(3):
        await send(api, "whole", x_id=f"d-{at}", x_event="paid")
    first = (await noted(api, "whole", 3))[-1]
    jobs = []
    for _ in range(3):
        answer = await api.client.post(f"/triggers/whole/deliveries/{first['id']}/replay")
        jobs.append(answer.json()["jobs"])
    found = await noted(api, "whole", 6)
    assert [each["verdict"] for each in found] == ["replayed"] * 3 + ["accepted"] * 3
    assert [(each["replay_of"], each["jobs"]) for each in found[:3]] == [(first["id"], each) for each in jobs[::-1]]
    assert found[0]["event"] == "paid"
    assert (await show(api, "whole", found[0]["id"]))["body_kept"] is False
    again = await api.client.post(f"/triggers/whole/deliveries/{found[0]['id']}/replay")
    assert (again.status_code, again.json()["detail"]) == (
        409, f"it is a replay itself; replay {first['id']}, which it was made of",
    )  # fmt: skip


async def test_replay_that_a_route_refuses_is_listed_with_why(api: Running) -> None:
    await send(api, "plain", b"\xff")
    failed = (await noted(api, "plain", 1))[0]
    assert (await api.client.post(f"/triggers/plain/deliveries/{failed['id']}/replay")).status_code == 415
    replayed = (await noted(api, "plain", 2))[0]
    assert (replayed["verdict"], replayed["reason"], replayed["jobs"]) == ("replayed", failed["reason"], [])


async def test_replay_of_a_form_sees_its_json(api: Running) -> None:
    body = {"verifier": "none", "routes": [{"target": "echo", "payload": "[form.From, body]"}], "content": "form"}
    assert (await api.client.put("/triggers/form", json=body)).status_code == 201
    await api.client.post("/hooks/form", content=b"From=a+b")
    delivery_id = (await noted(api, "form", 1))[0]["id"]
    answer = await api.client.post(f"/triggers/form/deliveries/{delivery_id}/replay")
    job_id = answer.json()["jobs"][0]["job_id"]
    assert (await api.store.find(job_id)).record.payload == b'["a b",null]'


async def test_replay_is_409_without_a_body_and_for_what_did_not_verify(api: Running) -> None:
    await send(api, "bare")
    await api.client.post("/hooks/bare", content=b"{}")
    for each in await noted(api, "bare", 2):
        assert (await show(api, "bare", each["id"]))["body_kept"] is False
        assert (await api.client.post(f"/triggers/bare/deliveries/{each['id']}/replay")).status_code == 409
    await send(api, "plain", b'{"pad":"' + b"p" * MAX_BODY + b'"}')
    long = (await noted(api, "plain", 1))[0]
    assert long["bytes"] > MAX_BODY
    assert (await api.client.post(f"/triggers/plain/deliveries/{long['id']}/replay")).status_code == 409


async def test_only_the_last_ones_are_kept(api: Running) -> None:
    for at in range(3):
        await send(api, "bare", x_id=f"d-{at}", x_event=f"e{at}")
    await noted(api, "bare", 3)
    for at in range(3, 5):
        await send(api, "bare", x_id=f"d-{at}", x_event=f"e{at}")

    async def the_last() -> bool:
        return [each["event"] for each in await noted(api, "bare", 3)] == ["e4", "e3", "e2"]

    await until(the_last)
    client: Any = api.store.client
    keys = [
        key async for key in client.scan_iter(match=f"{api.store.keyspaces[0].prefix}delivery:bare:*", count=10_000)
    ]
    assert len(keys) == 3
    assert min([await client.pttl(key) for key in keys]) > 0


async def test_page_goes_on_where_the_last_one_ended(api: Running) -> None:
    for at in range(5):
        await send(api, "plain", x_id=f"d-{at}")
        await api.client.post("/hooks/plain", content=b"{}")
    await noted(api, "plain", 10)
    seen: list[str] = []
    query: dict[str, str] = {"limit": "3"}
    while True:
        page = (await api.client.get("/triggers/plain/deliveries", params=query)).json()
        seen += [each["id"] for each in page["deliveries"]]
        if page["next_cursor"] is None:
            break
        query["cursor"] = page["next_cursor"]
    assert len(seen) == len(set(seen)) == 10
    assert len([each for each in seen if each.startswith("r")]) == 5


async def test_nothing_is_kept_where_nothing_is_wanted(api: Running) -> None:
    await send(api, "unkept")
    await send(api, "plain")
    await noted(api, "plain", 1)
    assert (await api.client.get("/triggers/unkept/deliveries")).json() == {"deliveries": [], "next_cursor": None}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/triggers/nothing/deliveries", 404),
        ("/triggers/plain/deliveries/1-0", 404),
        ("/triggers/plain/deliveries/r1-0", 404),
        ("/triggers/plain/deliveries/x", 404),
        ("/triggers/plain/deliveries?cursor=x", 422),
        ("/triggers/plain/deliveries?cursor=1-0%0a,", 422),
        ("/triggers/plain/deliveries?verdict=nice", 422),
        ("/triggers/plain/deliveries?limit=0", 422),
    ],
)
async def test_what_is_not_there_is_told(api: Running, path: str, status: int) -> None:
    assert (await api.client.get(path)).status_code == status


async def test_flood_of_rejections_pushes_no_delivery_out(api: Running) -> None:
    await send(api, "bare", x_event="genuine")
    for _ in range(60):
        await api.client.post("/hooks/bare", content=b"{}")
    await noted(api, "bare", 2, verdict="rejected")
    found = await noted(api, "bare", 1, limit=100)
    assert [each.get("event") for each in found if each["verdict"] == "accepted"] == ["genuine"]
    assert len(found) <= 4
