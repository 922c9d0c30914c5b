"""A signed delivery from GitHub, through the real processes."""

from __future__ import annotations

import hashlib
import hmac
import os

import orjson

from tests.e2e.installation import Installation

SECRET = "It's a Secret to Everybody"
MORE = f"""
[targets.digest]
executor = "python"
callable = "tasks:digest"

[triggers.github]
verifier = "github"
secrets = [{orjson.dumps(SECRET).decode()}]
[[triggers.github.routes]]
when = "headers.\\"x-github-event\\" == 'push'"
target = "digest"
"""


def delivery() -> bytes:
    """25 KB, in an order and a spelling of its own."""
    commits = [{"id": hashlib.sha1(b"%d" % at).hexdigest(), "message": "Zeile ä\n" * 8} for at in range(160)]
    body = orjson.dumps({"zeta": 1.0, "action": "pushed", "commits": commits}, option=orjson.OPT_INDENT_2)
    assert 25_000 <= len(body) <= 32_000
    return body


def headers(body: bytes, guid: str) -> dict[str, str]:
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": guid,
        "X-Hub-Signature-256": f"sha256={signature}",
        "Content-Type": "application/json",
    }


def test_delivery_is_queued_once_and_its_bytes_arrive_as_they_were_sent(installation: Installation) -> None:
    installation.configure(more=MORE)
    installation.up()
    body = delivery()
    signed = headers(body, "72d3162e-cc78-11e3-81ab-4c9367dc0958")
    first = installation.client.post("/hooks/github", content=body, headers=signed)
    assert first.status_code == 202, first.text
    assert first.json()["duplicate"] is False
    again = installation.client.post("/hooks/github", content=body, headers=signed)
    assert (again.status_code, again.json()["duplicate"]) == (202, True)
    assert again.json()["jobs"] == first.json()["jobs"]
    at = len(body) // 2
    for changed in (body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :], body[:-1], body + b" "):
        assert installation.client.post("/hooks/github", content=changed, headers=signed).status_code == 401
    job_id = first.json()["jobs"][0]["job_id"]
    assert installation.ended(job_id)["result"] == {"action": "pushed"}
    assert installation.lines() == [["bytes", body.hex()]]
    assert os.path.getsize(installation.effects) > 50_000


THREE = """
[targets.good]
executor = "command"
argv = ["cat"]

[targets.also]
executor = "command"
argv = ["cat"]

[targets.bad]
executor = "command"
argv = ["false"]
retry = { policy = "fixed", max_attempts = 3, base = "50ms" }

[triggers.three]
verifier = "bearer"
secrets = ["a-token"]
id_header = "x-id"
[[triggers.three.routes]]
target = "good"
[[triggers.three.routes]]
target = "bad"
[[triggers.three.routes]]
target = "also"
when = "body.n == `1`"
"""


def test_only_the_route_that_fails_is_retried_and_sending_again_frees_only_what_is_dead(
    installation: Installation,
) -> None:
    installation.configure(more=THREE)
    installation.up()
    sent = {"Authorization": "Bearer a-token", "X-Id": "d-1"}
    first = installation.client.post("/hooks/three", content=b'{"n":1}', headers=sent).json()
    assert [job["target"] for job in first["jobs"]] == ["good", "bad", "also"]
    ends = [installation.ended(job["job_id"]) for job in first["jobs"]]
    assert [(end["status"], end["attempts"]) for end in ends] == [("succeeded", 1), ("dead", 3), ("succeeded", 1)]
    again = installation.client.post("/hooks/three", content=b'{"n":1}', headers=sent).json()
    kept = [old["job_id"] == new["job_id"] for old, new in zip(first["jobs"], again["jobs"], strict=True)]
    assert kept == [True, False, True]
    assert again["duplicate"] is False
