"""Schedules over HTTP: every field, every answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from gateway.api import models
from gateway.dispatch.file_schedules import register
from tests.api.running import CONFIG, Running, running
from tests.schedules.configured import FILE, settings_with
from tests.servers import Server

BODY = {"cron": "*/5 * * * *", "target": "echo"}


@pytest.fixture
async def api(valkey_server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Running]:
    async with running(settings_with(tmp_path, valkey_server.url, namespace, CONFIG + FILE)) as api:
        yield api


async def put(api: Running, name: str = "s", **fields: Any) -> httpx.Response:
    return await api.client.put(f"/schedules/{name}", json=BODY | fields)


def record(answer: httpx.Response) -> models.ScheduleRecord:
    return msgspec.json.decode(answer.content, type=models.ScheduleRecord)


async def test_schedule_is_made_shown_replaced_and_deleted(api: Running) -> None:
    made = await put(api)
    assert made.status_code == 201
    it = record(made)
    assert (it.name, it.cron, it.timezone, it.target, it.catch_up, it.overlap) == (
        *("s", "*/5 * * * *", "UTC", "echo", "once", "allow"),
    )
    assert (it.paused, it.source, it.payload, it.fired, it.last) == (False, "api", None, 0, None)
    assert it.next_run_at is not None
    assert it.next_run_at.minute % 5 == 0
    assert record(await api.client.get("/schedules/s")) == it
    replaced = await put(api, cron="@daily")
    assert (replaced.status_code, record(replaced).cron) == (200, "@daily")
    assert (await api.client.delete("/schedules/s")).status_code == 204
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/run"), ("POST", "/pause"), ("POST", "/resume")):
        assert (await api.client.request(method, f"/schedules/s{path}")).status_code == 404


async def test_every_field_is_kept(api: Running) -> None:
    fields: dict[str, Any] = {
        "cron": " 0  30 2 * * mon ",
        "timezone": "Europe/Berlin",
        "lane": "critical",
        "priority": -7,
        "key": "customer-1",
        "jitter": "90s",
        "catch_up": "all(24)",
        "overlap": "replace",
        "paused": True,
        "max_attempts": 2,
        "timeout": 1.5,
        "tags": ["a", "b"],
    }
    it = record(await put(api, **fields, payload={"n": 1}))
    kept = {name: getattr(it, name) for name in fields}
    assert kept == fields | {"cron": "0 30 2 * * mon", "jitter": 90.0}
    assert (it.payload, it.next_run_at) == ({"n": 1}, None)
    nulls: dict[str, Any] = dict.fromkeys(fields) | {"cron": "* * * * *", "payload": None}
    assert (await put(api, **nulls)).status_code == 200


async def test_payload_is_kept_byte_for_byte(api: Running) -> None:
    payload = b'{"big":9007199254740993,"float":1.0,"b":[],"a":{}}'
    await api.client.put("/schedules/s", content=b'{"cron":"@daily","target":"echo","payload": ' + payload + b" }")
    assert payload in (await api.client.get("/schedules/s")).content
    job_id = (await api.client.post("/schedules/s/run")).json()["job_id"]
    assert payload in (await api.client.get(f"/jobs/{job_id}")).content


WRONG: list[tuple[str, Any, str]] = [
    ("cron", None, "is missing"),
    ("cron", 5, "expected str"),
    ("cron", "", "has 0 fields"),
    ("cron", "61 * * * *", "field minute"),
    ("cron", "30 2", "has 2 fields; write five fields"),
    ("cron", "0 0 31 2 *", "never comes"),
    ("cron", "0 0 */15 2 1#2", "never comes"),
    ("cron", "*" * 300, "300 characters"),
    ("timezone", "Europe/Berln", "Europe/Berlin"),
    ("timezone", "", "no time zone"),
    ("timezone", 1, "expected str"),
    ("target", None, "is missing"),
    ("target", 5, "expected str"),
    ("payload", "x" * 65535, "65537 bytes"),
    ("lane", "urgent", "no lane named 'urgent'"),
    ("lane", 3, "expected str"),
    ("priority", 101, "<= 100"),
    ("priority", -101, ">= -100"),
    ("priority", "high", "expected int"),
    ("key", "", "is empty"),
    ("key", "k" * 129, "129 bytes"),
    ("key", "a\nb", "cannot be printed"),
    ("jitter", "soon", "not a duration"),
    ("jitter", -1, "between 0"),
    ("jitter", "25h", "between 0s and 24h"),
    ("catch_up", "all", "is no policy"),
    ("catch_up", "all(0)", "max 1 to 1000"),
    ("catch_up", "all(1001)", "max 1 to 1000"),
    ("catch_up", 3, "expected str"),
    ("overlap", "queue", "enum value"),
    ("paused", "yes", "expected bool"),
    ("max_attempts", 0, ">= 1"),
    ("max_attempts", 1001, "<= 1000"),
    ("timeout", "8d", "between 1ms and 7d"),
    ("timeout", 0, "between 1ms and 7d"),
    ("tags", ["t"] * 11, "at most 10"),
    ("tags", "t", "expected array"),
    ("every", "10s", "unknown field"),
]


@pytest.mark.parametrize(("field", "value", "says"), WRONG)
async def test_field_is_422_and_named_when_it_is_wrong(api: Running, field: str, value: Any, says: str) -> None:
    answer = await put(api, **{field: value})
    assert answer.status_code == 422
    (fault,) = msgspec.json.decode(answer.content, type=models.Problem).errors
    assert fault.pointer == f"/{field}"
    assert says in fault.detail
    assert (await api.client.get("/schedules/s")).status_code == 404


async def test_every_fault_is_named_at_once(api: Running) -> None:
    answer = await put(api, cron="x", timezone="y", target="z", lane="w", jitter="v", tags=[""], overlap=1, odd=2)
    pointers = {fault.pointer for fault in msgspec.json.decode(answer.content, type=models.Problem).errors}
    assert pointers == {"/cron", "/timezone", "/target", "/lane", "/jitter", "/tags/0", "/overlap", "/odd"}


@pytest.mark.parametrize("name", ["-x", "a%20b", "n" * 65, "a%3Ab"])
async def test_name_is_422_when_it_is_none(api: Running, name: str) -> None:
    answer = await put(api, name)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/name")


@pytest.mark.parametrize(
    ("content", "status"), [(b"{", 400), (b"[]", 422), (b"\xff", 400), (b"[" * 100 + b"]" * 100, 400)]
)
async def test_body_is_refused_when_it_is_no_object(api: Running, content: bytes, status: int) -> None:
    assert (await api.client.put("/schedules/s", content=content)).status_code == status


async def test_unknown_target_is_404_with_the_nearest(api: Running) -> None:
    answer = await put(api, target="ehco")
    assert answer.status_code == 404
    assert 'did you mean "echo"' in answer.json()["detail"]


async def test_pause_resume_and_run_answer_with_what_came_of_it(api: Running) -> None:
    await put(api, overlap="forbid", tags=["own"])
    paused = record(await api.client.post("/schedules/s/pause"))
    assert (paused.paused, paused.next_run_at) == (True, None)
    assert record(await api.client.post("/schedules/s/pause")) == paused
    answer = await api.client.post("/schedules/s/run")
    assert answer.status_code == 202
    run = msgspec.json.decode(answer.content, type=models.Accepted)
    job = (await api.client.get(f"/jobs/{run.job_id}")).json()
    assert (job["status"], job["target"], job["tags"]) == ("pending", "echo", ["own", "schedule:s"])
    again = await api.client.post("/schedules/s/run")
    assert again.status_code == 409
    assert run.job_id in again.json()["detail"]
    resumed = record(await api.client.post("/schedules/s/resume"))
    assert (resumed.paused, resumed.fired, resumed.overlapped) == (False, 1, 1)
    assert resumed.next_run_at is not None
    assert resumed.last is not None
    assert (resumed.last.job_id, resumed.last.status) == (run.job_id, "pending")
    (listed,) = (await api.client.get("/jobs?tag=schedule:s")).json()["jobs"]
    assert listed["job_id"] == run.job_id


async def test_schedules_are_listed_by_name_page_by_page(api: Running) -> None:
    for at in range(5):
        await put(api, f"s{at}", payload={"secret": at})
    names, cursor = [], ""
    for _ in range(4):
        answer = await api.client.get(f"/schedules?limit=2{cursor}")
        page = msgspec.json.decode(answer.content, type=models.SchedulePage)
        names += [each.name for each in page.schedules]
        if page.next_cursor is None:
            break
        cursor = f"&cursor={page.next_cursor}"
    assert names == [f"s{at}" for at in range(5)]
    for query in ("limit=0", "cursor=%20", "name=s"):
        assert (await api.client.get(f"/schedules?{query}")).status_code == 422


async def test_file_s_schedule_is_409_to_change_and_may_be_paused(api: Running) -> None:
    await register(api.store, api.registry.schedules)
    assert record(await api.client.get("/schedules/nightly")).source == "file"
    for answer in (await put(api, "nightly"), await api.client.delete("/schedules/nightly")):
        assert answer.status_code == 409
        assert "gateway.toml" in answer.text
    assert record(await api.client.post("/schedules/nightly/pause")).paused
    assert not record(await api.client.post("/schedules/nightly/resume")).paused
    assert (await api.client.post("/schedules/nightly/run")).status_code == 202


async def test_metrics_count_slots_by_schedule(api: Running) -> None:
    await put(api, overlap="forbid")
    for _ in range(2):
        await api.client.post("/schedules/s/run")
    text = (await api.client.get("/metrics")).text
    assert 'gateway_schedule_slots_total{event="fired",schedule="s"} 1.0' in text
    assert 'gateway_schedule_slots_total{event="overlapped",schedule="s"} 1.0' in text
