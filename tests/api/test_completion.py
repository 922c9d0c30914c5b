"""Work that goes on elsewhere, ended over the API by the token that came with the attempt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.completion import completion_token, read_completion_token
from gateway.signing import SigningKey
from tests.api.running import Running, park, running, settings_for
from tests.servers import Server

JOB_ID = "01a22780-5329-7d03-8458-4c0287d2a700"


@pytest.fixture
async def api(tmp_path: Path, valkey_server: Server, namespace: str) -> AsyncIterator[Running]:
    async with running(settings_for(tmp_path, valkey_server.url, namespace)) as api:
        yield api


async def test_result_is_the_jobs_and_the_token_works_once(api: Running) -> None:
    job_id, token = await park(api)
    answer = await api.client.post(f"/jobs/{job_id}/complete", json={"token": token, "result": {"n": [1]}})
    assert (answer.status_code, answer.json()) == (200, {"job_id": job_id, "status": "succeeded"})
    assert (await api.client.get(f"/jobs/{job_id}")).json()["result"] == {"n": [1]}
    for way in ("complete", "fail", "heartbeat"):
        again = await api.client.post(f"/jobs/{job_id}/{way}", headers={"gateway-token": token})
        assert again.status_code == 409, again.text


async def test_result_is_kept_byte_for_byte(api: Running) -> None:
    job_id, token = await park(api)
    value = b'{"n": 123456789012345678901234567890, "f": 1.0}'
    headers = {"gateway-token": token, "content-type": "application/json"}
    for way, field in (("heartbeat", b"progress"), ("complete", b"result")):
        body = b'{"%b": %b}' % (field, value)
        assert (await api.client.post(f"/jobs/{job_id}/{way}", content=body, headers=headers)).status_code == 200
        record = await api.client.get(f"/jobs/{job_id}")
        assert b'"%b":%b' % (field, value) in record.content


async def test_result_that_is_nested_too_deep_is_refused_and_ends_nothing(api: Running) -> None:
    job_id, token = await park(api)
    headers = {"gateway-token": token, "content-type": "application/json"}
    body = b'{"result": %b}' % (b"[" * 300 + b"]" * 300)
    assert (await api.client.post(f"/jobs/{job_id}/complete", content=body, headers=headers)).status_code in (400, 422)
    assert (await api.client.get(f"/jobs/{job_id}")).json()["status"] == "running"


@pytest.mark.parametrize(
    ("way", "body", "line"),
    [
        ("complete", {"result": 1}, {"event": "job succeeded", "log_level": "info"}),
        ("fail", {"after": "5s"}, {"event": "retry scheduled", "log_level": "info", "error": "failed"}),
        (
            "fail",
            {"retry": False, "type": "no_paper"},
            {"event": "job dead", "log_level": "warning", "error": "no_paper", "reason": "fatal"},
        ),
    ],
)
async def test_line_of_its_end_says_which_attempt_it_was(
    api: Running, way: str, body: dict[str, Any], line: dict[str, Any]
) -> None:
    job_id, token = await park(api)
    with capture_logs() as lines:
        await api.client.post(f"/jobs/{job_id}/{way}", json=body, headers={"gateway-token": token})
    (found,) = [each for each in lines if each["event"] == line["event"]]
    delay_ms = found.pop("delay_ms", None)
    assert found.pop("see", None) == (f"gateway jobs get {job_id}" if line["event"] == "job dead" else None)
    assert found == line | {"job_id": job_id, "target": "echo", "lane": "default", "attempt": 1}
    assert (delay_ms == 5000) == (line["event"] == "retry scheduled"), delay_ms


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [({}, "retrying", None), ({"after": "5s"}, "retrying", None), ({"retry": False}, "dead", "fatal")],
)
async def test_failure_is_retried_or_not_as_it_says(
    api: Running, body: dict[str, Any], status: str, reason: str | None
) -> None:
    job_id, token = await park(api)
    said = {"type": "no_paper", "message": "the tray is empty"}
    answer = await api.client.post(f"/jobs/{job_id}/fail", json=body | said, headers={"gateway-token": token})
    assert answer.json()["status"] == status
    record = (await api.client.get(f"/jobs/{job_id}")).json()
    assert (record["error"], record.get("reason")) == (said, reason)


async def test_sign_of_life_says_how_far_it_is(api: Running) -> None:
    job_id, token = await park(api)
    body = {"token": token, "progress": {"pages": 3}}
    answer = await api.client.post(f"/jobs/{job_id}/heartbeat", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["deadline"].endswith("Z")
    record = (await api.client.get(f"/jobs/{job_id}")).json()
    assert (record["status"], record["progress"]) == ("running", {"pages": 3})


async def test_no_other_token_is_taken(api: Running) -> None:
    job_id, token = await park(api)
    other_id, other = await park(api)
    stranger = completion_token(SigningKey.generate(), job_id, "1:d.1")
    for wrong in ("", "x", token[:-1], token + "A", other, stranger, "gwt..", "gwt.%.%", "\u00e4"):
        for way in ("complete", "fail", "heartbeat"):
            answer = await api.client.post(f"/jobs/{job_id}/{way}", json={"token": wrong})
            assert answer.status_code == 401, (wrong, answer.text)
    assert (await api.client.post(f"/jobs/{other_id}/complete", json={"token": other})).status_code == 200
    assert (await api.client.get(f"/jobs/{job_id}")).json()["status"] == "running"


async def test_wrong_body_loses_nothing(api: Running) -> None:
    job_id, token = await park(api)
    headers = {"gateway-token": token}
    for way, body in (("complete", {"reslt": 1}), ("fail", {"after": "soon"}), ("heartbeat", {"progress": "x" * 2000})):
        answer = await api.client.post(f"/jobs/{job_id}/{way}", json=body, headers=headers)
        assert answer.status_code == 422, answer.text
    assert (await api.client.post(f"/jobs/{job_id}/complete", headers=headers)).status_code == 200


def test_token_is_read_by_every_key_that_still_signs() -> None:
    old, new = SigningKey.generate(), SigningKey.generate()
    token = completion_token(old, JOB_ID, "3:host-1.7")
    assert read_completion_token([new, old], JOB_ID, token) == "3:host-1.7"
    assert read_completion_token([new], JOB_ID, token) is None
    assert read_completion_token([old], JOB_ID[:-1] + "1", token) is None


def test_token_has_one_spelling() -> None:
    key = SigningKey.generate()
    for held in ("3:d.7", "3:d.71", "3:d.712"):  # its base64 text would be padded by 1, 0 and 2
        token = completion_token(key, JOB_ID, held)
        prefix, encoded, mac = token.split(".")
        spare = mac[:-1] + chr(ord(mac[-1]) + 1)  # a bit that decodes to nothing
        assert read_completion_token([key], JOB_ID, token) == held
        for other in (f"{token}=", f"{token}==", f"{prefix}.{encoded}=.{mac}", f"{prefix}.{encoded}==.{mac}"):
            assert read_completion_token([key], JOB_ID, other) is None, other
        for other in (f"{token}.", f" {token}", f"{token}\n", f"{prefix}.{encoded}.{spare}", f"{token}\u00b2"):
            assert read_completion_token([key], JOB_ID, other) is None, other
