"""Looking at jobs: records, timelines, listings, and that the answers are what /openapi.json says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.api import models
from gateway.jobs import Settlement
from tests.api.running import Running, claim

ERROR = '{"type":"status","message":"it said 500","status":500}'


async def submit(api: Running, **fields: Any) -> str:
    answer = await api.client.post("/jobs", json={"target": "echo"} | fields)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job_id"])


async def get(api: Running, path: str, model: type[Any]) -> Any:
    """The answer's body, once it is held to its model."""
    answer = await api.client.get(path)
    assert answer.status_code == 200, answer.text
    msgspec.json.decode(answer.content, type=model)
    return answer.json()


async def test_record_shows_facts_only_when_there_are_any(api: Running) -> None:
    job_id = await submit(api)
    record = await get(api, f"/jobs/{job_id}", models.JobRecord)
    assert set(record) == {
        *("job_id", "target", "status", "lane", "priority", "attempts", "max_attempts", "stalls"),
        *("created_at", "updated_at", "payload"),
    }
    assert record["created_at"].endswith("Z")
    assert len(record["created_at"]) == len("2026-01-01T00:00:00.000Z")


async def test_record_tells_the_whole_story_when_a_job_retries_and_succeeds(api: Running) -> None:
    job_id = await submit(api, payload={"n": 1})
    worker, ids, tokens = await claim(api.store)
    assert ids == [job_id]
    assert (await get(api, f"/jobs/{job_id}/status", models.JobStatus))["status"] == "running"
    await worker.exchange([Settlement(job_id, tokens[0], "retry", delay_ms=0, error=ERROR)], None)
    record = await get(api, f"/jobs/{job_id}", models.JobRecord)
    assert record["status"] == "retrying"
    assert record["error"] == {"type": "status", "message": "it said 500", "status": 500}
    assert "next_attempt_at" in record
    worker, _, tokens = await claim(api.store)
    await worker.exchange([Settlement(job_id, tokens[0], "succeeded", result='{"big":9007199254740993}')], None)
    answer = await api.client.get(f"/jobs/{job_id}")
    assert b'"result":{"big":9007199254740993}' in answer.content
    record = await get(api, f"/jobs/{job_id}", models.JobRecord)
    assert (record["status"], record["attempts"]) == ("succeeded", 2)
    assert "error" not in record
    timeline = await get(api, f"/jobs/{job_id}/events", models.Timeline)
    assert [(event["type"], event.get("attempt")) for event in timeline["events"]] == [
        ("accepted", None),
        ("started", 1),
        ("retrying", 1),
        ("started", 2),
        ("succeeded", 2),
    ]
    assert timeline["events"][2]["error"]["message"] == "it said 500"
    assert timeline["events"] == sorted(timeline["events"], key=lambda event: event["at"])


@pytest.mark.parametrize("path", ["", "/status", "/events"])
@pytest.mark.parametrize(
    "job_id", ["nonsense", "01a22780-5329-7d03-8458-4c0287d2a700", "01a22780-5329-7d03-8458-4c0287d2a7ff"]
)
async def test_record_is_404_when_there_is_no_such_job(api: Running, job_id: str, path: str) -> None:
    answer = await api.client.get(f"/jobs/{job_id}{path}")
    assert answer.status_code == 404
    assert job_id in answer.json()["detail"]


async def pages(api: Running, query: str) -> list[str]:
    """The ids of all pages, in order."""
    out: list[str] = []
    cursor = ""
    for _ in range(20):
        page = await get(api, f"/jobs?{query}{cursor}", models.JobPage)
        out += [job["job_id"] for job in page["jobs"]]
        if page["next_cursor"] is None:
            return out
        cursor = f"&cursor={page['next_cursor']}"
    raise AssertionError("the pages do not end")


async def test_listing_shows_each_job_once_when_it_takes_many_pages(api: Running) -> None:
    low = [await submit(api, lane="low") for _ in range(3)]
    late = [await submit(api, delay=60 + n) for n in range(3)]
    first = [await submit(api, lane="critical", priority=n) for n in range(3)]
    assert await pages(api, "limit=2") == [*reversed(first), *low, *late]
    assert await pages(api, "limit=2&status=scheduled") == late
    assert await pages(api, "limit=2&status=pending&lane=low") == low


async def test_listing_keeps_what_is_asked_for_when_it_is_filtered(api: Running) -> None:
    tagged = await submit(api, tags=["red", "blue"], payload="secret-payload")
    other = await submit(api, target="resize", tags=["green"])
    assert await pages(api, "tag=blue") == [tagged]
    assert await pages(api, "target=resize") == [other]
    assert await pages(api, "tag=blue&target=resize") == []
    assert "secret-payload" not in (await api.client.get("/jobs")).text


@pytest.mark.parametrize(
    ("query", "pointers"),
    [
        ("limit=0", ["limit"]),
        ("limit=101", ["limit"]),
        ("limit=ten", ["limit"]),
        ("status=done", ["status"]),
        ("lane=urgent", ["lane"]),
        ("lmit=5&status=x", ["lmit", "status"]),
        ("limit=5&limit=6", ["limit"]),
        ("cursor=nonsense", ["cursor"]),
        ("cursor=Wy01LCIxIiwiYSJd", ["cursor"]),  # [-5,"1","a"]
        ("cursor=WzAsIm5hbiIsImEiXQ==", ["cursor"]),  # [0,"nan","a"]
    ],
)
async def test_listing_is_422_when_the_query_is_wrong(api: Running, query: str, pointers: list[str]) -> None:
    answer = await api.client.get(f"/jobs?{query}")
    assert answer.status_code == 422, answer.text
    assert sorted(fault["pointer"] for fault in answer.json()["errors"]) == pointers


async def test_cancel_is_200_then_409_when_the_job_waits(api: Running) -> None:
    job_id = await submit(api, delay=60)
    answer = await api.client.delete(f"/jobs/{job_id}")
    assert (answer.status_code, answer.json()) == (200, {"job_id": job_id, "status": "cancelled"})
    assert (await get(api, f"/jobs/{job_id}", models.JobRecord))["status"] == "cancelled"
    again = await api.client.delete(f"/jobs/{job_id}")
    assert again.status_code == 409
    assert job_id in again.json()["detail"]


async def test_cancel_is_202_when_the_job_runs(api: Running) -> None:
    job_id = await submit(api)
    await claim(api.store)
    answer = await api.client.delete(f"/jobs/{job_id}")
    assert (answer.status_code, answer.json()) == (202, {"job_id": job_id, "status": "running"})


async def test_cancel_is_404_when_there_is_no_such_job(api: Running) -> None:
    assert (await api.client.delete("/jobs/nonsense")).status_code == 404


async def dead_job(api: Running, **fields: Any) -> str:
    """A job that failed for good."""
    job_id = await submit(api, **fields)
    worker, ids, tokens = await claim(api.store)
    token = tokens[ids.index(job_id)]
    await worker.exchange([Settlement(job_id, token, "dead", reason="fatal", error=ERROR)], None)
    return job_id


async def test_dlq_shows_reason_and_error_when_a_job_is_dead(api: Running) -> None:
    job_id = await dead_job(api, payload={"a": 1.0})
    page = await get(api, "/dlq", models.JobPage)
    assert [(job["job_id"], job["reason"], job["error"]["status"]) for job in page["jobs"]] == [(job_id, "fatal", 500)]
    record = await get(api, f"/dlq/{job_id}", models.JobRecord)
    assert (record["status"], record["payload"]) == ("dead", {"a": 1.0})


async def test_dlq_has_the_latest_first_when_it_is_paged_and_filtered(api: Running) -> None:
    ids = [await dead_job(api) for _ in range(3)]
    other = await dead_job(api, target="resize")
    out, cursor = [], ""
    while True:
        page = await get(api, f"/dlq?limit=1&target=echo&reason=fatal{cursor}", models.JobPage)
        out += [job["job_id"] for job in page["jobs"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert sorted(out) == sorted(ids)
    assert (await get(api, "/dlq?target=resize", models.JobPage))["jobs"][0]["job_id"] == other
    assert (await get(api, "/dlq?reason=stalled", models.JobPage))["jobs"] == []
    assert (await api.client.get("/dlq?reason=tired")).status_code == 422


async def test_dlq_retry_sends_the_same_job_back_when_it_is_dead(api: Running) -> None:
    job_id = await dead_job(api, lane="critical", priority=5)
    answer = await api.client.post(f"/dlq/{job_id}/retry")
    assert answer.status_code == 200, answer.text
    record = msgspec.json.decode(answer.content, type=models.JobRecord)
    assert (record.job_id, record.status, record.lane, record.priority) == (job_id, "pending", "critical", 5)
    assert (record.attempts, record.stalls, record.error, record.reason) == (0, 0, None, None)
    assert (await get(api, "/dlq", models.JobPage))["jobs"] == []
    _, ids, _ = await claim(api.store)
    assert ids == [job_id]


async def test_dlq_is_404_or_409_when_the_job_is_not_dead(api: Running) -> None:
    job_id = await submit(api)
    assert (await api.client.get(f"/dlq/{job_id}")).status_code == 404
    assert (await api.client.post(f"/dlq/{job_id}/retry")).status_code == 409
    assert (await api.client.post("/dlq/nonsense/retry")).status_code == 404
