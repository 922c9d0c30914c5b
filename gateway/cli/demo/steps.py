"""The demo's steps, in order: each does something as a client would, and checks what came of it."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.cli.demo.demo_tasks import receipt
from gateway.cli.demo.push import COMMITS, REPOSITORY, make_push
from gateway.cli.demo.stage import Stage, expect
from gateway.client import verify_callback
from gateway.errors import GatewayError, Rejected

EXACT = b'{"id":9007199254740993,"ratio":1.0,"list":[],"map":{}}'
"""Above 2^53, a float that is whole, and two empties: what a round trip through a parser likes to change."""

CALLBACK_S = 10.0


@dataclass(frozen=True, slots=True)
class Step:
    """`run` tells what it does on the stage and returns what it has shown; GatewayError if that did not come out."""

    title: str
    run: Callable[[Stage], str]


def deliver(stage: Stage) -> str:
    push = make_push(stage.github_secret)
    answer = stage.post("/hooks/github", push.body, headers=push.headers, status=202)
    expect("the targets", [job["target"] for job in answer["jobs"]], ["hello-python", "hello-command"])
    whole, part = (job["job_id"] for job in answer["jobs"])
    record = stage.finish(whole, status="succeeded", payload=push.body)
    expect("the receipt for the whole body", record["result"], receipt(push.body))
    picked = orjson.dumps({"repository": REPOSITORY, "commits": COMMITS})
    record = stage.finish(part, status="succeeded", payload=picked)
    expect("the receipt for the part", record["result"], receipt(picked))
    return "two routes gave two jobs: the whole body byte for byte, and a part of it"


def deliver_twice(stage: Stage) -> str:
    push = make_push(stage.github_secret)
    first = stage.post("/hooks/github", push.body, headers=push.headers, status=202)
    for job in first["jobs"]:
        stage.wait(job["job_id"])
    count = stage.count_jobs()
    again = stage.post("/hooks/github", push.body, headers=push.headers, status=202)
    expect("the second answer", again, first | {"duplicate": True})
    expect("the number of jobs after it", stage.count_jobs(), count)
    return "the second answer names the jobs of the first, and nothing runs twice"


def deliver_changed(stage: Stage) -> str:
    push = make_push(stage.github_secret)
    count = stage.count_jobs()
    stage.post("/hooks/github", push.body.replace(b"main", b"mair", 1), headers=push.headers, status=401)
    expect("the number of jobs after it", stage.count_jobs(), count)
    return "one byte is not the one that was signed: refused, and nothing is queued"


def run_everywhere(stage: Stage) -> str:
    targets = ("hello-python", "hello-http", "hello-command")
    jobs = [stage.submit(target, EXACT) for target in targets]
    for target, job_id in zip(targets, jobs, strict=True):
        record = stage.finish(job_id, status="succeeded", payload=EXACT)
        expect(f"the receipt of {target}", record["result"], receipt(EXACT))
    return f"each got {EXACT.decode()}"


def recover(stage: Stage) -> str:
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    callback = {"url": f"{stage.receiver.url}/callbacks", "secret": secret}
    payload = b'{"failures":2}'
    job_id = stage.submit("hello-python", payload, callback=callback)
    record = stage.finish(job_id, status="succeeded", payload=payload)
    expect("the attempts", record["attempts"], 3)
    told = receive_callback(stage, secret, version="v1")
    expect("the callback's type and job", (told["type"], told["data"]["job_id"]), ("job.succeeded", job_id))
    expect("the callback's result", told["data"]["result"], record["result"])
    return "the client was told, signed with the secret that it had given"


def die(stage: Stage) -> str:
    payload = b'{"failures":9}'
    job_id = stage.submit("hello-python", payload, max_attempts=2, callback={"url": f"{stage.receiver.url}/callbacks"})
    stage.finish(job_id, status="dead", payload=payload)
    expect("the dead-letter queue", [job["job_id"] for job in stage.get("/dlq")["jobs"]], [job_id])
    public_key = stage.get("/signing-keys")["keys"][0]["public_key"]
    told = receive_callback(stage, public_key, version="v1a")
    facts = told["type"], told["data"]["job_id"], told["data"]["reason"]
    expect("the callback's type, job and reason", facts, ("job.dead", job_id, "exhausted"))
    return "it is in the dead-letter queue; the client was told, signed by our key"


def receive_callback(stage: Stage, key: str, *, version: str) -> dict[str, Any]:
    """The next callback, its signature of this version verified as any receiver would."""
    received = stage.receiver.next_callback(CALLBACK_S)
    try:
        told = verify_callback(received.headers, received.body, key)
    except Rejected as error:
        raise GatewayError(f"the callback's signature does not verify: {error.reason}") from error
    signature = next(value for name, value in received.headers.items() if name.lower() == "webhook-signature")
    expect("the signature's version", signature.partition(",")[0], version)
    attempts, size = told["data"]["attempts"], len(received.body)
    stage.tell(f"callback {told['type']} after {attempts} attempts  {size} bytes, signature {version} verified")
    return told


STEPS = (
    Step("A signed GitHub push of many commits arrives", deliver),
    Step("GitHub sends a delivery again", deliver_twice),
    Step("A delivery was tampered with", deliver_changed),
    Step("A job for each executor: python, http, command", run_everywhere),
    Step("A job fails twice, then succeeds", recover),
    Step("A job fails for good", die),
)
